"""two_peaks.py OUT ROWS: a model whose peak is in the optimizer with few rows, and at the loss with many."""

import sys

import torch
from torch import nn

out, rows = sys.argv[1], int(sys.argv[2])
torch.cuda.memory._record_memory_history(stacks="python")


def train():
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.GELU()))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        x = torch.randn(rows, 1024, device="cuda")
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


train()
torch.cuda.memory._dump_snapshot(out)
