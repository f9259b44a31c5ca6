"""ZeRO-1 in two processes with mixed precision: what does a rank keep, and what moves between them?

Each rank keeps the optimizer's state of its share of the parameters; after the step the parameters are broadcast.

    build/bin/gpumem run --sim=h100-80gbx2 -o zero1.%r.gpumem -- .venv/bin/torchrun --nproc-per-node 2 examples/zero1.py

A command as an argument is run by rank 1 when it has trained; {pid} in it is rank 1's number, and
{pids} the options that name all ranks. Behind it may stand another number of layers than four.
"""

import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def train(model, steps=3):
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(steps):
        data = torch.randn(512, 2048, device="cuda")
        with torch.autocast("cuda", torch.float16):
            loss = model(data).float().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return optimizer


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    layers = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(layers))).to("cuda")
    parallel = DistributedDataParallel(model)
    optimizer = train(parallel)
    print(f"rank {dist.get_rank()}: peak {torch.cuda.max_memory_allocated():,} bytes\n", end="", flush=True)
    if len(sys.argv) > 1:
        pids = [0] * dist.get_world_size()
        dist.all_gather_object(pids, os.getpid(), group=dist.new_group(backend="gloo"))
        names = " ".join(f"--pid {pid}" for pid in pids)
        if dist.get_rank() == 1:
            subprocess.run(sys.argv[1].format(pid=os.getpid(), pids=names), shell=True, check=True)
    dist.barrier()
    dist.destroy_process_group()
