"""A Qwen2 of 1.5 billion parameters from its config, batch 16 x 256, three steps of bf16 training."""

import time

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

with torch.device("cuda"):
    model = Qwen2ForCausalLM._from_config(
        Qwen2Config(
            vocab_size=151936,
            hidden_size=1536,
            intermediate_size=8960,
            num_hidden_layers=28,
            num_attention_heads=12,
            num_key_value_heads=2,
            tie_word_embeddings=True,
        ),
        dtype=torch.bfloat16,
    )
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
start = time.monotonic()
for step in range(3):
    tokens = torch.randint(0, 151936, (16, 256), device="cuda")
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"steps {step + 1} in {time.monotonic() - start:.1f} s", sum(p.numel() for p in model.parameters()))
