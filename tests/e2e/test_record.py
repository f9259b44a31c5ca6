"""Recording at breakpoints: the events and their contents."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from conftest import EXAMPLES, ROOT

PROGRAMS = ROOT / "tests" / "e2e" / "programs"


def against_pytorch(run_gdb, tmp_path, program, **keys):
    """(PyTorch's trace, gpumem's events) of one run; each as (action, address, requested size)."""
    out = tmp_path / "pytorch.json"
    gdb = run_gdb(
        ["gpumem record", "run", "gpumem events --json", "kill"], PROGRAMS / "with_snapshot.py", [program, out], **keys
    )
    assert out.exists(), gdb.out
    trace = json.loads(out.read_text())["trace"]
    theirs = [
        (entry["action"], entry.get("addr", 0) if entry["action"] != "oom" else 0, entry["size"])
        for entry in trace
        if entry["action"] != "snapshot"
    ]
    events = gdb["gpumem events --json"].json_lines()
    ours = [(event["action"], int(event["address"], 16), event.get("requested") or event["size"]) for event in events]
    return theirs, ours


def test_a_free_that_waits_for_a_stream_is_completed_where_pytorch_completes_it(run_gdb, tmp_path):
    theirs, ours = against_pytorch(run_gdb, tmp_path, PROGRAMS / "deferred.py")
    actions = [action for action, _, _ in ours]
    assert ours == theirs
    assert actions.count("free_completed") >= 3


def test_released_segments_and_the_failed_request_are_in_pytorchs_order(run_gdb, tmp_path):
    theirs, ours = against_pytorch(run_gdb, tmp_path, PROGRAMS / "fills.py", sim="4GiB")
    assert ours == theirs
    actions = [action for action, _, _ in ours]
    assert "segment_free" in actions and "oom" in actions


def recorded(run_gdb, commands, program, args=(), **keys):
    gdb = run_gdb(["gpumem record", "run", "gpumem events --json", "gpumem info --json", *commands], program, args, **keys)
    return gdb, gdb["gpumem events --json"].json_lines(), gdb["gpumem info --json"].json()


@pytest.mark.long  # test_train_mlp.py has it of its own recording
def test_backward_on_the_autograd_thread_carries_its_callers_stack(run_gdb):
    _, events, _ = recorded(run_gdb, [], EXAMPLES / "train_mlp.py")
    main = events[0]["thread"]
    others = [event for event in events if event["thread"] != main]
    assert others
    for event in others:
        functions = [frame["function"] for frame in event["python"]]
        assert functions[0] == "_engine_run_backward" and "train" in functions, event


CPU = """
import torch
a = torch.empty(1000)
b = torch.empty(0)
del a
c = torch.zeros(3, dtype=torch.float64)
"""


def test_cpu_tensors_are_recorded_when_asked_for(run_gdb, tmp_path):
    program = tmp_path / "cpu.py"
    program.write_text(CPU)
    gdb = run_gdb(["gpumem record --devices cpu", "run", "gpumem events --json"], program, sim=False)
    events = gdb["gpumem events --json"].json_lines()
    assert [(event["action"], event["size"]) for event in events[:4]] == [
        ("alloc", 4000),
        ("free_requested", 4000),
        ("free_completed", 4000),
        ("alloc", 24),
    ]


def test_cpu_tensors_are_not_recorded_by_default(run_gdb, tmp_path):
    program = tmp_path / "cpu.py"
    program.write_text(CPU)
    assert "recorded 0 events;" in run_gdb(["gpumem record", "run"], program, sim=False)["run"]


ATTACHED = """
import sys, time, torch
kept = [torch.empty(1000 * size, device="cuda") for size in range(1, 9)]
del kept[3]
print(torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), flush=True)
while True:
    one = torch.empty(500_000, device="cuda")
    time.sleep(0.01)
