"""Random training loops on the CPU whose gradients overflow at a random place, and what the program itself sees of it.

    python amp_overflow.py OUT SEED

A hook on each parameter notes when its gradient has an element that is not finite; behind each scaler.step() the gradients are
counted by their addresses.
"""

import json
import random
import sys

import torch
from torch import nn

chance = random.Random(int(sys.argv[2]))
torch.manual_seed(int(sys.argv[2]))
width, depth, parts = chance.choice([3, 64, 200]), chance.randrange(1, 5), chance.choice([1, 1, 2])
dtype, foreach, none = chance.choice([torch.float32, torch.float32, torch.float64]), chance.choice([True, False]), chance.random() < 0.8
tied = depth > 1 and chance.random() < 0.3

model = nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(width, width, bias=chance.random() < 0.7), nn.Tanh()))).to(dtype)
if tied:
    model[2].weight = model[0].weight
optimizer = torch.optim.Adam(model.parameters(), foreach=foreach)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
steps, order = [], []


def note(name):
    def hook(parameter):
        if not parameter.grad.isfinite().all() and name not in order:
            order.append(name)

    return hook


for name, parameter in model.named_parameters():
    parameter.register_post_accumulate_grad_hook(note(name))

for step in range(1, 7):
    order.clear()
    optimizer.zero_grad(set_to_none=none)
    overflows = step in (2, 4, 6)
    where, part, value = chance.randrange(depth), chance.randrange(parts), chance.choice(["inf", "-inf", "nan"])
    for number in range(parts):
        hidden = torch.randn(8, width, dtype=dtype)
        for index, layer in enumerate(model):
            hidden = layer(hidden)
            if overflows and number == part and index == 2 * where:
                hidden.register_hook(lambda gradient, value=value: gradient.index_fill(1, torch.tensor([0]), float(value)))
        scaler.scale(hidden.mean()).backward()
    scaler.step(optimizer)
    found = {
        parameter.grad.data_ptr(): [name, parameter.numel(), int((~parameter.grad.isfinite()).sum()), int(parameter.grad.isnan().sum())]
        for name, parameter in model.named_parameters()
    }
    scaler.update()
    steps.append({"found": found, "order": list(order)})

with open(sys.argv[1], "w") as out:
    json.dump({"parts": parts, "none": none, "tied": tied, "steps": steps}, out)
