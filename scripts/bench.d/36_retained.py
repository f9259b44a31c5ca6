"""`retained` for everything of the reference process (1 GB writable, a million objects, 2,000 tensors): the whole command,
against one streaming read of the same pages. Its own part, behind the graph that who-holds makes too, is told beside."""

import json
import time

import bench_memory

TITLE = "retained on a live process: writable memory gone through"
UNIT = "GB/s"


def target(bench):
    return bench.target("reference")


def ask(bench):
    pid, _ = target(bench)
    start = time.monotonic()
    out = bench.run([bench.gpumem, "retained", "--json", "--depth", "1", "--pid", pid])
    seconds = time.monotonic() - start
    if "global 'model'" not in out:
        raise bench.Failed(" ".join(out.split())[-200:])
    return json.loads(out[out.index("{") : out.rindex("}") + 1])["scan"], seconds


def whole(bench):
    scan, seconds = ask(bench)
    return scan["bytes"] / seconds / 1e9


def own(bench):
    scan, _ = ask(bench)
    return scan["bytes"] / scan["retained_seconds"] / 1e9


def streaming(bench):
    read, seconds = bench_memory.read_process(target(bench)[0])
    return read / seconds / 1e9


CONTENDERS = {
    "gpumem retained, the whole command": whole,
    "gpumem retained, without the graph": own,
    "streaming read of the same pages": streaming,
}
COMPARE = [
    ("gpumem retained, the whole command", "streaming read of the same pages", "of a streaming read's rate"),
    ("gpumem retained, without the graph", "streaming read of the same pages", "of a streaming read's rate"),
]
