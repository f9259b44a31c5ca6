"""The cost of recording on this device: allocations alone, and training steps. Prints seconds as JSON (best of three).

    python overhead.py [torch]      `torch`: PyTorch's own recorder is on, with Python stacks
"""

import json
import sys
import time

import torch
from torch import nn

if "torch" in sys.argv:
    torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=1_000_000)


def best(function):
    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def allocations():
    for _ in range(20_000):
        torch.empty(1000, device="cuda")


model = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True), 8).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def steps(batch):
    for _ in range(10):
        x = torch.randn(batch, 128, 512, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


steps(2)
print(json.dumps({"allocations": best(allocations), "small steps": best(lambda: steps(2)), "large steps": best(lambda: steps(64))}))
