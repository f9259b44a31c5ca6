"""shapes_between.py: prints its process id and waits for a line; then lets go of some tensors, makes others, and says so."""

import os
import sys
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Linear(64, 64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(2))


net = Net().to("cuda")
plain = nn.Sequential(nn.Linear(64, 64)).to("cuda")
old = [torch.zeros(300, 700, device="cuda") for _ in range(2)]
kept = [torch.zeros(1000, dtype=torch.int64, device="cuda")]
print(os.getpid(), flush=True)
sys.stdin.readline()
old.clear()
kept.append(torch.zeros(1000, dtype=torch.int64, device="cuda"))
kept += [torch.zeros(100, 1000, dtype=torch.float16, device="cuda") for _ in range(3)]
print("changed", flush=True)
time.sleep(600)
