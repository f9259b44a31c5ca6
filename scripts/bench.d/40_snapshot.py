"""A snapshot as PyTorch's recorder leaves it, read by gpumem, by Python, and by PyTorch's own tool: processor time of the
whole command (user and system), as elapsed time says little on a machine that does other things too. The snapshot is
of a GPT's training loop with stacks of Python and C++ (stacks="all"). PyTorch's tool has the file's reading in its time
as well; gpumem's command includes all of it too."""

import atexit
import pickle
import resource
import shutil
import tempfile
from pathlib import Path

TITLE = 'A PyTorch snapshot of 870 thousand events, a GPT\'s on the simulated device, stacks="all": processor time'
UNIT = "s"
EVENTS = 870_000


def snapshot(bench, stacks="all"):
    """Its path; made once for all rows."""
    made = bench.__dict__.setdefault("snapshots", {})
    if stacks not in made:
        folder = tempfile.mkdtemp(prefix="gpumem-bench-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder) / "snapshot.pickle"
        out = bench.run([bench.python, bench.programs / "snapshot.py", path, EVENTS, stacks], env=bench.sim, timeout=900)
        if not path.exists():
            raise bench.Failed(f"no snapshot was made: …{' '.join(out.split())[-200:]}")
        made[stacks] = path
    return made[stacks]


def tenth(bench):
    """The same with a tenth of the events: what ten times as many cost more."""
    path = snapshot(bench).with_suffix(".tenth")
    if not path.exists():
        data = pickle.loads(snapshot(bench).read_bytes())
        data["device_traces"] = [trace[-EVENTS // 10 :] for trace in data["device_traces"]]
        path.write_bytes(pickle.dumps(data))
    return path


def processor_seconds(bench, command, says):
    def used():
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        return now.ru_utime + now.ru_stime

    before = used()
    out = bench.run(command, timeout=600)
    if says not in out:
        raise bench.Failed(f"no answer: …{' '.join(out.split())[-200:]}")
    return used() - before


def ours(*questions, of=snapshot):
    def measured(bench):
        path = of(bench)
        return sum(processor_seconds(bench, [bench.gpumem, one, path], "cuda:0") for one in questions)

    return measured


def load(of):
    def measured(bench):
        out = bench.run([bench.python, bench.programs / "load_snapshot.py", of(bench)])
        return bench.figure(out, "load")

    return measured


def memory_viz(form, says):
    def measured(bench):
        path = snapshot(bench)
        out = path.with_suffix(".out")
        command = f"{bench.python} -m torch.cuda._memory_viz {form} {path} -o {out} && tail -c 2000 {out}"
        if form == "stats":
            command = f"{bench.python} -m torch.cuda._memory_viz {form} {path}"
        return processor_seconds(bench, ["sh", "-c", command], says)

    return measured


def python_stacks(bench):
    return snapshot(bench, "python")


CONTENDERS = {
    "gpumem info": ours("info"),
    "pickle.load alone": load(snapshot),
    "gpumem info and peak": ours("info", "peak"),
    "torch.cuda._memory_viz stats": memory_viz("stats", "total_allocated"),
    "torch.cuda._memory_viz trace_plot": memory_viz("trace_plot", "script"),
    'gpumem info, stacks="python"': ours("info", of=python_stacks),
    'pickle.load alone, stacks="python"': load(python_stacks),
    "gpumem info, a tenth of the events": ours("info", of=tenth),
}
COMPARE = [
    ("gpumem info", "pickle.load alone", "of pickle.load's (at most 0.083, 0.05 to go for)"),
    ('gpumem info, stacks="python"', 'pickle.load alone, stacks="python"', "of pickle.load's"),
    ("gpumem info and peak", "torch.cuda._memory_viz stats", "of stats' time (at most 0.05)"),
    ("gpumem info and peak", "torch.cuda._memory_viz trace_plot", "of trace_plot's time (at most 0.05)"),
    ("gpumem info", "gpumem info, a tenth of the events", "times as much for ten times the events"),
]
