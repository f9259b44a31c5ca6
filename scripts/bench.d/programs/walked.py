"""169,000 events of a training loop, and one of a kind of its own at number 166,500."""

import time

import torch

torch.manual_seed(0)
layers = [layer for _ in range(8) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.Adam(model.parameters())
def special():
    return torch.empty(7, 11111, device="cuda")
STEPS = 600
for step in range(STEPS):
    loss = model(torch.ones(32, 64, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == STEPS - 10:
        kept = special()
# PyTorch's autograd thread may still drop the last graph: it takes the GIL for that, and aborts where Python is ending.
time.sleep(0.2)
