"""`frames`, `locals` and the Python frames in gdb's `bt` of each CPython on this machine, against what generated programs tell of
themselves."""

import json
import random
import re
import sys

import pytest
from test_cpython import interpreter, start  # noqa: F401 (interpreter: a fixture)

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "e2e" / "programs"))
from make_frames import standing_threads, stopping  # noqa: E402

LOOKED_INTO = 5  # frames of each thread


def as_truth(frame):
    return [frame["file"], frame["function"], frame["line"]]


def check_locals(told, numbers):
    """The whole numbers are there with their values, and what is not bound has none."""
    values = {one["name"]: one["value"] for one in told["locals"] if one["type"] == "int"}
    assert {name: str(number) for name, number in numbers.items()} == values
    assert "never" not in numbers and all(one["type"] is None for one in told["locals"] if one["name"] == "never")


@pytest.mark.parametrize("seed", range(2))
def test_frames_and_locals_are_those_that_the_program_prints(seed, interpreter, spawn, run_gpumem, tmp_path):  # noqa: F811
    version, path = interpreter
    process, truth = start(spawn, path, tmp_path, standing_threads(seed))
    rng = random.Random(seed)
    assert len(truth) == 3
    for thread, frames in truth.items():
        asked = (f"--pid={process.pid}", f"--thread={thread}", "--json")
        answer = run_gpumem("frames", *asked).check().json()
        assert answer["thread"] == int(thread) and answer["complete"]
        assert [as_truth(frame) for frame in answer["frames"]] == [frame[:3] for frame in frames]
        for number in rng.sample(range(len(frames)), min(LOOKED_INTO, len(frames))):
            told = run_gpumem("locals", *asked, f"--frame={number}", "--all").check().json()
            assert as_truth(told["frame"]) == frames[number][:3]
            check_locals(told, frames[number][3])


@pytest.mark.parametrize("seed", [2])
def test_bt_has_the_python_frames_that_the_program_prints(seed, interpreter, run_gdb, tmp_path):  # noqa: F811
    version, path = interpreter
    program = tmp_path / "stops.py"
    program.write_text(stopping(seed))
    commands = ["gpumem record", "run", "bt", "gpumem frames --json", "gpumem up 5", "gpumem locals --all --json", "kill"]
    run = run_gdb(commands, program, interpreter=path, sim=False)
    (told,) = [json.loads(line) for line in run["run"].splitlines() if line.startswith("[[")]
    assert "SIGUSR1" in run["run"], run.out
    answer = json.loads(run["gpumem frames --json"])
    assert [as_truth(frame) for frame in answer["frames"]] == [frame[:3] for frame in told]
    lines = run["bt"].splitlines()
    shown = [re.search(r"Python: (\S+) .*:(\d+)$", line) for line in lines]
    assert [[one[1], int(one[2])] for one in shown if one] == [frame[1:3] for frame in told], run["bt"]
    # each is below the native frame that runs it, and each of these has one; a stripped Python has no name for it
    evaluations = len({frame["evaluation"] for frame in answer["frames"]})
    runs = [line for line, after in zip(lines, shown[1:]) if after and line.startswith("#")]
    assert len(runs) == evaluations
    natives = [line for line in lines if re.search(r"^#\d+ .*\b_PyEval_EvalFrameDefault\b", line)]
    assert natives == (runs if natives else [])
    local = json.loads(run["gpumem locals --all --json"])
    assert as_truth(local["frame"]) == told[5][:3]
    check_locals(local, told[5][3])
