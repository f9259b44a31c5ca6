"""The table of docs/estimate.md: the formula and hooks, compared with the model that runs on the simulated device.

    .venv/bin/python tests/tools/estimate_table.py
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MODELS = {
    "Qwen2.5-1.5B": json.loads((ROOT / "examples" / "qwen2_config.json").read_text()),
    "Llama-3.2-1B": {
        "model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True, **SPECIAL,
    },
    "Qwen3-0.6B": {
        "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True, **SPECIAL,
    },
    "GPT-2 medium": {"model_type": "gpt2", "vocab_size": 50257, "n_embd": 1024, "n_layer": 24, "n_head": 16, "n_positions": 1024, **SPECIAL},
    "Phi-3-mini": {
        "model_type": "phi3", "vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, **SPECIAL,
    },
}  # fmt: skip
SETTINGS = {
    "float32, 4 x 512": ["--batch=4", "--sequence=512", "--dtype=float32"],
    "bfloat16, 8 x 1024, checkpointing": ["--batch=8", "--sequence=1024", "--dtype=bfloat16", "--checkpointing=full"],
    "autocast, 4 x 512, materialized": ["--batch=4", "--sequence=512", "--dtype=float32", "--autocast=bfloat16", "--attention=materialized"],
}  # fmt: skip


def main():
    print("| model | setting | formula | hooks | simulated | formula is | hooks are |\n|---|---|---|---|---|---|---|")
    for name, config in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "config.json"
            path.write_text(json.dumps(config))
            for setting, words in SETTINGS.items():
                simulated, hooks = (ask(path, *words, f"--method={method}") for method in ("simulate", "hooks"))
                built = simulated["simulated"]["total"]
                figures = [simulated["formula_total"], hooks["total"], built]
                errors = [round(100 * (figure - built) / built, 1) + 0 for figure in figures[:2]]
                cells = [*(f"{figure / 2**30:.2f} GiB" for figure in figures), *(f"{error:+.1f} %".replace("+0.0", "0.0") for error in errors)]
                print(f"| {name} | {setting} | {' | '.join(cells)} |", flush=True)


def ask(*words):
    command = [ROOT / "build/bin/gpumem", "estimate", *words, f"--python={sys.executable}", "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
