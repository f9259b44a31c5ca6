"""late_start.py OUT: two training steps, and two more under PyTorch's own recorder; prints the bytes of parameters and of
the optimizer's state as the allocator rounds them."""

import sys

import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.Adam(model.parameters())


def train(steps):
    for _ in range(steps):
        loss = model(torch.randn(768, 512, device="cuda")).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def rounded(tensors):
    return sum(-(-tensor.nbytes // 512) * 512 for tensor in tensors if tensor.is_cuda)


train(2)
torch.cuda.memory._record_memory_history(context="all", stacks="python", max_entries=100_000)
train(2)
torch.cuda.memory._dump_snapshot(sys.argv[1])
states = [value for state in optimizer.state.values() for value in state.values()]
print(rounded(model.parameters()), rounded(states))
