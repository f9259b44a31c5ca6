"""One allocation, as early as PyTorch lets us."""

import torch

torch.empty(1, device="cuda")
