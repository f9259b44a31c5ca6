"""Frees that wait: a block used on another stream is let go later than its tensor."""

import torch

side = torch.cuda.Stream()
for size in (1_000_000, 2_000_000, 30_000):
    used = torch.empty(size, device="cuda")
    used.record_stream(side)
    del used
    kept = torch.empty(size, device="cuda")
torch.cuda.synchronize()
last = torch.empty(10, device="cuda")
