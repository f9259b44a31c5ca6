"""A GPT with a large vocabulary whose layers are checkpointed: what are the shapes in a memory profile?

A step ends its forward pass in the logits, the widest tensor there is. zero_grad() stands between the loss and
backward(), which computes each layer again. `gpumem timeline` says in words where each of these is.

    build/bin/gpumem run --sim -o gpt.gpumem -- .venv/bin/python examples/gpt.py

With `bf16` behind it the forward pass runs in half precision, with `fused` the optimizer is the fused one.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

VOCABULARY, WIDTH, LAYERS, BATCH, LENGTH = 50_000, 256, 6, 4, 256


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(LAYERS)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.head(x)


def train(model, steps=3, bf16=False, fused=None):
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    for _ in range(steps):
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH), device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            logits = model(tokens)
            loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train(GPT().to("cuda"), bf16="bf16" in sys.argv, fused="fused" in sys.argv or None)
    print(f"peak: {torch.cuda.max_memory_allocated():,} bytes")
