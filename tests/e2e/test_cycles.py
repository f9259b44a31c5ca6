"""Cycles that nothing holds: which of them Python's collector frees is told before it runs, and is what it then frees. The cycles are
made up by chance, through Python's objects, .grad, autograd.Functions, saved tensors and hooks (programs/cycles.py)."""

import json
import subprocess

import pytest

from conftest import PYTHON, ROOT, Started

PROGRAM = ROOT / "tests" / "e2e" / "programs" / "cycles.py"
COUNT = 10
SEEDS = [3, 12]
LONG = range(20, 60)


class Cycles:
    """The program, waiting before its collector runs."""

    def __init__(self, seed, env):
        self.process = Started(
            [PYTHON, "-W", "ignore", PROGRAM, str(seed), str(COUNT)], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        said = json.loads(self.process.stdout.readline())
        self.pid, self.blocks = said["pid"], said["blocks"]

    def collect(self):
        """Addresses that are left."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return set(json.loads(self.process.stdout.readline()))

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(params=[*SEEDS, *(pytest.param(seed, marks=pytest.mark.long) for seed in LONG)])
def cycles(request, sim_env):
    program = Cycles(request.param, sim_env())
    yield program
    program.end()


def test_what_the_collector_frees_is_told_before_it_runs(cycles, run_gpumem):
    def ask(*question):
        return run_gpumem(*question, "--pid", cycles.pid, "--json").check().json()

    ends = {address: {one["end"] for one in ask("who-holds", hex(address))["holders"]} for address in cycles.blocks}
    roots = ask("retained")["roots"]
    left = cycles.collect()
    assert 0 < len(left) < len(cycles.blocks)
    wrong = {hex(address): said for address, said in ends.items()
             if said - {"garbage", "cycle"} or ("cycle" in said) != (address in left)}  # fmt: skip
    assert not wrong
    told = {node["kind"]: node["blocks"] for node in roots if node["kind"] in ("garbage", "cycle")}
    assert told["cycle"] == len(left)
    assert told["garbage"] == len(cycles.blocks) - len(left)
