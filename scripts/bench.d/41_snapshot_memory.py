"""What the same snapshot takes of memory: the most that was resident, for gpumem of the whole process, for pickle.load
of what it added to its process."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from importlib import import_module  # noqa: E402

reading = import_module("40_snapshot")
TITLE = "The same snapshot: memory"
UNIT = "MB"


def ours(bench):
    command = [bench.python, bench.programs / "peak_memory.py", bench.gpumem, "info", reading.snapshot(bench)]
    return bench.figure(bench.run(command), "peak")


def load(bench):
    out = bench.run([bench.python, bench.programs / "load_snapshot.py", reading.snapshot(bench)])
    return bench.figure(out, "memory")


CONTENDERS = {"gpumem info, the whole process": ours, "pickle.load, what it adds": load}
COMPARE = [("gpumem info, the whole process", "pickle.load, what it adds", "of pickle.load's (at most 0.25)")]
