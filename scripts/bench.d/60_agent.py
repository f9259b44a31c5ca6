import os
import shutil
import tempfile

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


CONTENDERS = {
    "bare": by_itself("bare"),
    "agent, no stacks": ours("none"),
    "agent, Python stacks": ours("python"),
    "agent, both stacks": ours("python,native"),
    "PyTorch, Python stacks": by_itself("python"),
    "PyTorch, all stacks": by_itself("all"),
}
LESS = "bare"
COMPARE = [
    ("agent, Python stacks", "PyTorch, Python stacks", "of what PyTorch's recorder adds, Python stacks"),
    ("agent, both stacks", "PyTorch, all stacks", "of what PyTorch's recorder adds, both stacks"),
]
