"""Mixed precision with one weight: why does nothing change in step 1, and what waits for step 2?

The scaler's first scale makes the gradients overflow, so the first step is skipped: Adam's moments come later. The
float32 gradient of a step is released by zero_grad() of the next one, its output by the assignment in the next one.

    build/bin/gpumem run --sim --overflow-at 1 -o amp.gpumem -- .venv/bin/python examples/amp.py
"""

import torch
from torch import nn


def train(weight, steps=4):
    optimizer = torch.optim.Adam([weight])
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(steps):
        data = torch.randn(1024, 4096, device="cuda")
        with torch.autocast("cuda", torch.float16):
            output = data @ weight
            loss = output.float().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    train(nn.Parameter(torch.randn(4096, 4096, device="cuda")))
    print(f"peak: {torch.cuda.max_memory_allocated():,} bytes")
