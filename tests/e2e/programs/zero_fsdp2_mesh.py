"""Rank 0 of four, two by two: the first module is split by tensors too (FSDP2 and tensor parallelism), the other one is replicated by the
second dimension of the mesh, as HSDP does. Their names have wrapper modules. Then it stands still until FOLDER/done is there.

    zero_fsdp2_mesh.py FOLDER
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from zero_hold import hold


class Compiled(nn.Module):
    """As torch.compile() wraps a module, without what compiles it."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module

    def forward(self, x):
        return self._orig_mod(x)


def train(model):
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 64, device="cuda")).sum().backward()
    optimizer.step()
    owned = [(one.numel(), one.to_local().numel()) for one in model.parameters()]
    return model, optimizer, {"address": id(optimizer), "elements": sum(e for e, _ in owned), "owned": sum(o for _, o in owned)}


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
layers = nn.Sequential(nn.Linear(64, 256, bias=False), nn.ReLU(), nn.Linear(256, 64, bias=False)).cuda()
parallelize_module(layers, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(layers, mesh=mesh["dp"])
split = train(layers)
wrapped = nn.Sequential(checkpoint_wrapper(nn.Linear(64, 64)), Compiled(nn.Linear(64, 64))).cuda()
fully_shard(wrapped, mesh=mesh)
hybrid = train(wrapped)
hold(sys.argv[1], {"split": split[2], "hybrid": hybrid[2]})
