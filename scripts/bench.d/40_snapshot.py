import atexit
import shutil
import tempfile
import time
from pathlib import Path

TITLE = "A PyTorch snapshot of 870 thousand events, a GPT's on the simulated device: reading it"
UNIT = "s"
EVENTS = 870_000
made = {}


def snapshot(bench):
    if "path" not in made:
        folder = tempfile.mkdtemp(prefix="gpumem-bench-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder) / "snapshot.pickle"
        out = bench.run([bench.python, bench.programs / "snapshot.py", path, EVENTS], env=bench.sim, timeout=600)
        if not path.exists():
            raise bench.Failed(f"no snapshot was made: …{' '.join(out.split())[-200:]}")
        made["path"] = path
    return made["path"]


def ours(*question):
    def measured(bench):
        path = snapshot(bench)
        start = time.monotonic()
        out = bench.run([bench.gpumem, *question, path])
        seconds = time.monotonic() - start
        if "cuda:0" not in out:
            raise bench.Failed(f"no answer: …{' '.join(out.split())[-200:]}")
        return seconds

    return measured


def load(bench):
    return bench.figure(bench.run([bench.python, bench.programs / "load_snapshot.py", snapshot(bench)]), "load")


CONTENDERS = {"gpumem info, whole command": ours("info"), "pickle.load alone": load}
COMPARE = [("gpumem info, whole command", "pickle.load alone", "of pickle.load's time")]
