"""A small training loop: forward, backward, AdamW, zero_grad. Where does each kind of memory come from?

The first step makes the optimizer's moments; the later ones find them there. Gradients live from the
backward pass to zero_grad().

    build/bin/gpumem gdb --sim -- .venv/bin/python examples/train_mlp.py
"""

import torch
from torch import nn


def make_model():
    return nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).to("cuda")


def train(model, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        inputs = torch.randn(64, 512, device="cuda")
        targets = torch.randn(64, 512, device="cuda")
        outputs = model(inputs)
        loss = nn.functional.mse_loss(outputs, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    train(make_model())
    stats = torch.cuda.memory_stats()
    for name in ("allocated_bytes.all.current", "allocated_bytes.all.peak", "reserved_bytes.all.peak"):
        print(f"{name}: {stats[name]:,}")
