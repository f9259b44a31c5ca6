"""FSDP2 that trains and evaluates; the functions' names say which phase their allocations belong to."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def forward(model, data):
    return model(data).mean()


def evaluation(model, data):
    with torch.no_grad():
        return model(data).mean()


@torch.no_grad()
def wrapped_evaluation(model, data):
    return model(data).mean()


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(3))).to("cuda")
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(5):
        loss = forward(model, torch.randn(64, 256, device="cuda"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 2:
            evaluation(model, torch.randn(64, 256, device="cuda"))
        if step == 2:
            wrapped_evaluation(model, torch.randn(64, 256, device="cuda"))
    evaluation(model, torch.randn(64, 256, device="cuda"))
    dist.destroy_process_group()
