"""A recording of 10 million events (tests/tools/bench_log writes it): `gpumem peak` of it, opening included, beside one
`zstd -dc` of the same bytes compressed; the same at a tenth and a hundredth of the events; the state at a random event."""

import json
import os
import resource
import subprocess
import tempfile
from pathlib import Path

TITLE = "gpumem peak on recordings of 0.1, 1 and 10 million events: processor time an event"
UNIT = "ns"
MOST = int(os.environ.get("GPUMEM_BENCH_EVENTS", "10000000"))
SIZES = {MOST: "all", MOST // 10: "a tenth", MOST // 100: "a hundredth"}


def files(bench):
    """Each size's log and its compressed copy, written once; and what bench_log said of it."""
    if not hasattr(bench, "event_files"):
        bench.event_folder = tempfile.TemporaryDirectory(prefix="gpumem-bench-")
        bench.event_files = {}
        for events in SIZES:
            log = Path(bench.event_folder.name) / f"{events}.gpumem"
            said = json.loads(bench.run([bench.root / "build" / "tests" / "bench_log", events, log]))
            bench.run(["zstd", "-q", "-1", log, "-o", f"{log}.zst"])
            bench.event_files[events] = log, said
    return bench.event_files


def processor_time(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise OSError(f"{command[0]} failed")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peak(events):
    return lambda bench: processor_time([bench.gpumem, "peak", files(bench)[events][0]]) / events * 1e9


def zstd(bench):
    return processor_time(["zstd", "-dc", f"{files(bench)[MOST][0]}.zst"]) / MOST * 1e9


def told(name, scale=1):
    return lambda bench: files(bench)[MOST][1][name] * scale


CONTENDERS = {f"peak, {word} of {MOST:,} events": peak(events) for events, word in SIZES.items()} | {
    "zstd -dc of the same bytes": zstd,
    "memory an event (bytes, at most 48)": told("memory_bytes_per_event"),
    "state at a random event (ns in all, mean of 1,000)": told("state_us", 1000),
    "state at a random event (ns in all, the longest)": told("state_us_most", 1000),
}
ALL, TENTH, HUNDREDTH = list(CONTENDERS)[:3]
COMPARE = [
    (ALL, "zstd -dc of the same bytes", "times zstd -dc (the goal: at most 5)"),
    (ALL, TENTH, "times the cost an event of a tenth of the events (1: linear)"),
    (ALL, HUNDREDTH, "times the cost an event of a hundredth"),
]
