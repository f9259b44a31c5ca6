"""Allocates and frees a block again and again, 20 Python frames deep, and prints what an event took of the processor.

agent_events.py MODE: bare (or under an agent), python or all: PyTorch's own recorder with these stacks, context="all".
The calls are of the kind that a model makes: modules within modules, several places in turn.
"""

import sys
import time

import torch

MODE = sys.argv[1] if len(sys.argv) > 1 else "bare"
ROUNDS, PASSES = 9, int(sys.argv[2]) if len(sys.argv) > 2 else 2_000


def one():
    return torch.empty(1 << 16, dtype=torch.uint8, device="cuda")


def two():
    return torch.empty(1 << 12, dtype=torch.uint8, device="cuda")


def work(passes):
    for _ in range(passes):
        a = one()
        b = two()
        del a
        c = torch.empty(1 << 14, dtype=torch.uint8, device="cuda")
        b = None
        del c


def deep(frames, passes):
    return deep(frames - 1, passes) if frames else work(passes)


def anonymous():
    """This process's own memory in use, in MiB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024


deep(17, 50)
if MODE != "bare":
    torch.cuda.memory._record_memory_history("all", context="all", stacks=MODE, max_entries=1_000_000)
deep(17, 200)
before, took = anonymous(), []
for _ in range(ROUNDS):
    start = time.thread_time()
    deep(17, PASSES)
    took.append((time.thread_time() - start) / (6 * PASSES) * 1e6)
took.sort()
print(f"us per event: {took[ROUNDS // 4]:.3f}\nMiB more: {anonymous() - before:.2f}", flush=True)
