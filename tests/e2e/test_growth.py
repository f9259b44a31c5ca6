"""steps, phases and leaks, on snapshots of programs that do or do not accumulate memory."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import EXAMPLES, KEEP_WORKSPACES, PYTHON, PYTHON_VERSION, has_module

PROGRAM = Path(__file__).parent / "programs" / "leaky.py"


EPOCHS = """import torch
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.Adam(model.parameters())
results = []
for epoch in range(8):
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(64, 256, device="cuda")).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        results.append(model(torch.randn(1024, 256, device="cuda")))
"""


@pytest.fixture(scope="module")
def snapshots(sim_env, run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaky")
    run([PYTHON, PROGRAM, folder], env=sim_env()).check()
    return {path.name.split(".")[0]: path for path in folder.glob("*.pickle")}


def marked_lines(name):
    lines = PROGRAM.read_text().splitlines()
    marks = [line.partition("# LEAK ")[2].split(", ") for line in lines]
    return {number for number, names in enumerate(marks, 1) if name in names}


def test_a_planted_leak_is_found_with_its_line(snapshots, run_gpumem):
    leaky = {name: path for name, path in snapshots.items() if ".leak." in path.name}
    assert len(leaky) == 4
    for name, path in leaky.items():
        found = run_gpumem("leaks", path, "--json").check(1).json()
        assert found["steps"] == [2, 9], name
        assert {site["line"] for site in found["sites"]} == marked_lines(name), name
        assert all(Path(site["file"]).name == "leaky.py" and site["steps"] == 8 for site in found["sites"])
        text = run_gpumem("leaks", path).check(1).out
        assert "with each step" in text and "leaky.py:" in text


def marked_holder(name):
    """The comment behind `hold()` in the function."""
    text = PROGRAM.read_text()
    return text[text.index(f"def {name}():") :].partition("# HOLDER ")[2].splitlines()[0]


def test_a_leak_is_joined_to_its_holder_in_the_process_and_its_core(gdb_works, spawn, sim_env, run_gpumem, tmp_path):
    environment = {**sim_env(), "PYTHONUNBUFFERED": "1"}
    process = spawn([PYTHON, PROGRAM, "--hold"], env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    for _ in range(4):
        name, pid = process.stdout.readline().split()
        found = run_gpumem("leaks", "--pid", pid, "--json").check(1).json()["sites"]
        assert {site["line"] for site in found} == marked_lines(name), name
        for site in found:
            assert marked_holder(name) in site["holder"]["text"], (name, site)
            assert site["holder"]["class"] == "proven" and site["holder"]["complete"]
    assert marked_holder(name) in run_gpumem("leaks", "--pid", pid).check(1).out
    # a core as FILE gives the same answer
    core = tmp_path / "core"
    run_gpumem("core", pid, "-o", core).check()
    assert run_gpumem("leaks", core, "--json").check(1).json()["sites"] == found
    core.unlink()


def test_a_leak_is_joined_to_its_holder_in_gdb_and_in_a_core(run_gdb, run_gpumem, tmp_path):
    core, log = tmp_path / "core", tmp_path / "run.gpumem"
    ask = ["gpumem leaks --json", f"gpumem core -o {core}", f"gpumem record save {log}"]
    commands = ["gpumem record", "gpumem until step=6", *ask]
    gdb = run_gdb(commands, EXAMPLES / "leak.py")
    sites = gdb["gpumem leaks --json"].json()["sites"]
    assert len(sites) == 2 and all("local 'losses' of train()" in site["holder"]["text"] for site in sites)
    again = run_gpumem("leaks", log, "--core", core, "--json").check(1).json()["sites"]
    assert [site["holder"] for site in again] == [site["holder"] for site in sites]
    # without a process and a core, the message says what to do
    assert "--core CORE" in run_gpumem("leaks", log).check(1).out


def test_programs_that_accumulate_nothing_have_no_leak(snapshots, run_gpumem):
    clean = {name: path for name, path in snapshots.items() if ".clean." in path.name}
    assert len(clean) == 13 + has_module("transformers")
    for name, path in clean.items():
        done = run_gpumem("leaks", path, "--json")
        assert done.status == 0, (name, done.out)
        assert done.json()["sites"] == [], name
        assert "No leak" in run_gpumem("leaks", path).check().out


def test_the_bytes_of_a_leak_are_what_the_steps_grow_by(snapshots, run_gpumem):
    for name in ("losses_with_graph", "detached_history", "hook_keeps_outputs"):
        steps = run_gpumem("steps", snapshots[name], "--json").check().json()
        sites = run_gpumem("leaks", snapshots[name], "--json").check(1).json()["sites"]
        assert steps["growth_per_step"] == sum(site["bytes_per_step"] for site in sites) > 0


def test_steps_and_phases_are_those_of_a_replay(snapshots, run_gpumem):
    for name, path in snapshots.items():
        events = run_gpumem("events", path, "--json").check().json_lines()
        steps = run_gpumem("steps", path, "--json").check().json()
        allocated, at, born = 0, [], {}
        for event in events:
            if event["action"] == "alloc":
                born[event["address"]] = event["size"]
                allocated += event["size"]
            elif event["action"] == "free_requested":
                allocated -= born.pop(event["address"])
            at.append(allocated)
        for one in steps["steps"] + steps["outside"]:
            mine = range(one["first_event"], one["last_event"] + 1)
            start = at[one["first_event"] - 1] if one["first_event"] else 0
            assert one["allocated_start"] == start and one["allocated_end"] == at[one["last_event"]]
            assert one["peak"] == max([start] + [at[i] for i in mine])
            assert one["bytes"] == sum(events[i]["size"] for i in mine if events[i]["action"] == "alloc")
        assert [one["step"] for one in steps["steps"]] == list(range(1, 11)), name
        phases = run_gpumem("phases", path, "--json").check().json()["phases"]
        assert phases
        for phase in phases:
            mine = [e for e in events if e["phase"] == phase["phase"]]
            assert phase["events"] == len(mine)
            assert phase["bytes"] == sum(e["size"] for e in mine if e["action"] == "alloc")


def test_a_step_that_is_not_there_is_refused(snapshots, run_gpumem):
    done = run_gpumem("phases", snapshots["plain"], "--step", "99")
    assert done.status == 2 and "it has 10 steps" in done.err


def test_two_moments_of_a_process_by_shape_and_dtype(gdb_works, spawn, sim_env, run_gpumem, tmp_path):
    environment = {**sim_env(), "PYTHONUNBUFFERED": "1"}
    program = Path(__file__).parent / "programs" / "shapes_between.py"
    process = spawn([PYTHON, program], env=environment, stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    pid = process.stdout.readline().strip()
    before = tmp_path / "before.json"
    before.write_text(run_gpumem("blocks", "--pid", pid, "--by", "shape", "--json").check().out)
    again = run_gpumem("blocks", "--pid", pid, "--by", "shape", "--since", before).check().out
    assert "Nothing has changed since." in again
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()
    changes = run_gpumem("blocks", "--pid", pid, "--by", "shape", "--since", before, "--json").check().json()["changes"]
    assert [(one["key"], one["blocks_before"], one["blocks"]) for one in changes] == [
        ("float32 [300, 700]", 2, 0), ("float16 [100, 1000]", 0, 3), ("int64 [1000]", 1, 2),
    ]  # fmt: skip
    assert [one["change"] for one in changes] == [-2 * 840192, 3 * 200192, 8192]
    # the model's parameters by the module that keeps them
    groups = run_gpumem("blocks", "--pid", pid, "--by", "module", "--json").check().json()["groups"]
    bytes_of = {group["key"]: group["bytes"] for group in groups}
    layer = 64 * 64 * 4 + 512  # weight and bias
    assert bytes_of["0"] == bytes_of["layers.0.mlp"] == bytes_of["layers.1.mlp"] == layer
    answer = json.loads(before.read_text())
    by_module = json.loads(run_gpumem("blocks", "--pid", pid, "--by", "module", "--json").check().out)
    recorded = {**answer, "event": 7}
    for other, status, why in (
        (by_module, 2, "it was written with --by module: give the same --by"),
        ({**answer, "device": 1}, 2, "it is of device 1, and this answer of device 0: give the same --device"),
        (recorded, 3, "it is of a recording"),
    ):
        (tmp_path / "other.json").write_text(json.dumps(other))
        done = run_gpumem("blocks", "--pid", pid, "--by", "shape", "--since", tmp_path / "other.json")
        assert done.status == status and why in done.err and not done.out, done.err
    for damaged in ("", "[]", '{"groups": [{"key": 3}]}', before.read_text()[:50]):
        before.write_text(damaged)
        done = run_gpumem("blocks", "--pid", pid, "--by", "shape", "--since", before)
        assert done.status == 3 and "not an answer of `gpumem blocks" in done.err


def test_a_recordings_peak_by_modules_and_operators(run_gpumem, tmp_path):
    log = tmp_path / "run.gpumem"
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, EXAMPLES / "train_mlp.py").check()
    for by in "module", "operator", "shape", "dtype":
        answer = run_gpumem("blocks", log, "--at-peak", "--by", by, "--json").check().json()
        assert sum(group["bytes"] for group in answer["groups"]) == answer["allocated"]
        keys = {group["key"] for group in answer["groups"]}
        wanted = {"module": "Sequential > Linear", "operator": "linear", "dtype": "float32"}
        no_name = by == "shape" or (by == "module" and PYTHON_VERSION < (3, 11))  # before, code does not have its class's name
        assert no_name or wanted[by] in keys
        peak = run_gpumem("peak", log, "--by", by, "--json").check().json()
        assert peak["groups"] == answer["groups"]


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 60))])
def test_of_a_line_that_is_a_whole_training_only_what_is_kept_grows(run_gpumem, tmp_path, seed):
    """Its gradients, its optimizers' states and cuBLAS's workspaces are blocks of the same line, and are no leak."""
    log, program = tmp_path / "run.gpumem", PROGRAM.parent / "one_line_trainers.py"
    env = {**os.environ, **(KEEP_WORKSPACES if seed % 2 else {})}
    truth = run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program, str(seed), env=env).check().out.json()
    found = run_gpumem("leaks", log, "--json").check(int(truth["keeps"] != "nothing")).json()
    if truth["keeps"] == "nothing":
        assert found["sites"] == []
        return
    (site,) = found["sites"]
    assert "THE LINE" in program.read_text().splitlines()[site["line"] - 1]
    from_, to = site["iterations"]
    blocks = truth["blocks"] - (2 if truth["keeps"] == "losses" else 0)  # the first step and the last are not examined
    if site["loop"] is None:
        assert site["steps"] == to - from_ + 1
    if truth["keeps"] == "losses":
        assert site["bytes"] == 512 * blocks
    assert site["bytes"] == pytest.approx(blocks * sum(truth["sizes"]) / len(truth["sizes"]), rel=0.3)


@pytest.mark.parametrize("where", ["module", "function"])
def test_what_the_evaluation_after_each_epoch_leaves_is_found_when_the_program_has_ended(run_gpumem, tmp_path, where):
    log, program = tmp_path / "run.gpumem", tmp_path / "epochs.py"
    program.write_text(EPOCHS if where == "module" else "def main():\n" + "".join(f"    {line}\n" for line in EPOCHS.splitlines()) + "main()\n")
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program).check()
    (site,) = run_gpumem("leaks", log, "--json").check(1).json()["sites"]
    assert (site["bytes"], site["steps"], site["iterations"]) == (8 * 2**20, 8, [1, 8])
    assert program.read_text().splitlines()[site["line"] - 1].strip().startswith("results.append")
    assert run_gpumem("assert", log, "--leaks", "none").status == 1


LATER = """import torch
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters())
for step in range(8):
    optimizer.zero_grad()
    model(torch.randn(64, 256, device="cuda")).square().mean().backward()
    optimizer.step()
