import os
import shutil
import subprocess
import tempfile
from pathlib import Path

TITLE = "Recording by the agent, 20 Python frames deep, simulated device: processor time an event, and what is added"
UNIT = "us"


def program(bench, mode, env=None):
    out = bench.run([bench.python, bench.programs / "agent_events.py", mode], env={**bench.sim, **(env or {})})
    return bench.figure(out, "us per event")


def by_itself(mode):
    return lambda bench: program(bench, mode)


def ours(stacks):
    def measured(bench):
        folder = tempfile.mkdtemp(prefix="gpumem-bench-")
        try:
            library = bench.root / "build" / "lib" / "libgpumem-agent.so"
            preload = f"{library}:{bench.sim.get('LD_PRELOAD', os.environ.get('LD_PRELOAD', ''))}"
            settings = f"out={folder}/%p.gpumem;devices=cuda;stacks={stacks}"
            return program(bench, "bare", {"LD_PRELOAD": preload, "GPUMEM_AGENT": settings})
        finally:
            shutil.rmtree(folder)

    return measured


def memray(*options):
    """memray in a throw-away environment beside the set-up's, whose Python and PyTorch the program keeps."""

    def measured(bench):
        folder = Path(tempfile.gettempdir()) / f"gpumem-bench-{os.getuid()}-memray"
        if not (folder / "memray").exists():
            install = [bench.python, "-m", "pip", "install", "-q", "--target", folder, "memray"]
            made = subprocess.run(install, capture_output=True, text=True, timeout=300)
            if made.returncode:
                raise bench.Failed(f"memray cannot be installed: {made.stderr.strip().splitlines()[-1:]}")
        with tempfile.TemporaryDirectory() as out:
            words = [bench.python, "-m", "memray", "run", "-q", *options, "-o", f"{out}/run.bin"]
            paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(folder)]))
            program = bench.programs / "agent_events.py"
            return bench.figure(bench.run([*words, program, "bare"], env={**bench.sim, "PYTHONPATH": paths}), "us per event")

    return measured


CONTENDERS = {
    "bare": by_itself("bare"),
    "agent, no stacks": ours("none"),
    "agent, Python stacks": ours("python"),
    "agent, both stacks": ours("python,native"),
    "PyTorch, Python stacks": by_itself("python"),
    "PyTorch, all stacks": by_itself("all"),
    "memray (host memory alone), Python stacks": memray(),
    "memray (host memory alone), both stacks": memray("--native"),
}
LESS = "bare"
COMPARE = [
    ("agent, Python stacks", "PyTorch, Python stacks", "of what PyTorch's recorder adds, Python stacks"),
    ("agent, both stacks", "PyTorch, all stacks", "of what PyTorch's recorder adds, both stacks"),
    ("agent, Python stacks", "memray (host memory alone), Python stacks", "of what memray adds, Python stacks"),
    ("agent, both stacks", "memray (host memory alone), both stacks", "of what memray adds, both stacks"),
]
