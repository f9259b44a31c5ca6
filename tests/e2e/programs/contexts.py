"""contexts.py SEED: a graph through autograd.Functions made up by chance: each keeps tensors of sizes of their own in attributes
of its context, and some with save_for_backward(); and generators within generators that hold tensors in variables. Prints
the truth as JSON: the bytes by class and attribute (null: save_for_backward), and by generator and variable."""

import json
import random
import sys
import time

import torch

rng = random.Random(int(sys.argv[1]))
sizes = iter(range(100, 1000))
saved, held = [], []


def zeros():
    return torch.zeros(next(sizes) << 10, dtype=torch.uint8, device="cuda")


def make(number):
    attributes = [f"{rng.choice('pqrs')}{i}" for i in range(rng.randrange(3))]
    kept = rng.random() < 0.5
    name = f"Step{number}"

    def forward(ctx, x):
        for attribute in attributes:
            tensor = zeros()
            setattr(ctx, attribute, tensor)
            saved.append([f"{name}Backward", attribute, tensor.nbytes])
        if kept:
            tensor = zeros()
            ctx.save_for_backward(tensor)
            saved.append([f"{name}Backward", None, tensor.nbytes])
        return x.view_as(x)

    return type(name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(lambda ctx, grad: grad)})


def innermost():
    base = zeros()
    held.append(["innermost", "base", base.nbytes])
    yield 0
    yield 1


def middle(inner):
    mine = zeros()
    held.append(["middle", "mine", mine.nbytes])
    for item in inner:
        yield item


def outer(inner):
    first, second = zeros(), zeros()
    held.append(["outer", "first", first.nbytes])
    held.append(["outer", "second", second.nbytes])
    yield from inner


generator = innermost()
for wrap in rng.sample([middle, outer], rng.randrange(3)):
    generator = wrap(generator)
next(generator)
out = torch.ones(1, device="cuda", requires_grad=True)
for number in range(rng.randrange(1, 5)):
    out = make(number).apply(out)
print(json.dumps({"saved": saved, "held": held}), flush=True)
time.sleep(600)
