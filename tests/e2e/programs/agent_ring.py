"""Allocates and frees in several threads, blocks of one freed by another too, and tells what PyTorch has in the end:
agent_ring.py OUT.json THREADS STEPS. A long mark before each makes the record grow by a kilobyte an event."""

import ctypes
import json
import os
import random
import sys
import threading

import torch

out, threads, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
agent = ctypes.CDLL(None)
first = [torch.empty(1 << 14, device="cuda") for _ in range(50)]
shared, kept, lock = [], [], threading.Lock()


def work(seed):
    choose, mine = random.Random(seed), []
    kept.append(mine)
    for _ in range(steps):
        agent.gpumem_agent_push(b"x" * 1000)
        agent.gpumem_agent_pop()
        if mine and choose.random() < 0.5:
            mine.pop(choose.randrange(len(mine)))
        elif len(mine) < 100:
            mine.append(torch.empty(choose.randrange(1, 1 << 16), device="cuda"))
        if mine and choose.random() < 0.1:
            with lock:
                shared.append(mine.pop())
                if len(shared) > 100:
                    shared.pop(choose.randrange(len(shared)))


# One that says little and stays: what it did long ago is still in its own piece of the file.
quiet = threading.Thread(target=lambda: (first.append(torch.empty(1 << 15, device="cuda")), done.wait()))
done = threading.Event()
quiet.start()
all_threads = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
for thread in all_threads:
    thread.start()
for thread in all_threads:
    thread.join()
done.set()
quiet.join()
segments = torch.cuda.memory_snapshot()
live = [(b["address"], b["requested_size"]) for s in segments for b in s["blocks"] if b["state"] == "active_allocated"]
stats = torch.cuda.memory_stats()
counts = {name: stats[f"{name}_bytes.all.current"] for name in ("allocated", "reserved")}
with open(out, "w") as file:
    json.dump({"live": sorted(live), "allocations": stats["allocation.all.allocated"], **counts}, file)
os._exit(0)
