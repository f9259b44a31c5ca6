"""Does an event cost the same in a long run? programs/agent_events.py with 10 and 100 times the events: processor time of an
event, and how much the process's own memory grew meanwhile."""

import os
import shutil
import tempfile

TITLE = "Recording by the agent, both stacks: an event in runs of 0.1, 1 and 10 million events, and the memory that they add"
UNIT = ""
PASSES = {"0.1 M events": "2000", "1 M events": "20000", "10 M events": "200000"}


def run(bench, passes):
    folder = tempfile.mkdtemp(prefix="gpumem-bench-")
    try:
        library = bench.root / "build" / "lib" / "libgpumem-agent.so"
        preload = f"{library}:{bench.sim.get('LD_PRELOAD', os.environ.get('LD_PRELOAD', ''))}"
        env = {**bench.sim, "LD_PRELOAD": preload}
        env["GPUMEM_AGENT"] = f"out={folder}/%p.gpumem;devices=cuda;stacks=python,native"
        return bench.run([bench.python, bench.programs / "agent_events.py", "bare", passes], env=env)
    finally:
        shutil.rmtree(folder)


def time_of(name):
    def contender(bench):
        if not hasattr(bench, "agent_growth"):
            bench.agent_growth = {}
        bench.agent_growth[name] = run(bench, PASSES[name])
        return bench.figure(bench.agent_growth[name], "us per event")

    return contender


def memory_of(name):
    return lambda bench: bench.figure(bench.agent_growth[name], "MiB more")


CONTENDERS = {f"{name}, us an event": time_of(name) for name in PASSES} | {
    f"{name}, MiB more": memory_of(name) for name in PASSES
}
COMPARE = [
    (f"{name}, us an event", "0.1 M events, us an event", f"times as much an event, {name}")
    for name in list(PASSES)[1:]
]
