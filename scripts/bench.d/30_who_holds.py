"""Ours is the scan of who-holds as it times it itself: every touched page of writable memory, read and compared, and
the objects in it checked. The whole command beside it walks Python's objects too. The rival reads the same memory once,
a MiB at a time, and looks at none of it."""

import ctypes
import json
import os
import re
import time

TITLE = "who-holds on a live process: writable memory gone through"
UNIT = "GB/s"
SKIP = re.compile(r"gpumem-sim|nvidia|\[v")


class Span(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def writable(pid):
    """(start, end) of what who-holds looks at: the device's memory is none of it."""
    found = []
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            words = line.split(None, 5)
            if words[1].startswith("rw") and not SKIP.search(words[5] if len(words) > 5 else ""):
                found.append(tuple(int(end, 16) for end in words[0].split("-")))
    return found


def target(bench):
    """One program for all rounds: (its pid, a block's address)."""
    process = bench.keep("holders", lambda: bench.start([bench.python, bench.programs / "holders.py"], env=bench.sim))
    if not hasattr(process, "said"):
        process.said = process.stdout.readline().split()
    if not process.said:
        raise bench.Failed("the program that is looked at did not start")
    return int(process.said[0]), process.said[1]


def ask(bench):
    pid, address = target(bench)
    start = time.monotonic()
    out = bench.run([bench.gpumem, "who-holds", "--json", "--pid", pid, address])
    seconds = time.monotonic() - start
    if "kept" not in out:
        raise bench.Failed(" ".join(out.split())[-200:])
    return json.loads(out[out.index("{") : out.rindex("}") + 1])["scan"], seconds


def ours(bench):
    scan, _ = ask(bench)
    return scan["bytes"] / scan["seconds"] / 1e9


def whole(bench):
    scan, seconds = ask(bench)
    return scan["bytes"] / seconds / 1e9


def streaming(bench):
    pid, _ = target(bench)
    call = ctypes.CDLL(None, use_errno=True).process_vm_readv
    call.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    call.restype = ctypes.c_ssize_t
    buffer = ctypes.create_string_buffer(1 << 20)
    ctypes.memset(buffer, 1, 1 << 20)
    here, there = Span(ctypes.addressof(buffer), 1 << 20), Span()
    spans = touched(pid)
    read = 0
    start = time.monotonic()
    for first, end in spans:
        for at in range(first, end, 1 << 20):
            there.base, there.size = at, min(1 << 20, end - at)
            read += max(0, call(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
    return read / (time.monotonic() - start) / 1e9


def touched(pid):
    """Runs of resident pages, from /proc/PID/pagemap."""
    import numpy

    runs = []
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for first, end in writable(pid):
            pagemap.seek(first // 4096 * 8)
            there = numpy.frombuffer(pagemap.read((end - first) // 4096 * 8), dtype="u8") >> 62 != 0
            edges = numpy.flatnonzero(numpy.diff(numpy.concatenate(([0], there.astype("i1"), [0]))))
            runs += [(first + int(a) * 4096, first + int(b) * 4096) for a, b in zip(edges[::2], edges[1::2])]
    return runs


CONTENDERS = {
    "gpumem who-holds, its scan": ours,
    "gpumem who-holds, the whole command": whole,
    "streaming read of the same pages": streaming,
}
COMPARE = [
    ("gpumem who-holds, its scan", "streaming read of the same pages", "of a streaming read's rate"),
    ("gpumem who-holds, the whole command", "streaming read of the same pages", "of a streaming read's rate"),
]
