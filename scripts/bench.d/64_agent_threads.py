import tempfile
from pathlib import Path

TITLE = "Threads that allocate at once, both stacks: time an event"
UNIT = "us"
COUNTS = ("1", "2", "4", "8")


def run(bench, recorded):
    """The figures of one process, for all counts: one run serves all contenders of a round."""
    program = [bench.python, bench.programs / "agent_threads.py", *COUNTS]
    if not recorded:
        return bench.run(program, env=bench.sim)
    with tempfile.TemporaryDirectory() as folder:
        return bench.run([bench.gpumem, "run", "--sim", "-o", Path(folder) / "run.gpumem", "--", *program])


def figure(recorded, count, what, first):
    def contender(bench):
        if first:
            bench.agent_threads = {way: run(bench, way) for way in (False, True)}
        return bench.figure(bench.agent_threads[recorded], f"{count} threads, {what}")

    return contender


NAMES = {False: "not recorded", True: "recorded"}
KEYS = [(count, what, recorded) for count in COUNTS for what in ("wall", "processor") for recorded in (False, True)]
CONTENDERS = {
    f"{count} threads, {what}, {NAMES[recorded]}": figure(recorded, count, what, (count, what, recorded) == KEYS[0])
    for count, what, recorded in KEYS
}
COMPARE = [
    (f"{count} threads, {what}, recorded", f"{count} threads, {what}, not recorded", f"of the unrecorded {what} time, {count} threads")
    for count in COUNTS
    for what in ("wall", "processor")
]
