import tempfile
from pathlib import Path

TITLE = "Eight threads that allocate at once: wall time an event"
UNIT = "us"


def bare(bench):
    out = bench.run([bench.python, bench.programs / "agent_threads.py", "8"], env=bench.sim)
    return bench.figure(out, "us per event")


def ours(bench):
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.gpumem"
        program = [bench.python, bench.programs / "agent_threads.py", "8"]
        return bench.figure(bench.run([bench.gpumem, "run", "--sim", "-o", log, "--", *program]), "us per event")


CONTENDERS = {"not recorded": bare, "gpumem run -o": ours}
COMPARE = [("gpumem run -o", "not recorded", "of the unrecorded time")]
