"""vLLM in one process: a small Llama from its configuration with weights that are made up, asked over and over.

    python vllm_llama.py FOLDER eager|graphs

Prints "serving PID" after the first answers, serves until its input ends, and says then how many rounds there were.
"""

import json
import os
import select
import sys
from pathlib import Path

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ["VLLM_NO_USAGE_STATS"] = "1"
folder, how = Path(sys.argv[1]), sys.argv[2]
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "vocab_size": 32000,
    "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 4, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def main():
    from vllm import LLM, SamplingParams

    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    server = LLM(
        model=str(folder), load_format="dummy", skip_tokenizer_init=True, enforce_eager=how == "eager",
        gpu_memory_utilization=0.5, max_model_len=1024, max_num_seqs=8,
    )  # fmt: skip
    wanted = SamplingParams(max_tokens=16, detokenize=False, ignore_eos=True)
    prompts = [{"prompt_token_ids": list(range(1, 33))}] * 4
    rounds = 0
    while rounds == 0 or not select.select([sys.stdin], [], [], 0)[0]:
        answers = server.generate(prompts, wanted, use_tqdm=False)
        assert all(len(answer.outputs[0].token_ids) == 16 for answer in answers)
        rounds += 1
        if rounds == 1:
            print(f"serving {os.getpid()}", flush=True)
    print(f"rounds {rounds}", flush=True)


if __name__ == "__main__":
    main()
