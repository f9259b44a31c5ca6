"""Mixed precision with two layers: how does memory that was released serve again within a step?

Weights are float32 and each pass makes float16 copies of them. Backward computes a float16 gradient for each layer and
from it the float32 one that stays.

    build/bin/gpumem run --sim -o two.gpumem -- .venv/bin/python examples/amp_two_layers.py
"""

import torch
from torch import nn


def train(model, steps=3):
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(steps):
        data = torch.randn(1024, 4096, device="cuda")
        with torch.autocast("cuda", torch.float16):
            output = model(data)
            loss = output.float().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    train(nn.Sequential(nn.Linear(4096, 4096, bias=False), nn.Linear(4096, 4096, bias=False)).to("cuda"))
    print(f"peak: {torch.cuda.max_memory_allocated():,} bytes")
