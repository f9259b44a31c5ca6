"""FSDP2 in two processes: which part of a parameter does a rank own, and when is the parameter complete?

Each layer is a unit: fully_shard() divides its weight by rows. A layer's weight is gathered before its forward and
before its backward, and released after each.

    build/bin/gpumem run --sim=h100-80gbx2 --rank 1 --world 2 -o fsdp2.gpumem -- .venv/bin/python examples/fsdp2.py
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def train(model, steps=3):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        data = torch.randn(512, 2048, device="cuda")
        loss = model(data).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(4))).to("cuda")
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    train(model)
    print(f"rank {dist.get_rank()}: peak {torch.cuda.max_memory_allocated():,} bytes\n", end="", flush=True)
    dist.destroy_process_group()
