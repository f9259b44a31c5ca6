"""info, blocks and segments of a process without a recording, compared with PyTorch's own figures in that process."""

import json
import subprocess
from pathlib import Path

import pytest

from conftest import spawning

PROGRAM = Path(__file__).parent / "programs" / "holes.py"
MIB = 1 << 20


class Program:
    """A process on the simulated device that serves requests; see programs/holes.py."""

    def __init__(self, process):
        self.process = process
        line = process.stdout.readline()
        assert line.startswith("{"), line
        self.said = json.loads(line)
        self.pid = str(self.said["pid"])

    def ask(self, size):
        self.process.stdin.write(f"{size}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def start_with(spawn, python, sim_env, *words, env=None):
    environment = {**sim_env("8GiB"), **(env or {})}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return Program(spawn([python, "-W", "ignore", PROGRAM, *words], env=environment, **pipes))


@pytest.fixture
def start(spawn, python, sim_env):
    return lambda *words, **keys: start_with(spawn, python, sim_env, *words, **keys)


@pytest.fixture(scope="module")
def plain(python, sim_env):
    """Nothing changes in it."""
    with spawning() as spawn:
        yield start_with(spawn, python, sim_env)


@pytest.fixture(scope="module")
def pool(python, sim_env):
    """Nothing changes in it."""
    with spawning() as spawn:
        yield start_with(spawn, python, sim_env, "pool")


def test_info_of_a_process_is_what_pytorch_counts(start, run_gpumem):
    program = start("limit", env={"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:100"})
    info = run_gpumem("info", "--pid", program.pid, "--json").check().json()
    assert info["complete"] and info["gaps"] == []
    device, stats = info["devices"][0], program.said["stats"]
    for ours, theirs in (("allocated", "current"), ("peak_allocated", "peak")):
        for kind in ("allocated", "reserved", "requested", "active"):
            assert device[ours.replace("allocated", kind)] == stats[f"{kind}_bytes.all.{theirs}"]
    assert device["ooms"] == stats["num_ooms"] and device["alloc_retries"] == stats["num_alloc_retries"]
    assert device["max_split_size"] == stats["max_split_size"] == 100 * MIB
    assert device["limit"] == 4096 * MIB
    assert device["device_total"] == 8192 * MIB


def test_without_a_limit_there_is_none(plain, run_gpumem):
    program = plain
    device = run_gpumem("info", "--pid", program.pid, "--json").check().json()["devices"][0]
    assert device["limit"] is None and device["max_split_size"] is None
    text = run_gpumem("info", "--pid", program.pid).check().out
    assert "limit" not in text
    assert f"({device['allocated']:,} bytes)" in text


@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
def test_segments_of_a_process_are_pytorchs(pool, start, run_gpumem, settings):
    program = start("pool", env={"PYTORCH_CUDA_ALLOC_CONF": settings}) if settings else pool
    ours = run_gpumem("segments", "--pid", program.pid, "--json").check().json()
    theirs = program.said["segments"]
    # PyTorch lists each mapped range of an expandable segment, gpumem the segment
    assert sum(one["size"] for one in ours["segments"]) == sum(one["total_size"] for one in theirs)
    states = {"used": "active_allocated", "pending": "active_pending_free", "free": "inactive"}
    pieces = [
        (piece["address"], piece["size"], states[piece["state"]], one["stream"], one["pool"], one["private"], one["expandable"])
        for one in ours["segments"]
        for piece in one["blocks"]
        if piece["state"] != "unmapped"
    ]
    expected = [
        (hex(block["address"]), block["size"], block["state"], one["stream"], one["segment_type"],
         one["segment_pool_id"] != [0, 0], one["is_expandable"])
        for one in theirs
        for block in one["blocks"]
    ]  # fmt: skip
    assert sorted(pieces) == sorted(expected)
    assert {piece[5] for piece in pieces} == {True, False}
    free = [block["size"] for one in theirs for block in one["blocks"] if block["state"] == "inactive"]
    assert (ours["free"], ours["holes"], ours["largest_free"]) == (sum(free), len(free), max(free))


def test_a_snapshots_segments_are_those_of_the_process(start, run_gpumem, tmp_path):
    path = tmp_path / "run.pickle"
    program = start("snapshot", str(path))
    live = run_gpumem("segments", "--pid", program.pid, "--json").check().json()
    read = run_gpumem("segments", str(path), "--json").check().json()

    def pieces(answer):
        return [
            (one["address"], one["size"], one["stream"], [(piece["address"], piece["size"], piece["state"]) for piece in one["blocks"]])
            for one in answer["segments"]
        ]

    assert pieces(read) == pieces(live)
    for key in ("reserved", "allocated", "free", "largest_free", "holes"):
        assert read[key] == live[key]


SIZES = [100, 4 * MIB, 5 * MIB, 5 * MIB + 1, 29 * MIB, 30 * MIB, 31 * MIB, 41 * MIB, 3 * MIB, MIB, MIB + 1, 70 * MIB]


@pytest.mark.parametrize("settings", ["", "max_split_size_mb:20"])
def test_a_request_gets_the_predicted_hole(start, run_gpumem, settings):
    program = start("pool", env={"PYTORCH_CUDA_ALLOC_CONF": settings} if settings else None)
    outcomes = set()
    for size in SIZES:
        told = run_gpumem("segments", "--pid", program.pid, f"--request={size}", "--json").check().json()["request"]
        came = program.ask(size)
        assert told["fits"] == (not came["grew"]), size
        outcomes.add(told["fits"])
        if told["fits"]:
            assert told["at"] == hex(came["address"]), size
    assert outcomes == {True, False}


def test_a_request_that_fits_nowhere_gets_a_reason(pool, run_gpumem):
    program = pool
    text = run_gpumem("segments", "--pid", program.pid, "--request", "45MiB").check().out
    assert "fits in no free part" in text
    assert "the largest 50.00 MiB: in a private pool" in text
    assert "the largest 40.00 MiB: of another stream's segments" in text
    assert "so PyTorch asks CUDA for a new segment of 46.00 MiB: the device has that much" in text
    text = run_gpumem("segments", "--pid", program.pid, "--request", "9GiB").check().out
    assert "refused, the device has" in text


def test_blocks_of_a_process_add_up_and_show_their_tensors(plain, run_gpumem):
    program = plain
    blocks = run_gpumem("blocks", "--pid", program.pid, "--json").check().json()
    assert blocks["allocated"] == program.said["stats"]["allocated_bytes.all.current"]
    assert sum(one["size"] for one in blocks["blocks"]) == blocks["allocated"]
    assert sum(one["bytes"] for one in blocks["groups"]) == blocks["allocated"]
    assert sum(one["requested"] for one in blocks["blocks"]) == program.said["stats"]["requested_bytes.all.current"]
    biggest = blocks["blocks"][0]
    assert biggest["size"] == 64 * MIB and biggest["tensor"]["dtype"] == "uint8" and biggest["tensor"]["shape"] == [64 * MIB]


def test_a_question_that_needs_a_recording_is_refused_with_the_reason(plain, run_gpumem):
    program = plain
    run = run_gpumem("blocks", "--pid", program.pid, "--by", "line").check(4)
    assert "the places of allocation were not recorded" in run.err
    run = run_gpumem("segments", "--pid", program.pid, "--at-peak").check(4)
    assert "need a recording" in run.err
    run = run_gpumem("info", "somefile", "--pid", program.pid).check(2)
    assert "a FILE and a process" in run.err


def test_in_gdb_the_program_is_asked_where_nothing_is_recorded(run_gdb, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import os, torch\nkept = torch.ones(1000, 1000, device='cuda')\n"
        "print('allocated', torch.cuda.memory_allocated(), flush=True)\nos.abort()\n"
    )
    run = run_gdb(["run", "gpumem info", "gpumem blocks", "gpumem segments --request 64MiB"], path, symbols=False)
    assert "allocated 4000256" in run[0]
    assert "(4,000,256 bytes)" in run[1] and "nothing recorded" in run[1]
    assert "(1000, 1000) float32" in run[2]
    assert "fits in no free part" in run[3]
