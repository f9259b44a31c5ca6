"""Random states of the allocator, of a process that lives and of its core: segments, holes and sums are PyTorch's own."""

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "states.py"
STATES = {"used": "active_allocated", "pending": "active_pending_free", "free": "inactive"}
SETTINGS = ["", "max_split_size_mb:40", "expandable_segments:True", "roundup_power2_divisions:4,garbage_collection_threshold:0.6"]


def ours(answer):
    return sorted(
        (piece["address"], piece["size"], STATES[piece["state"]], piece["requested"] if piece["state"] != "free" else 0,
         segment["stream"], segment["pool"])
        for segment in answer["segments"]
        for piece in segment["blocks"]
        if piece["state"] != "unmapped"
    )  # fmt: skip


def theirs(segments):
    return sorted(
        (hex(block["address"]), block["size"], block["state"], block["requested_size"] if block["state"] != "inactive" else 0,
         segment["stream"], segment["segment_type"])
        for segment in segments
        for block in segment["blocks"]
    )  # fmt: skip


def check(answer, said):
    free = [block["size"] for one in said["segments"] for block in one["blocks"] if block["state"] == "inactive"]
    assert ours(answer) == theirs(said["segments"])
    assert answer["complete"] and answer["gaps"] == []
    assert answer["reserved"] == said["stats"]["reserved_bytes.all.current"]
    assert answer["allocated"] == said["stats"]["allocated_bytes.all.current"]
    assert (answer["free"], answer["holes"], answer["largest_free"]) == (sum(free), len(free), max(free, default=0))


class Program:
    def __init__(self, spawn, python, env, settings):
        env = {**env, **({"PYTORCH_CUDA_ALLOC_CONF": settings} if settings else {})}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.process = spawn([python, "-W", "ignore", PROGRAM], env=env, **pipes)
        self.pid = json.loads(self.process.stdout.readline())["pid"]

    def state(self, seed):
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line.startswith("{"), line
        return json.loads(line)


def walk(program, run_gpumem, seeds):
    for seed in seeds:
        said = program.state(seed)
        try:
            check(run_gpumem("segments", "--pid", program.pid, "--json").check().json(), said)
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed} of {seeds}: {wrong}") from None
    return said


@pytest.mark.parametrize("settings", SETTINGS)
def test_segments_of_random_states_are_pytorchs(spawn, python, sim_env, run_gpumem, settings, tmp_path):
    program = Program(spawn, python, sim_env("4GiB"), settings)
    said = walk(program, run_gpumem, range(12))
    core = tmp_path / "core"
    run_gpumem("core", program.pid, "-o", core).check()
    check(run_gpumem("segments", "--core", core, "--json").check().json(), said)
    info = run_gpumem("info", "--core", core, "--json").check().json()
    assert info["complete"] and info["gaps"] == []


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("settings", SETTINGS)
def test_segments_of_many_random_states_are_pytorchs(spawn, python, sim_env, run_gpumem, settings):
    first = int(os.environ.get("GPUMEM_TEST_SEED") or random.randrange(1 << 30))
    walk(Program(spawn, python, sim_env("4GiB"), settings), run_gpumem, range(first, first + 500))
