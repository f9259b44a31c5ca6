"""The agent's stacks, taken in the program itself, are what Python and backtrace(3) say of the same moment.

build/tests/stacks_probe.so is the agent's core/agent/stacks alone; programs/stacks_truth.py loads it and compares. On each
CPython that is found: the one with torch, and those of ~/.pyenv/versions.
"""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import PYTHON
from test_cpython import VERSIONS, interpreter_of

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def probe(build_dir):
    library = build_dir / "tests" / "stacks_probe.so"
    assert library.exists(), f"{library} is not built"
    return library


@pytest.fixture(scope="module", params=VERSIONS)
def interpreter(request):
    found = interpreter_of(request.param)
    if not found or not Path(found).exists():
        pytest.skip(f"no CPython {request.param} on this machine")
    return found


def test_stacks_are_those_of_python_and_backtrace(interpreter, probe):
    done = subprocess.run(
        [interpreter, "-X", "utf8", PROGRAMS / "stacks_truth.py", probe], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines and lines[-1] == "done", "\n".join(line for line in lines if not line.startswith("ok "))
    assert len([line for line in lines if line.startswith("ok ")]) > 30


def told(gpumem, log):
    """What a recording tells of each event's place, without what differs from run to run."""
    shown = subprocess.run([gpumem, "events", log, "--json"], capture_output=True, text=True, timeout=600, check=True)
    rows = []
    for event in map(json.loads, shown.stdout.splitlines()):
        python = [(Path(frame["file"]).name, frame["line"], frame["function"]) for frame in event["python"]]
        rows.append((event["action"], event["size"], event["step"], event["phase"], event["borrowed"], python))
    return rows


def cause(gpumem, log, block):
    done = subprocess.run([gpumem, "why", log, f"#{block}", "--json"], capture_output=True, text=True)
    found = (json.loads(done.stdout)["cause"] if done.returncode == 0 else None) or {}  # None: it is alive
    return [found.get(key) for key in ("kind", "name", "function", "line", "step")]


@pytest.mark.long
def test_the_agent_records_the_same_as_breakpoints(build_dir, run_gdb, examples, python, tmp_path):
    gpumem = build_dir / "bin" / "gpumem"
    breakpoints, agent = tmp_path / "breakpoints.gpumem", tmp_path / "agent.gpumem"
    program = examples / "train_mlp.py"
    run_gdb(["gpumem record", "run", f"gpumem record save {breakpoints}"], program)
    subprocess.run(
        [gpumem, "run", "--sim", "-o", agent, "--", python, program], capture_output=True, timeout=600, check=True
    )
    expected = told(gpumem, breakpoints)
    assert told(gpumem, agent) == expected
    blocks = [n for n, row in enumerate(expected) if row[0] == "alloc"]
    assert len(blocks) > 60
    causes = [cause(gpumem, agent, n) for n in blocks]
    assert causes == [cause(gpumem, breakpoints, n) for n in blocks]
    # among them what only the frame that is torn down tells; before 3.11 it is unlinked by then
    version = subprocess.run([python, "-c", "import sys; print(sys.version_info >= (3, 11))"], capture_output=True, text=True)
    if version.stdout.strip() == "True":
        assert "function_return" in {kind for kind, *_ in causes}


ANOTHER_BUILD = """
import ctypes, sys
def poke(name, word, value):
    words = (ctypes.c_uint64 * 3).in_dll(ctypes.pythonapi, name)
    page = ctypes.addressof(words) & ~4095
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), 8192, 7) == 0
    words[word] = value
poke(sys.argv[2], int(sys.argv[3]), int(sys.argv[4], 16))
probe = ctypes.PyDLL(sys.argv[1])
probe.probe_take.restype = probe.probe_gap.restype = ctypes.c_char_p
probe.probe_start(1, 1)
text = probe.probe_take(0).decode()
print("frames", text.split("native")[0].count("<module>"))
print(probe.probe_gap().decode())
"""


@pytest.mark.parametrize("version", ["3.13", "3.14", "3.15"])
@pytest.mark.parametrize(
    "poked, frames, gap",
    [
        (("Py_Version", 0, "031002f0"), 0, "this version of CPython is not known (3.9 to 3.15 are)"),
        (("Py_Version", 0, "0"), 0, "this version of CPython is not known"),
        (("_PyRuntime", 2, "1"), 0, "this build of CPython (free-threaded, or stripped) is not known"),
        (("_PyRuntime", 2, "0"), 1, ""),
    ],
    ids=["next", "none", "free-threaded", "itself"],
)
def test_a_python_of_another_build_has_no_stacks(version, poked, frames, gap, probe, tmp_path):
    path = interpreter_of(version)
    if not path or not Path(path).exists():
        pytest.skip(f"no CPython {version} on this machine")
    done = subprocess.run([path, "-c", ANOTHER_BUILD, probe, *map(str, poked)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    first, told_gap = done.stdout.split("\n", 1)
    assert first == f"frames {frames}"
    assert told_gap.startswith(gap) if gap else told_gap.strip() == ""


# From 2.15 on PyTorch's dispatcher calls Python for some operators, on the autograd engine's threads too.
OVERRIDDEN = """
import torch
w = torch.nn.Parameter(torch.randn(4, 256, 256, device="cuda"))
optimizer = torch.optim.SGD([w], lr=0.1)

def train_step():
    loss = torch.bmm(torch.randn(4, 64, 256, device="cuda"), w).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

for _ in range(3):
    train_step()
"""


@pytest.mark.parametrize("engine", ["agent", "breakpoint"])
def test_what_an_operator_s_override_allocates_in_backward_has_the_program_s_line(run_gpumem, run_gdb, tmp_path, engine):
    program, log = tmp_path / "program.py", tmp_path / "run.gpumem"
    program.write_text(OVERRIDDEN)
    if engine == "agent":
        run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program).check()
    else:
        run_gdb(["gpumem record", "run", f"gpumem record save {log}"], program)
    events = run_gpumem("events", log, "--json", "--stacks").check().out.splitlines()
    backward = [event for event in map(json.loads, events) if event["phase"] == "backward" and event["action"] == "alloc"]
    assert len(backward) >= 6
    for event in backward:
        functions = [frame["function"] for frame in event["python"]]
        assert "train_step" in functions and functions[-1] == "<module>", event
    assert sum(event["borrowed"] for event in backward) >= 6
    gradients = [event["n"] for event in backward if event["requested"] == 4 * 4 * 256 * 256]
    blocks = run_gpumem("blocks", log, f"--at={backward[-1]['n']}", "--json").check().json()["blocks"]
    assert [block["category"] for block in blocks if block["allocated"] in gradients] == ["gradient"]
