"""Where recording costs in a whole script: what `gpumem run` takes of the processor for the program and itself, in parts. The
start is Python, the imports and the model, up to the first step; the end is the program's exit, and the packing of the file."""

import os
import tempfile
import time

TITLE = "A whole transformers script, 100 steps, recorded with both stacks and not: processor time of its parts, and the clock's"
UNIT = "s"
STEPS = "100"
WAYS = {"not recorded": ["--no-record"], "recorded": ["-o", "{folder}/run.gpumem"]}
PARTS = ("the start", "the steps", "the end", "all", "wall")


def measured(bench, way):
    program = [bench.python, bench.programs / "agent_training.py", STEPS]
    with tempfile.TemporaryDirectory() as folder:
        options = [word.format(folder=folder) for word in WAYS[way]]
        begin = time.perf_counter()
        process = bench.start([bench.gpumem, "run", "--sim", *options, "--", *program])
        out = process.stdout.read()
        _, _, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = 0
    start, end = bench.figure(out, "before the first step"), bench.figure(out, "at the end")
    cpu = usage.ru_utime + usage.ru_stime  # of gpumem and of the program that it waited for
    return dict(zip(PARTS, (start, end - start, cpu - end, cpu, wall)))


def figure(way, part):
    def contender(bench):
        if part == PARTS[0]:
            bench.agent_whole = getattr(bench, "agent_whole", {}) | {way: measured(bench, way)}
        return bench.agent_whole[way][part]

    return contender


CONTENDERS = {f"{part}, {way}": figure(way, part) for part in PARTS for way in WAYS}
COMPARE = [(f"{part}, recorded", f"{part}, not recorded", f"of {part}, not recorded") for part in PARTS]
