"""Three passes of one line over equal layers without gradients: stacks alone do not tell the passes."""

import torch
from torch import nn

model = nn.Sequential(*(nn.Linear(512, 512, bias=False, device="cuda") for _ in range(4)))
x = torch.zeros(512, 512, device="cuda")
with torch.no_grad():
    for step in range(3):
        out = model(x)
