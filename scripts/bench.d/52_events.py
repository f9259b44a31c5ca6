"""Recordings of 10 million events (tests/tools/bench_log writes them): `gpumem peak` of each, opening included, beside one
`zstd -dc` of the same bytes compressed (by zstd -1). A training loop's, with module, backward and optimizer; the same as
it lies once it is packed, 4,096 events a frame, beside the same zstd: unpacking is in gpumem's time, too; and allocations
and frees at random, which no cache foresees. The loop's at a tenth and a hundredth of the events, packed and not; the
state at a random event. GPUMEM_BENCH_EVENTS=100000000 measures ten times as many of everything."""

import json
import os
import resource
import subprocess
import tempfile
from pathlib import Path

TITLE = "gpumem peak on recordings of 0.1, 1 and 10 million events: processor time an event"
UNIT = "ns"
MOST = int(os.environ.get("GPUMEM_BENCH_EVENTS", "10000000"))


def log(bench, kind, events=MOST, packed=False):
    """Its path and what bench_log said of it; written once."""
    if not hasattr(bench, "event_folder"):
        bench.event_folder = tempfile.TemporaryDirectory(prefix="gpumem-bench-")
        bench.event_logs = {}
    key = (kind, events, packed)
    if key not in bench.event_logs:
        path = Path(bench.event_folder.name) / f"{kind}-{events}{'-packed' * packed}.gpumem"
        command = [bench.root / "build" / "tests" / "bench_log", events, path, kind, *["packed"] * packed]
        bench.event_logs[key] = path, json.loads(bench.run(command))
    return bench.event_logs[key]


def compressed(bench, kind):
    path = log(bench, kind)[0].with_suffix(".zst")
    if not path.exists():
        bench.run(["zstd", "-q", "-1", log(bench, kind)[0], "-o", path])
    return path


def processor_time(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise OSError(f"{command[0]} failed")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peak(kind, events=MOST, packed=False):
    return lambda bench: processor_time([bench.gpumem, "peak", log(bench, kind, events, packed)[0]]) / events * 1e9


def zstd(kind):
    return lambda bench: processor_time(["zstd", "-dc", compressed(bench, kind)]) / MOST * 1e9


def told(name, scale=1):
    return lambda bench: log(bench, "training")[1][name] * scale


CONTENDERS = {
    "peak, a training loop's": peak("training"),
    "zstd -dc of a training loop's": zstd("training"),
    "peak, the same packed": peak("training", packed=True),
    "peak, of random ones": peak("random"),
    "zstd -dc of random ones": zstd("random"),
    "peak, a tenth": peak("training", MOST // 10),
    "peak, a hundredth": peak("training", MOST // 100),
    "peak, packed, a tenth": peak("training", MOST // 10, packed=True),
    "peak, packed, a hundredth": peak("training", MOST // 100, packed=True),
    "memory an event (bytes, at most 48)": told("memory_bytes_per_event"),
    "state at a random event (ns in all, mean of 1,000)": told("state_us", 1000),
    "state at a random event (ns in all, the longest)": told("state_us_most", 1000),
}
COMPARE = [
    ("peak, a training loop's", "zstd -dc of a training loop's", "times zstd -dc"),
    ("peak, the same packed", "zstd -dc of a training loop's", "times zstd -dc where it is packed (the goal: at most 5)"),
    ("peak, of random ones", "zstd -dc of random ones", "times zstd -dc"),
    ("peak, a training loop's", "peak, a tenth", "times the cost an event of a tenth of the events (1: linear)"),
    ("peak, a training loop's", "peak, a hundredth", "times the cost an event of a hundredth"),
    ("peak, the same packed", "peak, packed, a tenth", "times the cost an event of a tenth, packed"),
    ("peak, the same packed", "peak, packed, a hundredth", "times the cost an event of a hundredth, packed"),
]
