"""Expandable segments that grow, shrink in their middle, and grow again: two streams, both pools."""

import random

import torch

torch.cuda.memory._set_allocator_settings("expandable_segments:True")
choose = random.Random(7)
streams = [torch.cuda.default_stream(), torch.cuda.Stream()]
kept = []
for turn in range(400):
    with torch.cuda.stream(choose.choice(streams)):
        kept.append(torch.empty(choose.choice([700, 300_000, 3 << 20, 33 << 20, 70 << 20]), dtype=torch.uint8, device="cuda"))
    while len(kept) > 20 or (kept and choose.random() < 0.3):
        kept.pop(choose.randrange(len(kept)))
    if turn % 40 == 39:
        torch.cuda.empty_cache()
