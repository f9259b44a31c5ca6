"""Random states of the allocator, of a process that lives and of its core: segments, holes and sums are PyTorch's own. So are the
figures of `oom`, after a request that could not be served."""

import collections
import json
import os
import random
import subprocess
from pathlib import Path

import pytest

import truth

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


def check_oom(answer, said):
    def total(state, private):
        return sum(block["size"] for one in said["segments"] for block in one["blocks"]
                   if block["state"] == state and (tuple(one["segment_pool_id"]) != (0, 0)) in private)  # fmt: skip

    assert answer["reserved"] == said["stats"]["reserved_bytes.all.current"]
    assert answer["allocated"] == said["stats"]["allocated_bytes.all.current"]
    assert answer["pending"] == total("active_pending_free", (False, True))
    assert (answer["unallocated"], answer["private_pools"]) == (total("inactive", (False,)), total("inactive", (True,)))
    assert answer["requested"] == 1 << 40 and answer["missing"] == answer["needed"] - answer["free"]


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


def check_core(core, run_gpumem, program, said):
    run_gpumem("core", program.pid, "-o", core).check()
    try:
        check(run_gpumem("segments", "--core", core, "--json").check().json(), said)
        info = run_gpumem("info", "--core", core, "--json").check().json()
        assert info["complete"] and info["gaps"] == []
        check_oom(run_gpumem("oom", core, "--json").check().json(), said)
    finally:
        core.unlink()


def walk(program, run_gpumem, seeds, settings, core, core_each):
    """Each state of the process, and then what it is when a request fails in it; of one in `core_each`, and of the last, a core too."""
    asked, wrongs = collections.Counter(), []

    def ask(question, source, seed, compare, *arguments):
        asked[question, source] += 1
        try:
            compare(*arguments)
        except AssertionError as wrong:
            wrongs.append(((question, source), f"seed {seed}: {wrong}"))

    def answer(command):
        return run_gpumem(command, "--pid", program.pid, "--json").check().json()

    for seed in seeds:
        said = program.state(seed)
        ask("segments", "a process", seed, check, answer("segments"), said)
        said = program.state("fail")
        ask("oom", "a process", seed, check_oom, answer("oom"), said)
        if (seed - seeds[0]) % core_each == core_each - 1 or seed == seeds[-1]:
            ask("segments, oom", "a core", seed, check_core, core, run_gpumem, program, said)
    for one, count in asked.items():
        wrong = [text for other, text in wrongs if one == other]
        truth.note(*one, "states", count, count - len(wrong), f"{settings} {seeds}", wrong)
    assert not wrongs, f"{len(wrongs)} wrong of {dict(asked)}, the first: {wrongs[0]}"


@pytest.mark.parametrize("settings", [pytest.param(one, marks=[pytest.mark.long] * (one != "expandable_segments:True")) for one in SETTINGS])
def test_segments_of_random_states_are_pytorchs(spawn, python, sim_env, run_gpumem, settings, tmp_path):
    walk(Program(spawn, python, sim_env("4GiB"), settings), run_gpumem, range(8), settings, tmp_path / "core", 8)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("part", range(5))
def test_segments_of_many_random_states_are_pytorchs(spawn, python, sim_env, run_gpumem, part, settings, tmp_path):
    first = int(os.environ.get("GPUMEM_TEST_SEED") or random.randrange(1 << 30))
    program = Program(spawn, python, sim_env("4GiB"), settings)
    walk(program, run_gpumem, range(first + 100 * part, first + 100 * part + 100), settings, tmp_path / "core", 5)
