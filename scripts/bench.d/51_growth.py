"""Does the time grow as the memory does? who-holds and retained on processes of 1 and 3 GB of memory that was written to,
everything in them three times as much (programs/reference.py): seconds for each GB. GPUMEM_BENCH_TIMES=10 measures 10 GB
instead of 3."""

import json
import os
import time

TITLE = "who-holds and retained on larger processes: seconds for each GB"
UNIT = "s/GB"
TIMES = max(2, int(os.environ.get("GPUMEM_BENCH_TIMES", "3")))


def ask(bench, times, *question):
    pid, address = bench.target("reference", *([times] if times != 1 else []))
    words = [address] if question[0] == "who-holds" else []
    start = time.monotonic()
    out = bench.run([bench.gpumem, *question, "--json", "--pid", pid, *words])
    seconds = time.monotonic() - start
    if "{" not in out:
        raise bench.Failed(" ".join(out.split())[-200:])
    scan = json.loads(out[out.index("{") : out.rindex("}") + 1])["scan"]
    return seconds / scan["bytes"] * 1e9


def who_holds(times):
    return lambda bench: ask(bench, times, "who-holds")


def retained(times):
    return lambda bench: ask(bench, times, "retained", "--depth", "1")


CONTENDERS = {
    "who-holds, 1 GB": who_holds(1),
    f"who-holds, {TIMES} GB": who_holds(TIMES),
    "retained, 1 GB": retained(1),
    f"retained, {TIMES} GB": retained(TIMES),
}
COMPARE = [
    (f"who-holds, {TIMES} GB", "who-holds, 1 GB", "times as much for each GB (1: linear)"),
    (f"retained, {TIMES} GB", "retained, 1 GB", "times as much for each GB (1: linear)"),
]
