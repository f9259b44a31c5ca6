"""cycles.py SEED COUNT: makes COUNT groups of objects that refer to each other by chance, in Python and in PyTorch's C++, and drops
them. It prints {"pid", "blocks": [address, ...]}, waits for a line, lets Python's collector run once, and prints what is left."""

import gc
import json
import os
import random
import sys

import torch


class Holder:
    pass


class Keeps(torch.autograd.Function):
    """Keeps what it is given in one of the ways that autograd.Functions have."""

    @staticmethod
    def forward(ctx, x, way, other):
        y = x * 2
        if way == "attribute":
            ctx.other = other
        elif way == "output":
            ctx.output = y
        elif way == "saved":
            ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None, None


def leaf():
    return torch.empty(128, device="cuda").requires_grad_()


def closure(over):
    return lambda gradient: gradient if over else None


def group(chance):
    holders = [Holder() for _ in range(chance.randint(1, 3))]
    tensors = [leaf() for _ in range(chance.randint(1, 3))]
    for _ in range(chance.randint(0, 3)):
        x, holder = chance.choice(tensors), chance.choice(holders)
        way = chance.choice(["mul", "tanh", "view", "attribute", "output", "saved"])
        tensors.append(
            x * chance.choice(tensors) if way == "mul"
            else x.tanh() if way == "tanh"
            else x.view(128) if way == "view"
            else Keeps.apply(x, way, holder)
        )  # fmt: skip
    for _ in range(chance.randint(2, 6)):
        holder, tensor = chance.choice(holders), chance.choice(tensors)
        kind = chance.choice(["item", "back", "self", "grad", "hook", "node hook", "node", "ctx", "of node", "post hook"])
        if kind == "item":
            setattr(holder, f"t{chance.randrange(3)}", tensor)
        elif kind == "back":
            tensor.back = holder
        elif kind == "self":
            holder.other = [chance.choice(holders)]
        elif kind == "grad" and tensor.is_leaf:
            tensor.grad = chance.choice([one for one in tensors if one is not tensor] or [None])
        elif kind == "hook":
            tensor.register_hook(closure(chance.choice([holder, tensor])))
        elif kind == "post hook" and tensor.is_leaf:
            tensor.register_post_accumulate_grad_hook(closure(holder))
        elif kind == "node hook" and tensor.grad_fn is not None:
            tensor.grad_fn.register_hook(closure(chance.choice([holder, tensor])))
        elif kind in ("node", "ctx") and tensor.grad_fn is not None:
            holder.node = tensor.grad_fn
        elif kind == "of node" and tensor.grad_fn is not None:
            tensor.grad_fn.metadata["holder"] = holder


def blocks():
    torch.cuda.synchronize()
    return sorted(block["address"] for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]
                  if block["state"] == "active_allocated")  # fmt: skip


seed, count = int(sys.argv[1]), int(sys.argv[2])
leaf().tanh().sum().backward()  # what PyTorch makes once
before = set(blocks())
gc.collect()
gc.disable()
chance = random.Random(seed)
for _ in range(count):
    group(chance)
print(json.dumps({"pid": os.getpid(), "blocks": [address for address in blocks() if address not in before]}), flush=True)
sys.stdin.readline()
gc.collect()
print(json.dumps([address for address in blocks() if address not in before]), flush=True)
sys.stdin.readline()
