"""Small models of every architecture, built by transformers on torch's meta device: what test_estimate.py compares with.

    estimate_models.py FOLDER SEEDS ARCHITECTURE ...

For each architecture and seed writes FOLDER/ARCHITECTURE-SEED/config.json, as transformers does, and prints a line of JSON: the
folder's name, the number of parameters.
"""

import json
import os
import random
import sys

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch  # noqa: E402
from transformers import CONFIG_MAPPING, AutoModelForCausalLM  # noqa: E402

SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WITH_ATTENTION_BIAS = (
    "llama qwen3 granite smollm3 olmo2 gemma gemma2 gemma3_text gpt_oss qwen3_moe deepseek_v2 deepseek_v3 gpt_neox"
).split()
WITH_HEAD_DIM = "llama mistral qwen3 gemma gemma2 gemma3_text gpt_oss mixtral qwen3_moe".split()


def experts(pick, name):
    count, wide = pick.randint(2, 9), pick.randint(5, 99)
    if name in ("mixtral", "gpt_oss"):
        return {"num_local_experts": count, "num_experts_per_tok": pick.randint(1, 2)}
    if name in ("qwen2_moe", "qwen3_moe"):
        more = {"num_experts": count, "num_experts_per_tok": pick.randint(1, 2), "moe_intermediate_size": wide}
        more |= {"decoder_sparse_step": pick.randint(1, 3), "mlp_only_layers": pick.sample(range(5), pick.randint(0, 2))}
        if name == "qwen2_moe":
            more |= {"shared_expert_intermediate_size": pick.randint(5, 99), "qkv_bias": pick.random() < 0.5}
        return more
    if name.startswith("deepseek"):
        more = {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "moe_intermediate_size": wide}
        more |= {"n_shared_experts": pick.randint(1, 3), "first_k_dense_replace": pick.randint(0, 3)}
        more |= {"kv_lora_rank": pick.randint(4, 40), "q_lora_rank": pick.choice([None, pick.randint(4, 40)])}
        return more | {"qk_rope_head_dim": pick.choice([4, 8]), "qk_nope_head_dim": pick.choice([8, 12]), "v_head_dim": pick.choice([8, 20])}
    return {}


def fields(pick, name):
    """A random config's."""
    heads = pick.choice([2, 4, 6, 8])
    hidden, layers = heads * pick.choice([8, 16, 24]), pick.randint(1, 5)
    rest = {"vocab_size": pick.randint(10, 999), "tie_word_embeddings": pick.random() < 0.5, **SPECIAL}
    if name == "gpt2":
        inner = {"n_inner": pick.randint(5, 300)} if pick.random() < 0.5 else {}
        return {"n_embd": hidden, "n_layer": layers, "n_head": heads, "n_positions": pick.randint(16, 99), **inner, **rest}
    made = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, **rest}
    made["max_position_embeddings"] = pick.randint(16, 99)
    made["ffn_dim" if name == "opt" else "intermediate_size"] = pick.randint(5, 300)
    if name != "opt":
        made["num_key_value_heads"] = pick.choice([n for n in range(1, heads + 1) if heads % n == 0])
    if name in WITH_ATTENTION_BIAS:
        made["attention_bias"] = pick.random() < 0.5
    if name in ("llama", "granite", "smollm3"):
        made["mlp_bias"] = pick.random() < 0.5
    if name in WITH_HEAD_DIM and pick.random() < 0.7:
        made["head_dim"] = pick.choice([8, 16, 40])
    if name == "starcoder2":
        made["use_bias"] = pick.random() < 0.5
    return made | experts(pick, name)


def main(folder, seeds, names):
    for name in names:
        for seed in range(seeds):
            config = CONFIG_MAPPING[name](**fields(random.Random(f"{name}{seed}"), name))
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(config)
            config.save_pretrained(f"{folder}/{name}-{seed}")
            print(json.dumps({"name": f"{name}-{seed}", "parameters": sum(p.numel() for p in model.parameters())}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
