"""Threads that allocate and free at once: agent_threads.py THREADS. Prints what an event took, all threads together.

Bare functions of C make the blocks, so that the threads meet in the allocator as often as the interpreter's lock lets them.
"""

import sys
import threading
import time

import torch

THREADS = int(sys.argv[1])
EVENTS = 20_000


def churn():
    empty, device = torch.empty_strided, torch.device("cuda")
    for _ in range(EVENTS // 2):
        empty((1000,), (1,), device=device)


churn()
took = []
for _ in range(7):
    threads = [threading.Thread(target=churn) for _ in range(THREADS)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took.append((time.perf_counter() - begin) / EVENTS / THREADS * 1e6)
took.sort()
print(f"us per event: {took[1]:.3f}", flush=True)
