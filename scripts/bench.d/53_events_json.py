"""All events of a recording as JSON, some KB each: the answer with the most bytes. Beside one copy of those bytes from file to file. To a tenth
of the events from the middle, too, which reads only their part."""

import os
import resource
import tempfile
from pathlib import Path

TITLE = "gpumem events --json: processor time"
UNIT = "s"
EVENTS = 200_000


def recording(bench):
    if not hasattr(bench, "json_folder"):
        bench.json_folder = tempfile.TemporaryDirectory(prefix="gpumem-bench-")
        bench.json_log = Path(bench.json_folder.name) / "run.gpumem"
        bench.run([bench.root / "build" / "tests" / "bench_log", EVENTS, bench.json_log, "training", "packed"])
    return bench.json_log


def processor_time(bench, command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    bench.run(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def written(bench):
    return recording(bench).with_suffix(".json")


def ask(bench, *part):
    command = f"{bench.gpumem} events --json {recording(bench)} {' '.join(map(str, part))} > {written(bench)}"
    return processor_time(bench, ["sh", "-c", command])


def copy(bench):
    if not written(bench).exists():
        ask(bench)
    seconds = processor_time(bench, ["sh", "-c", f"cat {written(bench)} > {written(bench)}.copy"])
    os.unlink(f"{written(bench)}.copy")
    return seconds


CONTENDERS = {
    "a copy of the bytes": copy,
    "gpumem events --json": ask,
    "gpumem events --json, a tenth": lambda bench: ask(bench, "--from", EVENTS // 2, "--to", EVENTS // 2 + EVENTS // 10),
}
COMPARE = [
    ("gpumem events --json", "a copy of the bytes", "times a copy"),
    ("gpumem events --json, a tenth", "gpumem events --json", "of the whole's time"),
]
