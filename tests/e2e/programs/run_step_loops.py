"""run_step_loops.py OUT SEED ...: runs the programs of step_loops.py with these seeds, each in a process of its own that is forked
off this one (importing PyTorch is what takes long), and leaves in OUT of each its source, PyTorch's snapshot (SEED.pickle) and
the truth (SEED.json)."""

import asyncio
import importlib
import json
import os
import sys
import threading
import traceback
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
import library_loops  # noqa: E402
import step_loops  # noqa: E402
import trainer_loops  # noqa: E402

LIBRARIES, TRAINERS = 1_000_000, 2_000_000  # seeds from here on are of library_loops.py, of trainer_loops.py


def strand():
    """The thread; where it runs a task of asyncio's, that."""
    try:
        return f"{threading.get_ident()} {asyncio.current_task().get_name()}"
    except RuntimeError:  # no loop runs
        return str(threading.get_ident())


class Truth:
    """The steps by the numbers of their allocations: those from `from` on, before `to`. A task that waits within one is out of it
    for so long."""

    def __init__(self):
        self.steps, self.open, self.unsure = [], {}, {"from": 0, "to": 0}

    @staticmethod
    def allocations():
        return torch.cuda.memory_stats().get("allocation.all.allocated", 0)

    def begin(self):
        self.open[strand()] = []
        self.enter()

    def enter(self):
        self.open[strand()].append([self.allocations(), None])

    def leave(self):
        self.open[strand()][-1][1] = self.allocations()

    def work(self):
        """Where no loop is seen, a step may as well be told from here on."""
        self.unsure = {"from": self.open[strand()][0][0], "to": self.allocations()}

    def end(self):
        self.leave()
        self.steps.append({"thread": strand(), "ranges": self.open.pop(strand())})

    def hold(self):
        """What was kept is still there."""


def installed(out, name, source):
    """A library as pip would have installed it."""
    folder = out / "site-packages"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(source)
    sys.path.insert(0, str(folder))
    return importlib.import_module(name)


def run(seed, out):
    path = out / f"{seed}.py"
    if seed >= LIBRARIES:
        source, library = (trainer_loops if seed >= TRAINERS else library_loops).make(seed)
    else:
        source, library = step_loops.make(seed), ""
    path.write_text(source)
    arguments = [installed(out, f"trainer_{seed}", library)] if library else []
    torch.manual_seed(seed)
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=1000000)
    names, truth = {"__name__": "__main__"}, Truth()
    exec(compile(source, str(path), "exec"), names)
    held = names["main"](truth, *arguments)
    torch.cuda.memory._dump_snapshot(str(out / f"{seed}.pickle"))
    lines = source.splitlines()
    header = dict(part.split(": ") for part in lines[0].strip('"').split("; "))
    report = {
        "seed": seed, "pid": os.getpid(), "steps": truth.steps, "unsure": truth.unsure, "shape": header["shape"], "leak": header["leak"],
        "piles_up": header["piles up"] == "True", "kept": [n for n, line in enumerate(lines, 1) if line.endswith("# KEPT")],
        "allocations": truth.allocations(),
    }  # fmt: skip
    (out / f"{seed}.json").write_text(json.dumps(report))
    del held


def main():
    out, *seeds = sys.argv[1:]
    out = Path(out)
    importlib.import_module("torch._dynamo")  # optimizers import it
    seed = fork(map(int, seeds))
    if seed is None:
        return
    try:  # here, and not in a loop, which would be on the stacks
        run(seed, out)
    except BaseException:  # noqa: BLE001: it is told
        (out / f"{seed}.error").write_text(traceback.format_exc())
    os._exit(0)


def fork(seeds):
    """In each child, one after another, its seed; in this process, when all have ended, None."""
    for seed in seeds:
        child = os.fork()
        if not child:
            return seed
        os.waitpid(child, 0)
    return None


main()
