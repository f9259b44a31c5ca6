"""Runs out of memory in the way named, and stands still while the error is handled. Run by test_oom.py.

Prints one JSON object: PyTorch's own message, its statistics at that moment, and the process.
"""

import ctypes
import json
import os
import signal
import subprocess
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
    if way == "copies":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        said["copies"] = []
        for _ in range(int(sys.argv[2])):
            pid = os.fork()
            if pid == 0:
                time.sleep(1000)
                os._exit(0)
            said["copies"].append(pid)
    said["uuid"] = str(torch.cuda.get_device_properties(0).uuid)
    print(json.dumps(said), flush=True)
    time.sleep(1000)


if way == "none":
    take(int(sys.argv[2]) if len(sys.argv) > 2 else 100)
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
elif way in ("outside", "driver"):
    # not from PyTorch: as a library does that asks CUDA itself
    libraries, pointer = ctypes.CDLL(None), ctypes.c_void_p()
    assert libraries.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(4 << 30)) == 0
    take(1000)
elif way == "neighbour":
    other = subprocess.Popen([sys.executable, __file__, "none", "4000"], stdout=subprocess.PIPE)
    other.stdout.readline()
    take(1000)


def release():
    """A tensor that another stream uses, let go where its free is put off, and a request for more than is left."""
    used = torch.empty(1200 * MIB, dtype=torch.uint8, device="cuda")
    used.record_stream(side)
    del used
    take(2000)


try:
    if way in ("graph", "pool"):
        side = torch.cuda.Stream()
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.MemPool()
        take(5000)
        with torch.cuda.graph(graph) if way == "graph" else torch.cuda.use_mem_pool(pool):
            release()
    take(3000) if way == "fragments" else take(9000) if way == "huge" else fill(64)
except torch.OutOfMemoryError as error:
    if way == "driver":
        # without its account gpumem takes the simulated device for a real one
        ctypes.c_uint64.in_dll(libraries, "gpumem_sim_account").value = 0
    tell(error)
tell()
