"""thread_stacks.py LIBRARY COUNT SEED: threads on stacks of many kinds, each with a tensor, at random. Prints, as JSON, what each
stack is, its thread's id, and where the tensor's memory is; then waits.

A stack is one that the C library chooses, with a guard area or none; one that lies within a mapping, beside other memory; or a
chunk of the heap. The memory beside it has numbers, or words as a thread's record and the heap's own have them.
"""

import ctypes
import json
import mmap
import os
import random
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ways"))
from implementation import implementation  # noqa: E402

PAGE, KIB = mmap.PAGESIZE, 1 << 10
ON = ["its stack", "a fiber's", "its stack, left for a fiber", "its stack, left for a handler", "its stack, saved from a register"]
library, libc = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(None)
count, rng = int(sys.argv[2]), random.Random(int(sys.argv[3]))
library.start_thread_on.restype = ctypes.c_long
library.start_thread_on.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, *4 * [ctypes.c_int]]
libc.mmap.restype = libc.malloc.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.malloc.argtypes = [ctypes.c_size_t]


def mapped(size):
    return libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)


def write(at, words):
    ctypes.memmove(at, (ctypes.c_uint64 * len(words))(*words), 8 * len(words))


def fill(at, size):
    how = rng.choice(["zeros", "numbers", "ranges of pages", "their own addresses", "a chunk", "no access"]) if size else "nothing"
    if how == "numbers":
        ctypes.memmove(at, rng.randbytes(size), size)
    elif how == "ranges of pages":  # a thread's record has its stack as such a range
        write(at, [word for _ in range(size // 24) for word in (at, rng.randrange(1, 64) * PAGE, 0)])
    elif how == "their own addresses":  # and begins with its own address
        write(at, [word for one in range(at, at + size, 64) for word in (one, 0, one, 0, 0, 0, 0, 0)])
    elif how == "a chunk":
        write(at, [0, size | 2, *((size - 16) // 8) * [7]])
    elif how == "no access":
        libc.mprotect(at, size, 0)
    return f"{size // PAGE} pages with {how}"


def within():
    below, above = (rng.choice([0, 1, 16, 300]) * PAGE for _ in range(2))
    size, odd = rng.choice([64, 300, 2048]) * PAGE, rng.choice([0, 0, 16, 512])
    at = mapped(below + size + above)
    beside = fill(at, below), fill(at + below + size, above)
    return f"{size // KIB} KiB - {odd}, between {' and '.join(beside)}", at + below + odd, size - odd, 0


def chosen():
    guard, size = rng.choice([0, 0, PAGE, 1 << 20, 4 << 20]), rng.choice([256, 1024, 8192, 102400]) * KIB
    if rng.random() < 0.3:
        fill(mapped(300 * PAGE), 300 * PAGE)
    return f"{size // KIB} KiB, guard area {guard // KIB} KiB", None, size + guard, guard


def from_heap():
    size = rng.choice([64 * KIB, 256 * KIB, 1 << 20])
    return f"{size // KIB} KiB of the heap", libc.malloc(size), size, 0


facts, kept = [], []
for _ in range(count):
    tensor = torch.ones(1000, device="cuda" if torch.cuda.is_available() else "cpu")
    kept.append(tensor)
    what, stack, size, guard = rng.choice([within, within, chosen, chosen, from_heap])()
    ends = rng.random() < 0.2
    on = 0 if ends or size < 256 * KIB else rng.choice([0, 0, 0, 1, 2, 3, 4])
    depth = 0 if size < 256 * KIB else rng.choice([0, 3, 60])
    before = sys.getrefcount(tensor)
    made = implementation(tensor)
    if ends and sys.getrefcount(tensor) > before:  # it keeps nothing
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(tensor))
    thread = library.start_thread_on(made, stack, size, guard, depth, ends, on, rng.random() < 0.5)
    what = f"{what}; {depth} frames deep; {'it has ended' if ends else 'the address is on ' + ON[on]}"
    facts.append({"what": what, "where": tensor.data_ptr(), "thread": thread, "ends": ends, "on": on})
    del tensor, made
time.sleep(0.2)
print(json.dumps({"pid": os.getpid(), "facts": facts}), flush=True)
time.sleep(1000)
