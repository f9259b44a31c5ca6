"""Ours is the scan of who-holds as it times it itself: every touched page of writable memory, read and compared, and
the objects in it checked. The whole command beside it walks Python's objects too. The rival reads the same memory once,
a MiB at a time, and looks at none of it."""

import json
import time

import bench_memory

TITLE = "who-holds on a live process: writable memory gone through"
UNIT = "GB/s"


def target(bench):
    return bench.target("holders")


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
    read, seconds = bench_memory.read_process(target(bench)[0], threads=1)
    return read / seconds / 1e9


CONTENDERS = {
    "gpumem who-holds, its scan": ours,
    "gpumem who-holds, the whole command": whole,
    "streaming read of the same pages": streaming,
}
COMPARE = [
    ("gpumem who-holds, its scan", "streaming read of the same pages", "of a streaming read's rate"),
    ("gpumem who-holds, the whole command", "streaming read of the same pages", "of a streaming read's rate"),
]