"""


@pytest.fixture
def attached(tmp_path, spawn, python, sim_env):
    """A program that has already imported torch and allocated memory: (process, allocated, reserved)."""
    program = tmp_path / "attached.py"
    program.write_text(ATTACHED)
    process = spawn([python, program], env=sim_env(), stdout=subprocess.PIPE)
    allocated, reserved = map(int, process.stdout.readline().split())
    return process, allocated, reserved


@pytest.mark.every_debugger
def test_a_log_that_begins_late_adds_up_and_reports_it(attached, run_gdb):
    process, allocated, reserved = attached
    gdb = run_gdb(
        ["gpumem record", "gpumem info --json", "gpumem events --json", "gpumem step 6", "detach"],
        pid=process.pid,
        sim=False,
        symbols=False,
    )
    info = gdb["gpumem info --json"].json()
    (device,) = info["devices"]
    # the loop's current block may exist or not
    assert device["allocated"] - allocated in (0, 2_000_384, 4_000_768), gdb.out
    assert device["reserved"] - reserved in (0, 20 << 20)
    assert any("began late" in gap for gap in info["gaps"])
    assert info["complete"] is False


def test_a_detached_program_continues(attached, run_gdb, wait_for):
    process, _, _ = attached
    gdb = run_gdb(["gpumem record", "gpumem step 20", "detach", "gpumem info"], pid=process.pid, sim=False)
    assert "detached" in gdb["detach"] and "recorded" in gdb["detach"]
    assert "events" in gdb["gpumem info"]
    before = cpu_time(process.pid)
    wait_for(lambda: cpu_time(process.pid) > before)
    assert process.poll() is None
    assert tracer(process.pid) == 0


def cpu_time(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def tracer(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"TracerPid:\s*(\d+)", file.read())[1])


KILLED = """
import os, signal, torch
for size in range(1, 50):
    kept = torch.empty(size * 1000, device="cuda")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_log_of_a_killed_program_is_readable(run_gdb, run_gpumem, tmp_path):
    program, log = tmp_path / "killed.py", tmp_path / "killed.gpumem"
    program.write_text(KILLED)
    gdb = run_gdb(["gpumem record", "run", f"gpumem record save {log}"], program)
    assert "SIGKILL" in gdb["run"]
    info = run_gpumem("info", log, "--json").check().json()
    assert info["devices"][0]["events"] > 100
    # the last attempt to read the process was refused, so names come from the files
    events = run_gpumem("events", log, "--json").check().json_lines()
    assert events[-1]["native"][0]["function"].startswith("c10::reportMemoryUsageToProfiler(")


def test_recording_changes_neither_the_programs_result_nor_its_status(run_gdb, run, python, sim_env, tmp_path):
    program = tmp_path / "result.py"
    program.write_text(
        "import sys, torch\n"
        "x = torch.arange(10.0).to('cuda'); y = x.cpu()\n"
        "print('sum', y.sum().item(), torch.cuda.memory_allocated())\nsys.exit(7)\n"
    )
    alone = run([python, program], env=sim_env())
    gdb = run_gdb(["gpumem record", "run", "print $_exitcode"], program)
    line = next(line for line in alone.out.splitlines() if line.startswith("sum"))
    assert alone.status == 7
    assert line in gdb["run"]
    assert "$1 = 7" in gdb["print $_exitcode"]


EXTENSION = """\
#include <c10/core/Allocator.h>

static c10::DataPtr kept;

extern "C" void make_one(long count)
{
	kept = c10::GetAllocator(c10::DeviceType::CUDA)->allocate(4 * count);
}
"""


@pytest.fixture(scope="module")
def extension(tmp_path_factory, python):
    """A user's C++ extension, built with -g. It includes only PyTorch's c10 headers, because those of ATen compile slowly."""
    if not shutil.which("g++"):
        pytest.skip("no C++ compiler on this machine")
    directory = tmp_path_factory.mktemp("extension")
    torch = subprocess.run(
        [python, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    source, library = directory / "user_ext.cpp", directory / "user_ext.so"
    source.write_text(EXTENSION)
    subprocess.run(
        ["g++", "-std=c++20", "-g", "-shared", "-fPIC", f"-I{torch}/include", source, "-o", library, f"-L{torch}/lib", "-lc10"],
        check=True,
    )
    program = directory / "uses.py"
    program.write_text(
        "import ctypes, torch\n"
        "torch.zeros(1, device='cuda')\n"
        f"extension = ctypes.CDLL({str(library)!r})\n"
        "extension.make_one(ctypes.c_long(5_000_000))\n"
        "print('made')\n"
    )
    return program, source


def test_a_users_extension_has_file_and_line_in_native_stacks(run_gdb, extension):
    program, source = extension
    _, events, _ = recorded(run_gdb, [], program)
    alloc = next(event for event in events if event["action"] == "alloc" and event["requested"] == 20_000_000)
    frames = [frame for frame in alloc["native"] if frame["function"] == "make_one"]
    assert [(frame["file"], frame["line"]) for frame in frames] == [(str(source), 7)], alloc["native"]


def test_the_users_own_breakpoints_and_steps_work_while_recording(run_gdb, extension):
    program, source = extension
    gdb = run_gdb(
        ["gpumem record", "set breakpoint pending on", f"break {source.name}:7", "run", "next", "info breakpoints",
         "continue", "gpumem info --json"],
        program,
    )
    assert "make_one (count=5000000)" in gdb["run"]
    assert re.search(r"^8\s", gdb["next"], re.M), gdb["next"]
    assert len(re.findall(r"^[0-9]+ ", gdb["info breakpoints"], re.M)) == 1
    assert gdb["gpumem info --json"].json()["devices"][0]["peak_allocated"] >= 20_000_000


def test_the_users_steps_over_recorded_calls_stop_as_usual(run_gdb, extension):
    """`next` over a recorded call: gpumem itself executes the instruction under its breakpoint."""
    program, source = extension
    gdb = run_gdb(
        ["gpumem record", "set breakpoint pending on", f"tbreak {source.name}:7", "run", "next", "next", "finish",
         "continue"],
        program,
    )
    assert re.search(r"^8\s", gdb["next"], re.M), gdb["next"]
    assert "made" in gdb["continue"] and "exited normally" in gdb["continue"], gdb.out
