"""A training loop that keeps what it should not: the loss with its graph, in a list for a plot.

Each element holds the whole graph of its step, with all activations in it. `losses.append(loss.item())` would hold
a number.

    build/bin/gpumem gdb --sim -- .venv/bin/python examples/leak.py
"""

import torch
from torch import nn


def train(steps=6):
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        inputs = torch.randn(256, 1024, device="cuda")
        loss = model(inputs).square().mean()
        losses.append(loss)
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
    return losses


if __name__ == "__main__":
    train()
    print(f"allocated: {torch.cuda.memory_allocated():,}")