kept = [torch.empty(1 << 20, dtype=torch.uint8, device="cuda") for _ in range(160)]
"""


def test_what_the_examined_loops_do_not_cover_is_reported(run_gpumem, tmp_path):
    log, program = tmp_path / "run.gpumem", tmp_path / "later.py"
    program.write_text(LATER)
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program).check()
    text, found = run_gpumem("leaks", log).check().out, run_gpumem("leaks", log, "--json").check().json()
    assert "No leak" in text and "Not examined: what follows these loops." in text
    assert found["later_peak"]["bytes"] == 160 << 20
    program.write_text(LATER.replace("range(160)", "range(1)"))
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program).check()
    assert run_gpumem("leaks", log, "--json").check().json()["later_peak"] is None


THREADS = """import threading, torch
kept = []
def train(steps, keep):
    model = torch.nn.Linear(256, 256).cuda()
    optimizer = torch.optim.SGD(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(64, 256, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        if keep:
            kept.append(loss.detach())
threads = [threading.Thread(target=train, args=one) for one in ((20, False), (8, True))]
for thread in threads:
    thread.start()
    thread.join()
"""


def test_threads_that_train_beside_are_named(run_gpumem, tmp_path):
    log, program = tmp_path / "run.gpumem", tmp_path / "threads.py"
    program.write_text(THREADS)
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program).check()
    assert run_gpumem("leaks", log, "--json").json()["other_training_threads"] == 1
    assert "1 more thread trains: its steps are not counted" in run_gpumem("leaks", log).out


# The line that leaks also makes a window of the last few blocks, all of one size or of growing ones.
WINDOW = """import sys, torch
window, sizes = int(sys.argv[1]), sys.argv[2]

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 512)

    def forward(self, x):
        y = self.layer(x)
        return y.mean(), y.detach()

model, losses, recent = Model().cuda(), [], []
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(24):
    rows = 512 if sizes == "equal" else 256 + 8 * i
    loss, logits = model(torch.randn(rows, 64, device="cuda"))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    losses.append(loss.detach())
    recent.append(logits)
    del recent[:-window]
"""


@pytest.mark.parametrize(("window", "sizes"), [(1, "equal"), (2, "equal"), (4, "equal"), (3, "growing")])
def test_of_a_line_that_leaks_its_window_is_not_counted(run_gpumem, tmp_path, window, sizes):
    log, program = tmp_path / "run.gpumem", tmp_path / "window.py"
    program.write_text(WINDOW)
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program, window, sizes).check()
    (site,) = run_gpumem("leaks", log, "--json").check(1).json()["sites"]
    assert (site["bytes_per_step"], site["bytes"], site["blocks"]) == (512, 22 * 512, 22)
