"""Holds device memory in known ways; then lets go of the variable that each line of its input names, and prints what is
still allocated. Run by test_retained.py."""

import copy
import ctypes
import gc
import json
import os
import sys

import torch

DEVICE = "cuda"
SIDE = 256


def big(megabytes=1):
    return torch.ones(megabytes, 1 << 18, device=DEVICE)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(SIDE, SIDE)
        self.second = torch.nn.Linear(SIDE, SIDE)
        self.register_buffer("mask", torch.ones(SIDE, SIDE))

    def forward(self, x):
        return x + self.second(torch.relu(self.first(x))) * self.mask[0]


class Net(torch.nn.Module):
    def __init__(self, embedding=None):
        super().__init__()
        self.embedding = embedding or torch.nn.Embedding(1000, SIDE)
        self.layers = torch.nn.ModuleList([Block() for _ in range(3)])

    def forward(self, x):
        x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        return x


class Cache:
    def __init__(self):
        self.kept = {"keys": big(2), "values": big(3)}
        self.name = "cache"


def counter(start):
    kept = start

    def count():
        return kept

    return count


gc.disable()

model = Net().to(DEVICE)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    optimizer.zero_grad()
    model(torch.arange(64, device=DEVICE)).square().mean().backward()
    optimizer.step()

ema = copy.deepcopy(model).requires_grad_(False)
for parameter in ema.parameters():
    parameter.grad = None
del parameter

embedding = torch.nn.Embedding(5000, SIDE, device=DEVICE)
left, right = Net(embedding).to(DEVICE), Net(embedding).to(DEVICE)
del embedding

loss = model(torch.arange(128, device=DEVICE)).square().mean()
leak = []
for _ in range(20):
    leak.append({"output": big().detach(), "step": 1})

whole = big(8)
views = [whole[0], whole[1].detach()]
del whole
lone_view = big(4)[1:2]

same = also_same = big(5)
cache = Cache()
closure = counter(big(6))
two_lists_a = [big(7)]
two_lists_b = [two_lists_a[0]]
untyped = big(2).untyped_storage()


def make_cycle():
    """Garbage."""
    cycle = [big(3)]
    cycle.append(cycle)


make_cycle()

# a reference that is in no object of Python's
uncounted = big(2)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(uncounted))
del uncounted

# autocast keeps the weights that it cast in a static of C++
autocast = torch.autocast("cuda", dtype=torch.bfloat16)
autocast.__enter__()
cast_weights = torch.nn.Linear(1024, 1024, device=DEVICE)
cast_weights(torch.ones(4, 1024, device=DEVICE))


def serve(argument):
    history = [big() for _ in range(10)]
    generator = (item for item in [big(2)])
    boxed = big(4)

    def shows():
        return boxed

    print(json.dumps({"pid": os.getpid(), "allocated": torch.cuda.memory_allocated()}), flush=True)
    for line in sys.stdin:
        names = line.split()
        if names == ["make", "a", "cycle"]:
            make_cycle()
            print(torch.cuda.memory_allocated(), flush=True)
            continue
        for name in names:
            if name == "history":
                del history
            elif name == "generator":
                del generator
            elif name == "boxed":
                del boxed
            elif name == "argument":
                del argument
            elif name == "autocast":
                globals().pop("autocast").__exit__(None, None, None)
            else:
                globals().pop(name, None)
        gc.collect()
        print(torch.cuda.memory_allocated(), flush=True)


serve(big(9))
