"""Marks that a program sets (NVTX, gpumem.step(), gpumem.range(), gpumem.record()) are in the agent's recording."""

import json
import os
import subprocess

from conftest import PYTHON, run_process

PROGRAM = """
import contextlib, sys
import torch
import gpumem

model = torch.nn.Linear(1000, 1000, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def once(i):  # the steps do not come from a loop in the source
    gpumem.step()
    with gpumem.range("fetch"):
        x = torch.randn(100 + i, 1000, device="cuda")
    torch.cuda.nvtx.range_push("empty")
    torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.range_push("forward")
    y = model(x)
    torch.cuda.nvtx.range_pop()
    with torch.cuda.nvtx.range("Backward pass"):
        y.sum().backward()
    with gpumem.range("äußerer"), gpumem.range("optimizer"):
        optimizer.step()


once(0)
once(1)
once(2)
print(gpumem.recording())
"""


def run(gpumem, tmp_path, source, *options, **environment):
    program = tmp_path / "program.py"
    program.write_text(source)
    command = [gpumem, "run", "--sim", *options, "--", PYTHON, program]
    return run_process(command, cwd=tmp_path, env={**os.environ, **environment})


def events_of(gpumem, log):
    done = subprocess.run([gpumem, "events", log, "--json"], capture_output=True, text=True, timeout=600, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_selection_by_range(gpumem, log, events):
    made = {event["n"]: event for event in events if event["action"] == "alloc"}
    last = max(made)
    gone = {event["block"] for event in events if event["action"].startswith("free") and event["n"] <= last}
    found = 0
    for condition, holds in (
        ("range='Backward pass'", lambda marks: "Backward pass" in marks),
        ("range=Optimizer.*", lambda marks: any(mark.startswith("Optimizer.") for mark in marks)),
        ("range~ßer", lambda marks: any("ßer" in mark for mark in marks)),
        ("not range~ward", lambda marks: not any("ward" in mark for mark in marks)),
    ):
        done = run_process([gpumem, "blocks", log, f"--at={last}", "--where", condition, "--json"]).check()
        told = {block["allocated"] for block in done.json()["blocks"]}
        assert told == {n for n, event in made.items() if n not in gone and holds(event["marks"])}, condition
        found += bool(told)
    assert found >= 3


def test_a_long_name_is_cut_between_two_characters(build_dir, tmp_path):
    source = """
import torch, gpumem
with gpumem.range("a" * 1022 + "\U0001f600" * 2):
    torch.ones(1, device="cuda")
"""
    gpumem = build_dir / "bin/gpumem"
    run(gpumem, tmp_path, source, "-o", tmp_path / "run.gpumem").check()
    assert events_of(gpumem, tmp_path / "run.gpumem")[0]["marks"] == ["a" * 1022]


def test_steps_and_ranges_are_those_that_the_program_marks(build_dir, tmp_path):
    gpumem, log = build_dir / "bin" / "gpumem", tmp_path / "run.gpumem"
    done = run(gpumem, tmp_path, PROGRAM, "-o", log)
    assert done.status == 0, done.err
    assert str(log) in done.out
    events = events_of(gpumem, log)
    assert sorted({event["step"] for event in events if event["step"]}) == [1, 2, 3]
    marks = {tuple(event["marks"]) for event in events}
    assert marks == {
        (), ("fetch",), ("forward",), ("Backward pass",), ("äußerer", "optimizer", "Optimizer.step#SGD.step"),
    }  # fmt: skip
    for event in events:
        allocated = event["action"] == "alloc"
        if event["marks"] == ["fetch"]:
            assert event["step"] and event["python"][-2]["function"] == "once"
        if event["marks"] == ["Backward pass"] and allocated:
            assert event["phase"] == "backward"
        if "optimizer" in event["marks"] and allocated:
            assert event["phase"] == "optimizer"
    # the autograd engine's threads have the ranges and the stack of the thread that waits for them
    borrowed = [event for event in events if event["borrowed"]]
    assert borrowed
    assert all(event["marks"] == ["Backward pass"] for event in borrowed)
    assert all(event["python"][0]["function"] == "_engine_run_backward" for event in borrowed)
    check_selection_by_range(gpumem, log, events)
    shown = subprocess.run([gpumem, "steps", log], capture_output=True, text=True, timeout=600, check=True).stdout
    assert "3 steps, as the program marks them" in shown


BLOCK = """
import torch
import gpumem

before = torch.empty(1 << 20, device="cuda")
assert gpumem.recording() is None
gpumem.step()
with gpumem.record("block.gpumem"):
    inside = torch.empty(1 << 21, device="cuda")
    with gpumem.record("again.gpumem"), gpumem.range("within"):
        more = torch.empty(1 << 22, device="cuda")
after = torch.empty(1 << 23, device="cuda")
"""


def test_a_block_is_recorded_without_gpumem_run(build_dir, tmp_path):
    gpumem = build_dir / "bin" / "gpumem"
    done = run(gpumem, tmp_path, BLOCK, "--no-record", PYTHONPATH=str(build_dir / "lib" / "gpumem-python"))
    assert done.status == 0, done.err
    assert not (tmp_path / "again.gpumem").exists()
    events = events_of(gpumem, tmp_path / "block.gpumem")
    made = [(event["size"], event["marks"]) for event in events if event["action"] == "alloc" and not event["preexisting"]]
    assert made == [(8 << 20, []), (16 << 20, ["again", "within"])]
    assert {event["python"][-1]["function"] for event in events if event["python"]} == {"<module>"}
    # the allocator's own figures, which include earlier allocations
    for limit, status in ((28 << 20, 0), ((28 << 20) - 1, 1)):
        checked = run_process([gpumem, "assert", tmp_path / "block.gpumem", f"--peak={limit}", "--json"])
        assert checked.status == status and checked.json()["files"][0]["checks"][0]["actual"] == 28 << 20, checked.out


def test_marks_do_nothing_where_there_is_no_agent(build_dir, tmp_path):
    source = """
import gpumem
gpumem.step()
with gpumem.range("a"):
    print(gpumem.recording(), gpumem.stop())
"""
    done = subprocess.run(
        [PYTHON, "-c", source], capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONPATH": str(build_dir / "lib" / "gpumem-python")},
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("None False\n", 0), done.stderr


EMIT = """
import torch

model = torch.nn.Linear(1000, 1000, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
with torch.autograd.profiler.emit_nvtx():
    for i in range(2):
        with torch.profiler.record_function(f"ProfilerStep#{i}"):
            with torch.profiler.record_function("Forward"):
                y = model(torch.randn(10, 1000, device="cuda"))
            y.sum().backward()
            optimizer.step()
"""


def test_ranges_of_the_profiler_are_recorded_through_nvtx(build_dir, tmp_path):
    gpumem, log = build_dir / "bin" / "gpumem", tmp_path / "run.gpumem"
    done = run(gpumem, tmp_path, EMIT, "-o", log)
    assert done.status == 0, done.err
    events = events_of(gpumem, log)
    made = [event for event in events if event["action"] == "alloc" and event["marks"]]
    assert {event["step"] for event in made} == {1, 2}
    named = {name: {event["phase"] for event in made if name in event["marks"]} for name in
             ("Forward", "aten::addmm", "AddmmBackward0", "Optimizer.step#SGD.step")}  # fmt: skip
    assert named == {
        "Forward": {"forward"}, "aten::addmm": {"forward"}, "AddmmBackward0": {"backward"},
        "Optimizer.step#SGD.step": {"optimizer"},
    }  # fmt: skip


SAYS = """
import json, sys
import torch
from torch.profiler import record_function

torch.cuda.memory._record_memory_history(context=None)
say = getattr(torch.cuda.memory, "_set_memory_metadata", lambda text: None)  # since 2.10
with record_function("building"):
    model = torch.nn.Linear(1000, 1000, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for i in range(2):
    say(f"batch {i}, seq = {i}")
    with record_function("forward"), record_function("## body ##"):
        y = model(torch.randn(10, 1000, device="cuda"))
    y.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    say("")
    z = torch.empty(1 << 20, device="cuda")
trace = torch.cuda.memory._snapshot()["device_traces"][0]
told = [(e["action"], e["size"], e.get("user_metadata") or None) for e in trace if e["action"] != "snapshot"]
json.dump(told, open(sys.argv[1], "w"))
"""


def test_record_function_and_memory_metadata_are_recorded(build_dir, tmp_path):
    gpumem, log = build_dir / "bin" / "gpumem", tmp_path / "run.gpumem"
    (tmp_path / "program.py").write_text(SAYS)
    subprocess.run(
        [gpumem, "run", "--sim", "-o", log, "--", PYTHON, "program.py", "told.json"], cwd=tmp_path, timeout=600, check=True
    )
    events = events_of(gpumem, log)
    theirs = [tuple(one) for one in json.loads((tmp_path / "told.json").read_text())]
    assert [(e["action"], e["requested"] or e["size"], e["metadata"]) for e in events][: len(theirs)] == theirs
    assert {e["metadata"] for e in events} in ({None, "batch 0, seq = 0", "batch 1, seq = 1"}, {None})
    made = {tuple(e["marks"]): set() for e in events}
    for e in events:
        made[tuple(e["marks"])].add(e["phase"])
    assert made[("building",)] == {"init"}  # it was open before recording began
    assert made[("forward", "## body ##")] == {"forward"}
    assert made[("Optimizer.zero_grad#SGD.zero_grad",)] == {"zero_grad"}
    assert made[("Optimizer.step#SGD.step",)] == {"optimizer"}


PROFILED = """
import json, re, sys
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

model = torch.nn.Linear(500, 500, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
with profile(activities=activities, profile_memory=True, with_stack=True, schedule=schedule(wait=1, warmup=1, active=2)) as profiler:
    for i in range(4):
        loss = model(torch.randn(10, 500, device="cuda")).sum()
        with record_function("mine"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        profiler.step()
memory = [e.nbytes() for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]" and e.device_type().name == "CUDA"]
names = sorted(re.sub(" at 0x[0-9a-f]+", "", e.name) for e in profiler.events() if not e.name.startswith("cu"))
json.dump([memory, names], open(sys.argv[1], "w"))
"""


def test_pytorchs_profiler_and_the_agent_agree_and_do_not_disturb_each_other(build_dir, tmp_path):
    gpumem, log = build_dir / "bin" / "gpumem", tmp_path / "run.gpumem"
    (tmp_path / "program.py").write_text(PROFILED)
    told = []
    for options in (["--no-record"], ["-o", log]):
        subprocess.run(
            [gpumem, "run", "--sim", *options, "--", PYTHON, "program.py", "told.json"],
            cwd=tmp_path, timeout=600, check=True, capture_output=True,
        )  # fmt: skip
        told.append(json.loads((tmp_path / "told.json").read_text()))
    assert told[0] == told[1] and "mine" in told[0][1] and len(told[0][0]) > 20
    events = events_of(gpumem, log)
    profiled = [e["size"] if e["action"] == "alloc" else -e["size"] for e in events
                if e["step"] in (3, 4) and e["action"] in ("alloc", "free_requested")]  # fmt: skip
    assert profiled == told[0][0]
    shown = subprocess.run([gpumem, "steps", log], capture_output=True, text=True, timeout=600, check=True).stdout
    assert "4 steps, as the program marks them" in shown
