"""module_paths.py SNAPSHOT: trains a model of named parts, whose gradients and optimizer state stay; prints its process id and
as JSON how many bytes each module's parameters, gradients and optimizer state take, and waits."""

import json
import os
import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(Block(width) for _ in range(3))
        self.head = nn.Linear(width, 1000)
        self.scale = nn.Parameter(torch.ones(7000))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x) * self.scale[:1000]


torch.cuda.memory._record_memory_history(stacks="python")
model = Net(640).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = model(torch.ones(64, 640, device="cuda")).sum()
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
del loss
torch.cuda.memory._dump_snapshot(sys.argv[1])
size_at = {block["address"]: block["size"] for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]}
bytes_of = {}
for path, module in model.named_modules():
    for parameter in module.parameters(recurse=False):
        state = [value for value in optimizer.state[parameter].values() if value.is_cuda]
        for tensor in (parameter, parameter.grad, *state):
            key = path or "(the root module)"
            bytes_of[key] = bytes_of.get(key, 0) + size_at[tensor.data_ptr()]
print(os.getpid(), json.dumps(bytes_of), flush=True)
sys.stdin.read()
