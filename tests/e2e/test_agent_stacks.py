"""The agent's stacks, taken in the program itself, are what Python and backtrace(3) say of the same moment.

build/tests/stacks_probe.so is the agent's core/agent/stacks alone; programs/stacks_truth.py loads it and compares. On each
CPython that is found: the one with torch, and those of ~/.pyenv/versions.
"""

import subprocess
from pathlib import Path

import pytest
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


def test_stacks_are_those_that_python_and_backtrace_tell(interpreter, probe):
    done = subprocess.run(
        [interpreter, "-X", "utf8", PROGRAMS / "stacks_truth.py", probe], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines and lines[-1] == "done", "\n".join(line for line in lines if not line.startswith("ok "))
    assert len([line for line in lines if line.startswith("ok ")]) > 30
