import os
import tempfile

TITLE = "A step of a transformers GPT-2 on the simulated device, both stacks; recorded and not, in turn in one process"
UNIT = "ms"
BLOCKS = "16"
WAYS = ("not recorded", "recorded")


def measured(bench):
    """One process's figures, in which blocks of steps take turns: one run serves all contenders of a round."""
    with tempfile.TemporaryDirectory() as folder:
        lib = bench.root / "build" / "lib"
        preload = f"{lib / 'libgpumem-agent.so'}:{bench.sim.get('LD_PRELOAD', os.environ.get('LD_PRELOAD', ''))}"
        env = {**bench.sim, "LD_PRELOAD": preload, "GPUMEM_AGENT": f"out={folder}/first.gpumem;devices=cpu;stacks=none"}
        env |= {"PYTHONPATH": f"{lib / 'gpumem-python'}", "TURNS": folder}
        return bench.run([bench.python, bench.programs / "agent_training.py", BLOCKS], env=env)


def figure(way, what, first):
    def contender(bench):
        if first:
            bench.agent_script = measured(bench)
        return bench.figure(bench.agent_script, f"{way}, {what}")

    return contender


CONTENDERS = {
    f"{way}, {what}": figure(way, what, (way, what) == (WAYS[0], "processor"))
    for what in ("processor", "wall")
    for way in WAYS
}
COMPARE = [(f"recorded, {what}", f"not recorded, {what}", f"of the unrecorded {what} time") for what in ("processor", "wall")]
