"""Trains a small model for three steps, writes PyTorch's snapshot, says where an output lies, and waits.
Arguments: the snapshot's file."""

import sys

import torch
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

torch.cuda.memory._record_memory_history(stacks="python", max_entries=100000)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16)).cuda()
optimizer = torch.optim.Adam(model.parameters())
kept = []
for step in range(3):
    data = torch.randn(32, 64, device="cuda")
    output = model(data)
    kept.append(output.detach())
    output.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.memory._dump_snapshot(sys.argv[1])
torch.cuda.memory._record_memory_history(enabled=None)
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
parallel = torch.nn.parallel.DistributedDataParallel(nn.Linear(8, 8).cuda())
sharded = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.Adam)
parallel(torch.ones(2, 8, device="cuda")).sum().backward()
sharded.step()
print(hex(output.data_ptr()), flush=True)
sys.stdin.read()
