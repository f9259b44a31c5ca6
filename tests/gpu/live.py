"""Holds tensors whose holders are known, on the device; prints its pid and each tensor's address, and waits for a byte.

    python live.py      the first line is JSON: {"pid": …, "tensors": {name: address}}
"""

import json
import os
import sys

import torch
from torch import nn


class Cache:
    def __init__(self):
        self.entries = {"first": [torch.zeros(300_000, device="cuda")], "second": (torch.ones(1000, device="cuda"),)}


cache = Cache()
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    loss = model(torch.randn(64, 256, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
loss = model(torch.randn(64, 256, device="cuda")).square().mean()  # holds a graph


def inside(argument):
    local = argument + 1
    tensors = {
        "cache.entries['first'][0]": cache.entries["first"][0],
        "cache.entries['second'][0]": cache.entries["second"][0],
        "weight": model[0].weight,
        "moment": optimizer.state[model[2].weight]["exp_avg"],
        "loss": loss,
        "local": local,
        "argument": argument,
    }
    addresses = {name: hex(t.data_ptr()) for name, t in tensors.items()}
    del tensors
    free, total = torch.cuda.mem_get_info()
    stats = {k: v for k, v in torch.cuda.memory_stats().items() if isinstance(v, int)}
    print(json.dumps({"pid": os.getpid(), "tensors": addresses, "used": total - free, "stats": stats}), flush=True)
    sys.stdin.read(1)


inside(torch.full((5000,), 2.0, device="cuda"))
