import tempfile
from pathlib import Path

TITLE = "A step of a transformers GPT-2 on the simulated device"
UNIT = "ms"
STEPS = "60"


def bare(bench):
    out = bench.run([bench.python, bench.programs / "agent_training.py", STEPS], env=bench.sim)
    return bench.figure(out, "ms per step")


def ours(bench):
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.gpumem"
        program = [bench.python, bench.programs / "agent_training.py", STEPS]
        return bench.figure(bench.run([bench.gpumem, "run", "--sim", "-o", log, "--", *program]), "ms per step")


CONTENDERS = {"not recorded": bare, "gpumem run -o": ours}
COMPARE = [("gpumem run -o", "not recorded", "of the unrecorded time")]
