"""A training loop with a leak: what does each variable keep? Asked with `gpumem retained`.

Each step also keeps a score. It is a tensor, not a number: with it lives all that autograd saved to compute it.

    build/bin/gpumem gdb --sim -- .venv/bin/python examples/who_keeps.py
"""

import copy

import torch
from torch import nn


def train(model, steps=6):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    average = copy.deepcopy(model).requires_grad_(False)
    scores = []
    for step in range(steps):
        inputs = torch.randn(512, 1024, device="cuda")
        loss = (model(inputs) - inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scores.append(model(inputs).abs().mean())  # .item() is missing
        for kept, now in zip(average.parameters(), model.parameters()):
            kept.lerp_(now.detach(), 0.01)


if __name__ == "__main__":
    train(nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to("cuda"))
