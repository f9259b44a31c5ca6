"""What a forward pass of small models keeps for backward, by PyTorch's allocator: what test_estimate.py compares with.

    estimate_kept.py FOLDER        (on the simulated device)

For each case writes FOLDER/NAME/config.json and prints a line of JSON: the settings, and the bytes that are allocated after the
forward pass and were not before it, with the output kept.
"""

import contextlib
import json
import os
import sys

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch  # noqa: E402
from transformers import CONFIG_MAPPING, AutoModelForCausalLM  # noqa: E402

BATCH, SEQUENCE = 2, 128
USUAL = {
    "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 704,
    "vocab_size": 1000, "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
MORE = {
    "gpt2": {"n_embd": 256, "n_layer": 3, "n_head": 4, "n_positions": 512, "vocab_size": 1000, "bos_token_id": 1, "eos_token_id": 2},
    "opt": {**USUAL, "ffn_dim": 1024},
    "qwen3": {**USUAL, "head_dim": 64},
    "gemma": {**USUAL, "head_dim": 64},
    "gemma2": {**USUAL, "head_dim": 64},
    "gemma3_text": {**USUAL, "head_dim": 64},
    "qwen2_moe": {**USUAL, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 400, "shared_expert_intermediate_size": 300},
    "qwen3_moe": {**USUAL, "head_dim": 64, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 400},
    "mixtral": {**USUAL, "num_local_experts": 4, "num_experts_per_tok": 2},
}
FLOAT32, BFLOAT16 = torch.float32, torch.bfloat16
CASES = [
    *((name, "sdpa", dtype, None) for name in ("llama", "qwen2", "qwen3", "phi3", "gpt2", "opt", "gemma", "starcoder2") for dtype in (FLOAT32, BFLOAT16)),
    *((name, "eager", BFLOAT16, None) for name in ("llama", "qwen2", "gpt2", "gemma2", "opt", "gpt_neox")),
    *((name, "sdpa", FLOAT32, BFLOAT16) for name in ("llama", "qwen3", "phi3", "gpt2", "phi")),
    ("gpt2", "eager", FLOAT32, BFLOAT16),
    *((name, "sdpa", BFLOAT16, None) for name in ("mistral", "granite", "smollm3", "olmo2", "gemma3_text")),
    *((name, "sdpa", BFLOAT16, None) for name in ("mixtral", "qwen2_moe", "qwen3_moe")),
]  # fmt: skip


def kept(config, attention, dtype, autocast):
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)
    model.train()
    tokens = torch.ones((BATCH, SEQUENCE), dtype=torch.long, device="cuda")
    before = torch.cuda.memory_allocated()
    with torch.autocast("cuda", autocast) if autocast else contextlib.nullcontext():
        output = model(tokens, labels=tokens, use_cache=False)
    bytes_kept = torch.cuda.memory_allocated() - before
    assert output.logits.numel() == BATCH * SEQUENCE * config.vocab_size
    return bytes_kept


def main(folder):
    for number, (name, attention, dtype, autocast) in enumerate(CASES):
        config = CONFIG_MAPPING[name](**MORE.get(name, USUAL))
        config.save_pretrained(f"{folder}/{number}")
        case = {"name": str(number), "architecture": name, "dtype": str(dtype)[6:], "autocast": autocast and str(autocast)[6:]}
        case |= {"attention": {"sdpa": "efficient", "eager": "materialized"}[attention], "batch": BATCH, "sequence": SEQUENCE}
        print(json.dumps(case | {"kept": kept(config, attention, dtype, autocast)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
