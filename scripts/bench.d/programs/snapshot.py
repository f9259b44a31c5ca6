"""snapshot.py OUT EVENTS STACKS: trains a small GPT under PyTorch's own recorder until EVENTS are recorded; dumps them."""

import sys

import torch
from torch import nn

out, wanted, stacks = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.cuda.memory._record_memory_history(context="all", stacks=stacks, max_entries=wanted)
layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
model = nn.Sequential(nn.Embedding(1000, 128), nn.TransformerEncoder(layer, 6), nn.Linear(128, 1000)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.zeros(8, 64, dtype=torch.long, device="cuda")
while torch.cuda.memory_stats()["allocation.all.allocated"] * 3 < wanted:
    for _ in range(20):
        optimizer.zero_grad()
        logits = model(tokens)
        nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
torch.cuda.memory._dump_snapshot(out)
