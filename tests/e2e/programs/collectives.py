"""Calls collectives in each phase of a training loop, and writes what it called: kind, dtype, bytes, group, step and phase.

    python collectives.py OUT SEED
"""

import json
import os
import random
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

told, now = [], {"step": None, "phase": None}
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8]


def tell(kind, send, receive, peer=None, group=None):
    """One call, as it is made: send and receive are tensors or None."""
    some = send if send is not None else receive
    told.append({
        "kind": kind, "dtype": str(some.dtype).removeprefix("torch."), "peer": peer, "ranks": dist.get_world_size(group),
        "send_bytes": 0 if send is None else send.nbytes, "receive_bytes": 0 if receive is None else receive.nbytes,
        "send": None if send is None else send.data_ptr(), "receive": None if receive is None else receive.data_ptr(), **now,
    })  # fmt: skip


def call(kind, count, dtype, group=None):
    world, rank = dist.get_world_size(group), dist.get_rank()
    small, large = (torch.zeros(size, dtype=dtype, device="cuda") for size in (count, count * world))
    root = chance.randrange(world)
    if kind == "all_reduce":
        tell(kind, small, small, group=group)
        dist.all_reduce(small, group=group)
    elif kind == "reduce":
        tell(kind, small, small if rank == root else None, root, group)
        dist.reduce(small, root, group=group)
    elif kind == "broadcast":
        tell(kind, *((small, None) if rank == root else (None, small)), root, group)
        dist.broadcast(small, root, group=group)
    elif kind == "all_gather":
        tell(kind, small, large, group=group)
        dist.all_gather_into_tensor(large, small, group=group)
    elif kind == "reduce_scatter":
        tell(kind, large, small, group=group)
        dist.reduce_scatter_tensor(small, large, group=group)


def some(group=None):
    for _ in range(chance.randrange(1, 4)):
        kind = chance.choice(["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"])
        call(kind, chance.randrange(1, 5000), chance.choice(DTYPES), group)


class Gathers(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        some()
        return value * 1

    @staticmethod
    def backward(ctx, gradient):
        some()
        return gradient * 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 128), nn.Linear(128, 8)

    def forward(self, value):
        return self.b(Gathers.apply(torch.relu(self.a(value))))


class Sharing(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        now["phase"] = "optimizer"
        some()


def reduce(state, bucket):
    """DistributedDataParallel's own, told."""
    buffer = bucket.buffer()
    tell("all_reduce", buffer, buffer)
    return dist.all_reduce(buffer.div_(dist.get_world_size()), async_op=True).get_future().then(lambda future: future.value()[0])


def train(model, optimizer, other):
    for step in range(1, 4):
        now.update(step=step, phase="forward")
        loss = model(torch.ones(16, 64, device="cuda")).sum()
        now["phase"] = None
        some(other)
        now["phase"] = "backward"
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        now.update(step=None, phase=None)


if __name__ == "__main__":
    chance = random.Random(int(sys.argv[2]))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    net = DistributedDataParallel(Net().cuda())
    net.register_comm_hook(None, reduce)
    told.clear()
    train(net, Sharing(net.parameters(), 0.1), dist.new_group(range(dist.get_world_size())))
    dist.barrier()
    with open(sys.argv[1].replace("%r", os.environ["RANK"]), "w") as out:
        json.dump(told, out)
    dist.destroy_process_group()
