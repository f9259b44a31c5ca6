"""A PyTorch program with some heap: prints its pid and a block's address, and waits."""

import os
import sys

import torch

rows = [{"name": f"row {i}", "values": [float(i), float(i + 1)]} for i in range(300_000)]
on_host = torch.ones(200 << 20, dtype=torch.uint8)
kept = torch.zeros(1 << 20, device="cuda")
print(os.getpid(), hex(kept.untyped_storage().data_ptr()), flush=True)
sys.stdin.read()
