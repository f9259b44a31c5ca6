"""Copies 1.5 GiB to the device, piece by piece: which pieces are kept, a small value, and PyTorch's count. JSON."""
import json

import torch

host = torch.ones(256 << 20, dtype=torch.uint8)
small = torch.arange(5).cuda()
pieces = [host.cuda() for _ in range(6)]
allocated = torch.cuda.memory_allocated()
kept = [bool((piece[-1:] == 1).item()) for piece in pieces]
del pieces[0]
again = torch.ones(1 << 20, dtype=torch.uint8).cuda()  # room was given back
print(
    json.dumps(
        {
            "kept": kept,
            "small": small.sum().item(),
            "allocated": allocated,
            "again": again[-1:].item(),
        }
    )
)
