"""A process whose allocator counts what its tables do not hold: every answer about its memory says so, none is called complete.

The program changes its allocator's own statistics in memory, as a block that gpumem fails to read would change the sum."""

import json
import subprocess

import pytest
from conftest import spawning

PROGRAM = """
import ctypes, json, os, sys, torch

kept = [torch.zeros(size, dtype=torch.uint8, device="cuda") for size in (3 << 20, 70_000, 123_456_789)]
try:
    torch.zeros(1 << 40, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    pass

def words_of(figure):
    stats = torch.cuda.memory_stats()
    names = ("current", "peak", "allocated", "freed")
    return b"".join(stats[f"{figure}_bytes.all.{name}"].to_bytes(8, "little") for name in names)

def find(words):
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            range_, rights, _, _, inode, *_ = line.split()
            start, end = (int(one, 16) for one in range_.split("-"))
            if rights.startswith("rw") and inode == "0" and end - start < 1 << 30:
                memory.seek(start)
                at = memory.read(end - start).find(words)
                while at >= 0:
                    yield start + at
                    memory.seek(start)
                    at = memory.read(end - start).find(words, at + 8)

def change(figure, by):
    # the search makes copies of what it looks for: PyTorch itself tells which place is the allocator's
    before = torch.cuda.memory_stats()[f"{figure}_bytes.all.current"]
    for place in list(find(words_of(figure))):
        word = ctypes.c_int64.from_address(place)
        if word.value != before:
            continue
        word.value = before + by
        if torch.cuda.memory_stats()[f"{figure}_bytes.all.current"] == before + by:
            return
        word.value = before
    raise SystemExit("the allocator's statistics were not found")

def say():
    stats = torch.cuda.memory_stats()
    print(json.dumps({figure: stats[f"{figure}_bytes.all.current"] for figure in ("allocated", "reserved")}), flush=True)

say()
for line in sys.stdin:
    figure, by = line.split()
    change(figure, int(by))
    say()
"""


LATE = """
import ctypes, json, sys, torch

kept = [torch.zeros(3 << 20, dtype=torch.uint8, device="cuda")] if sys.argv[3] == "late" else []
agent = ctypes.CDLL(sys.argv[1])
assert agent.gpumem_agent_start(f"out={sys.argv[2]};devices=cuda;stacks=none".encode()) == 0
for size in (70_000, 123_456_789):
    kept.append(torch.zeros(size, dtype=torch.uint8, device="cuda"))
agent.gpumem_agent_stop()
print(json.dumps([torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]))
"""


@pytest.mark.parametrize("when", ["late", "in time"])
def test_a_recording_that_began_late_has_the_sum_of_its_events_and_the_allocators_figure(run, run_gpumem, python, build_dir, sim_env, tmp_path, when):
    agent, log = build_dir / "lib/libgpumem-agent.so", tmp_path / "run.gpumem"
    allocated, reserved = json.loads(run([python, "-c", LATE, agent, log, when], env=sim_env("8GiB")).check().out)
    (device,) = run_gpumem("info", log, "--json").check().json()["devices"]
    missing = 3 << 20 if when == "late" else 0
    assert device["allocated"] == allocated - missing
    assert (device["reported_allocated"], device["reported_reserved"]) == (allocated, reserved)
    assert run_gpumem("blocks", log, "--json").check().json()["allocated"] == allocated


@pytest.fixture(scope="module")
def program(python, sim_env, tmp_path_factory):
    """A test that changes its statistics changes them back."""
    path = tmp_path_factory.mktemp("counts") / "counts.py"
    path.write_text(PROGRAM)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with spawning() as spawn:
        process = spawn([python, "-W", "ignore", path], env=sim_env("8GiB"), **pipes)
        process.said = json.loads(process.stdout.readline())
        yield process


def change(program, figure, by):
    program.stdin.write(f"{figure} {by}\n")
    program.stdin.flush()
    before, program.said = program.said, json.loads(program.stdout.readline())
    assert program.said[figure] == before[figure] + by


@pytest.mark.parametrize("figure", ["allocated", "reserved"])
def test_every_answer_says_that_the_sums_differ(program, run_gpumem, tmp_path, figure):
    pid, read = program.pid, program.said[figure]
    for command in ("info", "segments", "blocks", "oom"):
        answer = run_gpumem(command, "--pid", pid, "--json").check().json()
        assert answer["complete"] and answer["gaps"] == [], command
        assert "the allocator counts" not in run_gpumem(command, "--pid", pid).check().out
    change(program, figure, 4096)
    core = tmp_path / "core"
    run_gpumem("core", pid, "-o", core).check()
    said = f"cuda:0: the blocks that were read add up to {read} bytes {figure}, the allocator counts {read + 4096}"
    for where in (("--pid", pid), ("--core", core)):
        for command in ("info", "segments", "blocks", "oom"):
            answer = run_gpumem(command, *where, "--json").check().json()
            assert answer["complete"] is False, command
            (gap,) = answer["gaps"]
            assert gap.startswith(said), command
            assert said in run_gpumem(command, *where).check().out, command
    change(program, figure, -4096)
    assert run_gpumem("segments", "--pid", pid, "--json").check().json()["complete"]
