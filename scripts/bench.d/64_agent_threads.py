"""Events a second with the agent and without, in turn in one process: the ratio of the times is that of the throughputs, and
the goal is at least 0.90 of the unrecorded one with 8 threads (times as much time: at most 1.11)."""

import os
import tempfile

TITLE = "Threads that allocate at once, recorded and not, in turn in one process: time an event, all threads together"
UNIT = "us"
COUNTS = ("1", "2", "8")
WAYS = ("not recorded", "Python stacks", "both stacks")
KINDS = {"calls": "nothing but calls", "model": "a model forward"}
INSIDE = {"calls": "20", "model": "8"}


def measured(bench, kind):
    with tempfile.TemporaryDirectory() as folder:
        lib = bench.root / "build" / "lib"
        preload = f"{lib / 'libgpumem-agent.so'}:{bench.sim.get('LD_PRELOAD', os.environ.get('LD_PRELOAD', ''))}"
        env = {**bench.sim, "LD_PRELOAD": preload, "GPUMEM_AGENT": f"out={folder}/first.gpumem;devices=cpu;stacks=none"}
        env |= {"PYTHONPATH": f"{lib / 'gpumem-python'}"}
        return bench.run([bench.python, bench.programs / "agent_threads.py", folder, kind, INSIDE[kind]], env=env)


def figure(kind, count, way, what, first):
    """One process's figures, all of them: one run serves the contenders of its kind in a round."""

    def contender(bench):
        if first:
            bench.agent_threads = measured(bench, kind)
        return bench.figure(bench.agent_threads, f"{count} threads, {way}, {what}")

    return contender


def name(kind, count, way, what):
    return f"{KINDS[kind]}, {count} threads, {what}, {way}"


CONTENDERS = {}
for kind in KINDS:
    for index, (count, what, way) in enumerate((c, t, w) for c in COUNTS for t in ("wall", "processor") for w in WAYS):
        CONTENDERS[name(kind, count, way, what)] = figure(kind, count, way, what, index == 0)
COMPARE = [
    (name(kind, count, way, what), name(kind, count, WAYS[0], what), f"of the unrecorded {what} time: {KINDS[kind]}, {count} threads, {way}")
    for kind in KINDS
    for count in COUNTS
    for what in ("wall", "processor")
    for way in WAYS[1:]
]
