"""A loop that keeps a tensor of each pass."""

import torch

weights = torch.ones(1024, 1024, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
kept = []
for _ in range(5):
    loss = (weights * 2).sum()
    loss.backward()
    optimizer.step()
    kept.append(torch.ones(1 << 18, device="cuda"))
