"""torch.compile of a small transformer block: forward and backward through Triton kernels; then with CUDA graphs."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.norm, self.fc, self.out = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.out(nn.functional.gelu(self.fc(self.norm(x))))


model = nn.Sequential(Block(), Block()).cuda()
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(16, 32, 64, device="cuda")
    loss = compiled(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss is finite", bool(torch.isfinite(loss)))
fast = torch.compile(lambda t: (t.sin() + t.cos()).softmax(-1).sum(), mode="reduce-overhead")
with torch.no_grad():
    for step in range(4):
        fast(torch.ones(64, 64, device="cuda"))
print("steps", step + 1)
