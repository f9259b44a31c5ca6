"""Threads that allocate and free at once: agent_threads.py COUNT ... Prints what an event took, all threads together, for
each count of threads: of the clock, and of the processor.

Bare functions of C make the blocks, so that the threads meet in the allocator as often as the interpreter's lock lets them.
"""

import sys
import threading
import time

import torch

COUNTS = [int(word) for word in sys.argv[1:]]
EVENTS = 20_000


def churn():
    empty, device = torch.empty_strided, torch.device("cuda")
    for _ in range(EVENTS // 2):
        empty((1000,), (1,), device=device)


churn()
took = {count: ([], []) for count in COUNTS}
for _ in range(7):
    for count in COUNTS:
        threads = [threading.Thread(target=churn) for _ in range(count)]
        begin, cpu = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took[count][0].append((time.perf_counter() - begin) / EVENTS / count * 1e6)
        took[count][1].append((time.process_time() - cpu) / EVENTS / count * 1e6)
for count, (wall, cpu) in took.items():
    print(f"{count} threads, wall: {sorted(wall)[2]:.3f}\n{count} threads, processor: {sorted(cpu)[2]:.3f}", flush=True)
