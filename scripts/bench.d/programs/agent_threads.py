"""Threads that allocate and free at once, recorded by a preloaded agent and not, in turn in one process:
agent_threads.py FOLDER KIND ROUNDS. Prints what an event took, all threads together, of the clock and of the processor.

KIND is calls, which does nothing else: bare functions of C make the blocks, so that the threads meet in the allocator as
often as the interpreter's lock lets them; or model, in which each thread runs a small model forward, as one that serves does.
"""

import os
import sys
import threading
import time

import gpumem
import torch

FOLDER, KIND, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
COUNTS = (1, 2, 8)
STACKS = {"not recorded": None, "Python stacks": "python", "both stacks": "python,native"}


def calls(passes):
    empty, device = torch.empty_strided, torch.device("cuda")
    for _ in range(passes):
        empty((1000,), (1,), device=device)


def make_model():
    layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)) for _ in range(4)]
    return torch.nn.Sequential(*layers).cuda().eval()


def model(passes):
    with torch.no_grad():
        for _ in range(passes):
            net(rows)


def events():
    """Of the allocator so far: blocks made and given back."""
    stats = torch.cuda.memory_stats()
    return stats["allocation.all.allocated"] + stats["allocation.all.freed"]


if KIND == "model":
    net, rows = make_model(), torch.empty(8, 64, device="cuda")
work, passes = (calls, 24_000) if KIND == "calls" else (model, 800)


def at_once(count):
    """Wall and processor time an event, in µs; the same number of passes, whatever the count of threads."""
    threads = [threading.Thread(target=work, args=(passes // count,)) for _ in range(count)]
    before, begin, cpu = events(), time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    made = events() - before
    return wall / made * 1e6, cpu / made * 1e6


gpumem.stop()
work(passes // 10)
took = {(count, way): ([], []) for way in STACKS for count in COUNTS}
for turn in range(ROUNDS):
    for way, stacks in STACKS.items():
        if stacks:
            gpumem.start(f"{FOLDER}/{turn}.gpumem", stacks=stacks)
            work(passes // 100)
        for count in COUNTS:
            wall, cpu = at_once(count)
            took[count, way][0].append(wall)
            took[count, way][1].append(cpu)
        if stacks:
            gpumem.stop()
            os.unlink(f"{FOLDER}/{turn}.gpumem")
for (count, way), figures in took.items():
    wall, cpu = (sorted(values)[len(values) // 2] for values in figures)
    print(f"{count} threads, {way}, wall: {wall:.4f}\n{count} threads, {way}, processor: {cpu:.4f}", flush=True)
