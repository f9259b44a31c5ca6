"""`retained` where references are missing: 2,000 tensors that only C code holds (programs/missing.py), half of them by words in memory
that nothing leads to. Then all memory is looked through for them. The whole command, against one streaming read of the same pages."""

import json
import time

import bench_memory

TITLE = "retained, 2,000 tensors held by C code: writable memory gone through"
UNIT = "s"


def whole(bench):
    pid, _ = bench.target("missing")
    start = time.monotonic()
    out = bench.run([bench.gpumem, "retained", "--json", "--depth", "1", "--pid", pid])
    seconds = time.monotonic() - start
    answer = json.loads(out[out.index("{") : out.rindex("}") + 1])
    if "references that were not found" not in json.dumps(answer):
        raise bench.Failed(" ".join(out.split())[-200:])
    return seconds


def streaming(bench):
    return bench_memory.read_process(bench.target("missing")[0])[1]


CONTENDERS = {"gpumem retained": whole, "one read of the same pages, same threads": streaming}
COMPARE = [("gpumem retained", "one read of the same pages, same threads", "times one read (the goal: at most 8)")]
