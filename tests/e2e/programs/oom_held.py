"""Runs out of memory in the way named, and stands still while the error is handled. Run by test_oom.py.

Prints one JSON object: PyTorch's own message, its statistics at that moment, and the process.
"""

import json
import os
import sys
import time

import torch

MIB = 1 << 20
way = sys.argv[1]
kept = []
caught = []


def take(size):
    kept.append(torch.empty(size * MIB, dtype=torch.uint8, device="cuda"))


def fill(size):
    while True:
        take(size)


def tell(error=None):
    said = {"pid": os.getpid(), "message": error and str(error), "stats": torch.cuda.memory_stats()}
    print(json.dumps(said), flush=True)
    time.sleep(1000)


if way == "none":
    take(100)
    tell()
elif way == "limit":
    torch.cuda.set_per_process_memory_fraction(0.25)
elif way == "retried":
    # every second block goes: its segments are given back when more is asked for, and no error comes of it
    try:
        fill(64)
    except torch.OutOfMemoryError:
        pass
    del kept[::2]
    take(512)
    tell()
elif way == "caught":
    try:
        fill(64)
    except torch.OutOfMemoryError as error:
        caught.append(error)
    kept.clear()
    take(30)
    tell(str(caught[0]))
elif way == "fragments":
    # pieces of 20 MiB, every other one free: much room, and none of 3000 MiB
    big = torch.empty(7 << 30, dtype=torch.uint8, device="cuda")
    del big
    pieces = []
    try:
        while len(pieces) < 360:
            pieces.append(torch.empty(20 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        pass
    del pieces[::2]
try:
    take(3000) if way == "fragments" else take(9000) if way == "huge" else fill(64)
except torch.OutOfMemoryError as error:
    tell(error)
tell()
