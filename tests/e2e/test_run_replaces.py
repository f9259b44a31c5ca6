"""`gpumem run -o` with the name of an existing recording: the old recording stays until the new one has begun."""

import os
import shutil

import pytest

from conftest import PYTHON

BLOCKS = "import torch; kept = [torch.zeros(1 << 20, device='cuda') for _ in range({})]"
TWO = """
import os, subprocess, sys, torch
if len(sys.argv) == 1:
    children = [subprocess.Popen([sys.executable, __file__, str(n)]) for n in (2, 3)]
    sys.exit(max(child.wait() for child in children))
kept = [torch.zeros(1 << 20, device="cuda") for _ in range(int(sys.argv[1]))]
"""


@pytest.fixture(scope="module")
def made(run_gpumem, tmp_path_factory):
    file = tmp_path_factory.mktemp("made") / "run.gpumem"
    run_gpumem("run", "--sim", "-o", file, "--", PYTHON, "-c", BLOCKS.format(4)).check()
    return file


@pytest.fixture
def old(made, tmp_path):
    return shutil.copy(made, tmp_path / "run.gpumem")


def allocations(run_gpumem, file):
    return sum(event["action"] == "alloc" for event in run_gpumem("events", file, "--json").check().json_lines())


@pytest.mark.parametrize("why", ["no such program", "no event", "a wrong option"])
def test_the_old_recording_stays_if_no_new_one_begins(run_gpumem, old, why):
    whole = old.read_bytes()
    words = {
        "no such program": ["--", "/no/such/program"],
        "no event": ["--", PYTHON, "-c", "print(1)"],
        "a wrong option": ["--max-size", "no size", "--", PYTHON, "-c", "print(1)"],
    }[why]
    done = run_gpumem("run", "--sim", "-o", old, *words)
    assert (done.status == 0) == (why == "no event"), done.err
    assert old.read_bytes() == whole and os.listdir(old.parent) == [old.name]


def test_the_new_recording_replaces_the_old_one(run_gpumem, old):
    run_gpumem("run", "--sim", "-o", old, "--", PYTHON, "-c", BLOCKS.format(9)).check()
    assert allocations(run_gpumem, old) == 9 and os.listdir(old.parent) == [old.name]


LAUNCHER = """
import subprocess, sys, torch
on_the_cpu = torch.zeros(10)
on_the_cpu.resize_(1000)
torch.arange(10)
try:
    torch.empty(1 << 60)
except RuntimeError:
    pass
subprocess.run([sys.executable, "-c", "import torch; kept = torch.zeros(7, 5, device='cuda')"], check=True)
"""


def test_a_launcher_that_makes_only_cpu_tensors_does_not_take_the_name(run_gpumem, old, tmp_path):
    program = tmp_path / "launcher.py"
    program.write_text(LAUNCHER)
    run_gpumem("run", "--sim", "-o", old, "--", PYTHON, program).check()
    assert [path.name for path in tmp_path.glob("run.gpumem*")] == [old.name]
    (block,) = [e for e in run_gpumem("events", old, "--json").check().json_lines() if e["action"] == "alloc"]
    assert block["shape"] == [7, 5], block  # also of a process's very first block


def test_of_several_processes_one_replaces_the_old_recording_and_none_anothers(run_gpumem, old, tmp_path):
    program = tmp_path / "two.py"
    program.write_text(TWO)
    run_gpumem("run", "--sim", "-o", old, "--", PYTHON, program).check()
    made = sorted(tmp_path.glob("run.gpumem*"))
    assert len(made) == 2 and sorted(allocations(run_gpumem, file) for file in made) == [2, 3]
