"""Mixed precision on the CPU with three layers: in which parameter did an overflow come first?

In step 3 the gradient behind the second layer is so large that it overflows: the weights of the second and of the first layer get
inf, those of the third, whose gradients backward has made before, do not.

    build/bin/gpumem run --devices cpu --names -o overflow.gpumem -- .venv/bin/python examples/amp_overflow.py

Then `build/bin/gpumem amp overflow.gpumem` says it.
"""

import torch
from torch import nn


def train(model, steps=4):
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cpu")
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            hidden = model[:2](torch.ones(32, 256))
            if step == 3:
                hidden.register_hook(lambda gradient: gradient * 1e38)
            loss = model[2](hidden).float().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    torch.manual_seed(0)
    train(nn.Sequential(nn.Linear(256, 512), nn.Linear(512, 128), nn.Linear(128, 16)))
