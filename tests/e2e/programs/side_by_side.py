"""side_by_side.py OUT HIDDEN [leak]: trains for six steps under PyTorch's recorder; prints PyTorch's own peak."""

import json
import sys

import torch
from torch import nn

out, hidden, leak = sys.argv[1], int(sys.argv[2]), len(sys.argv) > 3
torch.cuda.memory._record_memory_history(stacks="python")


def train(kept):
    model = nn.Sequential(nn.Linear(1000, hidden), nn.ReLU(), nn.Linear(hidden, 1000)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(6):
        x = torch.randn(2000, 1000, device="cuda")
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if leak:
            kept.append(x.clone())  # LEAK


train([])
print(json.dumps({"peak": torch.cuda.max_memory_allocated()}))
torch.cuda.memory._dump_snapshot(out)
