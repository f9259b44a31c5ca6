"""Allocates a block of CUDA memory; what else it does is told by its arguments.

    job_rank.py [MIB] [wait FILE | oom | ranks NAME=VALUE,... ... | together NAME=VALUE,... ...]

wait: creates FILE and sleeps until a signal; oom: asks for more than the device has, and goes on;
ranks: forks a process for each list of variables, which it sets before it allocates, one after the other;
together: all of them run until the last has allocated.
"""

import os
import signal
import sys

import torch


def allocate(mib):
    return torch.empty(int(mib) << 20, dtype=torch.uint8, device="cuda")


def ranks(mib, lists, together):
    ready, allocated = os.pipe()
    every, done = os.pipe()
    for i, variables in enumerate(lists):
        if os.fork() == 0:
            for pair in filter(None, variables.split(",")):
                name, value = pair.split("=")
                os.environ[name] = value
            kept = allocate(int(mib) + i)
            print(i, os.getpid(), kept.numel(), flush=True)
            if together:
                os.close(done)
                os.write(allocated, b".")
                os.read(every, 1)
                kept = allocate(mib)
            os._exit(0)
        if together:
            os.read(ready, 1)
        else:
            os.wait()
    os.close(done)
    for _ in lists if together else ():
        os.wait()


mib, *rest = sys.argv[1:]
if rest and rest[0] in ("ranks", "together"):
    ranks(mib, rest[1:], rest[0] == "together")
    sys.exit()
kept = allocate(mib)
if rest and rest[0] == "oom":
    try:
        allocate(1 << 20)
    except torch.OutOfMemoryError:
        print("out of memory", flush=True)
    rest = rest[1:]
if rest and rest[0] == "wait":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    with open(rest[1], "w"):
        pass
    while True:
        signal.pause()
