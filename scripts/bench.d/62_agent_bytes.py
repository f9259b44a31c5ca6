import json
import tempfile
from pathlib import Path

TITLE = "Bytes an event in the file of a training run, both stacks (a transformers GPT-2, 40 steps)"
UNIT = "bytes"
STEPS = "40"
ROUNDS = 1  # the same bytes each time


def pickle(bench):
    with tempfile.TemporaryDirectory() as folder:
        program = [bench.python, bench.programs / "agent_training.py", STEPS, Path(folder) / "run.pickle"]
        return bench.figure(bench.run(program, env=bench.sim), "bytes per event")


def ours(bench):
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.gpumem"
        program = [bench.python, bench.programs / "agent_training.py", STEPS]
        bench.run([bench.gpumem, "run", "--sim", "-o", log, "--", *program])
        info = json.loads(bench.run([bench.gpumem, "info", log, "--json"]))
        return log.stat().st_size / sum(device["events"] for device in info["devices"])


CONTENDERS = {"gpumem run -o": ours, "PyTorch's pickle": pickle}
COMPARE = [("gpumem run -o", "PyTorch's pickle", "of the pickle's")]
