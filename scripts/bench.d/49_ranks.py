"""Eight ranks' snapshots of 87 thousand events (a tenth of 40_snapshot's, under eight names): gpumem-ranks in one process, and a pool of two
Python processes that only loads them. Processor time, all processes together."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
reading = import_module("40_snapshot")
TITLE = "Eight ranks' snapshots of 87 thousand events: processor time"
UNIT = "s"
RANKS = 8
POOL = """
import multiprocessing, pickle, sys

def load(path):
    with open(path, "rb") as file:
        return len(pickle.load(file)["device_traces"])

if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print("loaded", sum(pool.map(load, sys.argv[1:])))
        pool.close()
        pool.join()
"""


def files(bench):
    one = reading.tenth(bench)
    ranks = [one.with_name(f"snapshot_rank{rank}.pickle") for rank in range(RANKS)]
    for path in ranks:
        if not path.is_symlink():
            path.symlink_to(one)
    return ranks


def ranks(bench):
    program = Path(bench.gpumem).parent / "gpumem-ranks"
    return reading.processor_seconds(bench, [program, "peak", *files(bench), "--no-keep"], f"{RANKS} recordings")


def pool(bench):
    paths = files(bench)
    script = paths[0].with_name("pool.py")
    script.write_text(POOL)
    return reading.processor_seconds(bench, [bench.python, script, *paths], f"loaded {RANKS}")


CONTENDERS = {"gpumem-ranks peak": ranks, "a pool with pickle.load": pool}
COMPARE = [("a pool with pickle.load", "gpumem-ranks peak", "times gpumem's (the goal: at least 20)")]
