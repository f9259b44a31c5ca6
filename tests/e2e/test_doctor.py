"""`gpumem doctor`: what was detected, and what works."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys, time
import torch
if "cuda" in sys.argv:
    kept = torch.ones(1000, device="cuda")
print("ready", flush=True)
time.sleep(600)
"""


def checks(answer, part="process"):
    found = answer[part]["checks"] if part == "process" else answer[part]
    return {check["name"]: check for check in found}


def commands(answer):
    return {command["name"]: command for command in answer["commands"]}


@pytest.fixture
def program(spawn, python, tmp_path):
    """program(*args, env=None) -> the process of a PyTorch program that stands still."""

    def start(*args, env=None):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM)
        process = spawn([python, path, *args], stdout=subprocess.PIPE, env=env)
        assert process.stdout.readline() == "ready\n"
        return process

    return start


def test_without_a_process_it_describes_the_machine(run_gpumem, gdb_works):
    answer = run_gpumem("doctor", "--json").check().json()
    assert answer["process"] is None
    machine = checks(answer, "machine")
    assert machine["gdb"]["state"] == "ok" and "Python" in machine["gdb"]["value"]
    assert machine["simulated device"]["value"].endswith("/libgpumem-sim.so")
    assert commands(answer)["record"]["works"]


def test_without_gdb_it_says_what_to_do(run_gpumem):
    answer = run_gpumem("doctor", "--json", env={"PATH": "/nowhere"}).check().json()
    gdb = checks(answer, "machine")["gdb"]
    assert gdb["state"] == "problem" and "install" in gdb["advice"]
    assert not commands(answer)["record"]["works"]


def test_a_program_on_the_simulated_device_is_recognised(run_gpumem, program, sim_env):
    process = program("cuda", env=sim_env())
    answer = run_gpumem("doctor", "--pid", str(process.pid), "--json").check().json()
    found = checks(answer)
    assert "CPython %d.%d.%d" % sys.version_info[:3] in found["Python"]["value"]
    import torch

    assert found["PyTorch"]["value"].startswith(torch.__version__)
    assert "caching allocator" in found["allocator"]["value"]
    assert found["CUDA runtime"]["value"].startswith("simulated")
    assert commands(answer)["who-holds"]["works"]
    assert "gdb -p %d" % process.pid in commands(answer)["record"]["reason"]


def test_a_program_without_cuda_has_no_allocator_yet(run_gpumem, program):
    process = program()
    answer = run_gpumem("doctor", "--pid", str(process.pid), "--json").check().json()
    assert checks(answer)["allocator"]["state"] == "absent"
    assert commands(answer)["who-holds"]["works"], "it answers about CPU tensors"


def test_a_process_that_is_no_python_program_is_reported(run_gpumem, spawn):
    process = spawn(["/bin/sleep", "600"])
    run = run_gpumem("doctor", "--pid", str(process.pid)).check()
    assert "no Python here" in run.out
    assert "there is no PyTorch in it" in run.out


def test_no_such_process_is_an_error(run_gpumem):
    run = run_gpumem("doctor", "--pid", "999999999").check(4)
    assert run.err.startswith("gpumem: process 999999999: no such process")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("NotImplementedError: [error] missing libpython. Please install python3-dev", "apt-get install libpython3.N"),
        ('Scripting in the "Python" language is not supported in this copy of GDB.', "install a gdb with Python"),
    ],
)
def test_a_gdb_that_cannot_run_python_is_shown_with_its_error(run_gpumem, tmp_path, error, remedy):
    """The first is that of PyPI's gdb-for-pwndbg on a Debian without libpython."""
    gdb = tmp_path / "gdb"
    gdb.write_text(f"#!/bin/sh\necho Traceback >&2\necho '{error}' >&2\nexit 1\n")
    gdb.chmod(0o755)
    out = run_gpumem("doctor", env={**os.environ, "GPUMEM_GDB": str(gdb)}).out
    assert f"{gdb}: cannot run Python: {error}" in out and remedy in out


def test_inside_gdb_it_describes_the_program_being_debugged(run_gdb, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import torch\nkept = torch.ones(1000, device='cuda')\nimport os\nos.abort()\n")
    run = run_gdb(["gpumem doctor", "run", "gpumem doctor"], path, symbols=False)
    assert "this machine" in run[0]
    assert "\nprocess " not in run[0]
    assert "CPython" in run[2] and "simulated: " in run[2]
    assert "yes record" in run[2] and "yes who-holds" in run[2]
