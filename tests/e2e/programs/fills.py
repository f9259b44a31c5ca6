"""Fills the device until PyTorch gives up, after it gave back what it could."""

import torch

QUARTER = 1 << 28  # GiB / 4

kept = [torch.empty(QUARTER, dtype=torch.uint8, device="cuda") for _ in range(12)]
del kept[1], kept[3], kept[5]
# too large for what is left: the allocator gives its free segments back and asks again
kept.append(torch.empty(3 * QUARTER, dtype=torch.uint8, device="cuda"))
try:
    kept.append(torch.empty(4 * QUARTER, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError:
    print("out of memory")
