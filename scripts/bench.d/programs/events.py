"""Allocates and frees a block again and again, 20 Python frames deep, and prints what an event took."""

import sys
import time

import torch

PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000


def deep(frames, work):
    return deep(frames - 1, work) if frames else work()


def pairs(count):
    for _ in range(count):
        torch.empty(1 << 16, dtype=torch.uint8, device="cuda")


deep(18, lambda: pairs(50))  # the segment, and whatever the first stops set up
start = time.perf_counter()
deep(18, lambda: pairs(PAIRS))
print(f"us per event: {(time.perf_counter() - start) / (2 * PAIRS) * 1e6:.3f}", flush=True)
