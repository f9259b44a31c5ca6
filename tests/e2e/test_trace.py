"""events, steps and why of a process that gpumem did not record: PyTorch's own trace, read out of it, or a clear no."""

import json
import subprocess

import pytest

PROGRAM = """
import json, os, sys, time, torch
kept = torch.ones(3000, 1000, device="cuda")
if "on" in sys.argv:
    torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")
def work(x):
    y = x * 2
    return y + 1
for i in range(4):
    x = torch.ones(1000, 1000 + i, device="cuda")
    z = work(x)
del x
trace = torch.cuda.memory._snapshot()["device_traces"][0] if "on" in sys.argv else []
print(json.dumps({"pid": os.getpid(), "trace": trace, "z": z.data_ptr()}), flush=True)
time.sleep(1000)
"""


@pytest.fixture
def start(spawn, python, sim_env, tmp_path):
    def call(*words):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM)
        process = spawn([python, "-W", "ignore", path, *words], env=sim_env("8GiB"), stdout=subprocess.PIPE)
        return json.loads(process.stdout.readline())

    return call


def test_pytorchs_own_trace_is_read(start, run_gpumem):
    said = start("on")
    pid = str(said["pid"])
    events = run_gpumem("events", "--pid", pid, "--json").check().json_lines()
    events = [event for event in events if not event["preexisting"]]
    trace = [entry for entry in said["trace"] if entry["action"] != "snapshot"]
    ours = [event for event in events if event["action"] != "snapshot"]
    assert [(one["action"], one["address"], one["requested"], one["stream"]) for one in ours] == [
        (one["action"], hex(one["addr"]), one["size"], one["stream"]) for one in trace
    ]
    for event, entry in zip(ours, trace):
        theirs = [(frame["filename"], frame["line"], frame["name"]) for frame in entry.get("frames", [])]
        assert [(frame["file"], frame["line"]) for frame in event["python"]] == [frame[:2] for frame in theirs]
    assert any(event["python"] for event in ours)
    info = run_gpumem("info", "--pid", pid, "--json").check().json()
    assert info["devices"][0]["allocated"] > 0
    assert run_gpumem("steps", "--pid", pid, "--json").check().json()
    why = run_gpumem("why", "--pid", pid, hex(said["z"]), "--json").check().json()
    assert why["block"]["address"] == hex(said["z"]) and why["allocated"]["python"]


def test_without_a_trace_the_error_says_what_to_do(start, run_gpumem):
    pid = str(start()["pid"])
    for words in (["events"], ["steps"], ["why", "0x7f0000000000"]):
        run = run_gpumem(words[0], "--pid", pid, *words[1:]).check(4)
        assert "nothing was recorded, by gpumem or by PyTorch" in run.err
        assert "torch.cuda.memory._record_memory_history()" in run.err
