"""Phases, steps and categories are held against what hooks in the program saw: the true use of each block. Each program
is recorded by `gpumem run` and by PyTorch's own recorder at once, and both are asked."""

import collections
import functools
import json
import os
import sqlite3
from pathlib import Path

import pytest

from conftest import PYTHON, needs

PROGRAM = Path(__file__).parent / "programs" / "known_memory.py"
KINDS = ["plain", "checkpoint", "accumulate", "autocast", "evaluation", "sampling", "trainer", "ddp", "generate"]
# What a block is, where hooks saw it as several things: a parameter that is saved for backward is a parameter.
RANK = ["kv_cache", "parameter", "copy", "buffer", "gradient", "optimizer_state", "input", "activation"]
NO_BACKWARD = ("evaluation", "prefill", "decode")
SLACK_US = 5  # the recorder's clock and the hooks' are two


@pytest.fixture(scope="module")
def record(run_gpumem, tmp_path_factory):
    """Runs a kind of program once, however the tests of it are ordered."""

    @functools.cache
    def run(kind):
        out = tmp_path_factory.mktemp(kind) / "run.pickle"
        log = out.with_suffix(".gpumem")
        env = {**os.environ, "TMPDIR": str(out.parent)}
        run_gpumem("run", "--sim", "-o", log, "--", PYTHON, PROGRAM, kind, out, env=env).check()
        return kind, json.loads(Path(f"{out}.json").read_text()), {"snapshot": out, "recording": log}

    return run


# `generate` and `ddp` have the lines of transformers and of DDP too.
LONG = ["plain", "accumulate", "trainer"]


@pytest.fixture(scope="module", params=[pytest.param(kind, marks=[pytest.mark.long] * (kind in LONG)) for kind in KINDS])
def recorded(request, record):
    if request.param in ("trainer", "generate"):
        needs("transformers")
    return record(request.param)


@pytest.fixture(scope="module", params=["snapshot", "recording"])
def known(request, recorded, run_gpumem):
    kind, truth, files = recorded
    if kind == "sampling" and request.param == "snapshot":
        pytest.skip("a snapshot does not have autograd's mode, and an evaluation within a step is a forward pass in it")
    peak = run_gpumem("blocks", files[request.param], "--at-peak", "--json").check().json()
    events = run_gpumem("events", files[request.param], "--json").check().json_lines()
    peak["from"] = request.param
    return kind, truth, peak, events


def true_window(truth, time):
    """The innermost window that a moment lies in: (phase, step), or None."""
    around = [one for one in truth["windows"] if one[1] <= time <= one[2]]
    return min(around, key=lambda one: one[2] - one[1], default=None)


def fits(phase, window):
    return phase in ("prefill", "decode") if window[0] == "generate" else phase == window[0]


def test_categories_at_the_peak_are_those_that_hooks_saw(known):
    kind, truth, peak, events = known
    notes = collections.defaultdict(list)
    for address, category, time in truth["notes"]:
        notes[address].append((time, category))
    right, wrong = 0, collections.Counter()
    for block in peak["blocks"]:
        born = events[block["allocated"]]["time_us"] - SLACK_US
        freed = block["free_requested"]
        died = events[freed]["time_us"] + SLACK_US if freed is not None else float("inf")
        seen = {name for time, name in notes[int(block["address"], 16)] if born <= time <= died}
        true = next((name for name in RANK if name in seen), None)
        if true is None:  # no hook saw it: nobody's but PyTorch's own
            allowed = {"temporary", "workspace", "communication", "unknown"}
        elif true == "copy":  # of a parameter, autocast's: told by native frames, which the snapshot has not
            allowed = {"parameter"} if peak["from"] == "recording" else {"parameter", "activation"}
        elif true == "activation" and block["phase"] in NO_BACKWARD:
            allowed = {"activation", "temporary", "kv_cache"}
        else:
            allowed = {true}
        if block["category"] in allowed:
            right += block["size"]
        else:
            wrong[true, block["category"], block["phase"]] += block["size"]
    assert right >= 0.99 * peak["allocated"], (kind, wrong.most_common(5))
    # it is known of nearly all of it, and the sums add up
    assert peak["by_category"].get("unknown", 0) <= 0.01 * peak["allocated"]
    assert sum(peak["by_category"].values()) == peak["allocated"]


@pytest.mark.parametrize("version", [pytest.param("1", marks=pytest.mark.long), "2"])
def test_what_fsdp_gathers_is_communication_and_what_it_shards_has_its_category(run_gpumem, tmp_path, version):
    file, database = tmp_path / "run.gpumem", tmp_path / "run.db"
    program = Path(__file__).parent / "programs" / "sharded.py"
    run_gpumem("run", "--sim", "--rank", "1", "--world", "2", "-o", file, "--", PYTHON, "-W", "ignore", program, version).check()
    run_gpumem("export", file, "--to", "sqlite", "-o", database).check()
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT requested, phase, category, reason, count(*) FROM block GROUP BY 1, 2, 3, 4").fetchall()
    whole, layers, steps = 512 * 512 * 4, 4, 3
    told = {}
    for size, phase, category, _, count in rows:
        told[size, phase, category] = told.get((size, phase, category), 0) + count
    sharded = {key[1:]: count for key, count in told.items() if key[0] == whole // 2}
    assert sharded["init", "parameter"] == layers
    assert sharded["backward", "gradient"] == layers * steps
    assert sharded["optimizer", "optimizer_state"] == 2 * layers
    assert told[whole, "forward", "communication"] >= layers * steps
    # an unsharded weight or gradient is nobody's activation, and no reason says that it is surely one's gradient
    assert not [row for row in rows if row[0] == whole and row[2] not in ("communication", "temporary")], rows
    assert not [row for row in rows if row[0] == whole and row[3].endswith("again: the gradient of an activation")], rows


def test_phases_agree_with_those_of_hooks(known):
    kind, truth, peak, events = known
    wrong, count = collections.Counter(), 0
    for event in events:
        window = true_window(truth, event["time_us"])
        if not window:
            continue
        count += 1
        if not fits(event["phase"], window):
            wrong[window[0], event["phase"]] += 1
    assert count > 0.5 * len(events)
    assert sum(wrong.values()) <= 0.02 * count, (kind, wrong.most_common(5))
    at_peak = [(block, true_window(truth, events[block["allocated"]]["time_us"])) for block in peak["blocks"]]
    known_bytes = sum(block["size"] for block, window in at_peak if window)
    right = sum(block["size"] for block, window in at_peak if window and fits(block["phase"], window))
    assert right >= 0.99 * known_bytes


def test_steps_are_the_programs_own(known):
    kind, truth, _, events = known
    if kind == "generate":
        pytest.skip("it has no training loop")
    steps = set()
    for event in events:
        window = true_window(truth, event["time_us"])
        if window and window[0] not in ("evaluation", "zero_grad"):
            assert event["step"] == window[3], (kind, event, window)
            steps.add(event["step"])
    assert len(steps) >= 4


FSDP2 = PROGRAM.with_name("fsdp2_phases.py")
ONE_OF_TWO = ("--rank", "1", "--world", "2")


def test_fsdp2s_collectives_belong_to_the_pass_that_calls_them(run_gpumem, tmp_path):
    """FSDP2 allocates for them under torch.no_grad(), first of all in a module's call: that makes no evaluation of a forward."""
    log = tmp_path / "run.gpumem"
    run_gpumem("run", "--sim=h100-80gbx2", *ONE_OF_TWO, "-o", log, "--", PYTHON, FSDP2).check()
    told = collections.Counter()
    for line in run_gpumem("events", log, "--json", "--stacks").check().out.splitlines():
        event = json.loads(line)
        stack = event.get("python", [])
        functions = [frame["function"] for frame in stack]
        own = {frame["function"] for frame in stack if Path(frame["file"]).name == FSDP2.name}
        for function in {"forward", "evaluation", "wrapped_evaluation"} & own:
            gathers = any(name.startswith("foreach_all_gather") for name in functions)
            told[function.removeprefix("wrapped_"), event["phase"], gathers] += event["action"] == "alloc"
    assert {(function, phase) for function, phase, _ in told} == {("forward", "forward"), ("evaluation", "evaluation")}, told
    assert {gathers for _, _, gathers in told} == {True, False} and min(told.values()) > 5, told


def test_fsdp2s_first_collective_is_in_forward_while_the_pass_runs(run_gdb):
    commands = ["gpumem record --engine agent", "gpumem until collective=all_gather", "gpumem blocks", "kill"]
    run = run_gdb(commands, FSDP2, sim="h100-80gbx2", sim_options=ONE_OF_TWO)
    assert "in step 1 (forward)" in run.out and "evaluation" not in run.out, run.out


# The optimizer of Keras is no torch.optim.Optimizer. These files have its names, and no more than a test needs.
KERAS = """
import torch

class Optimizer:
    def build(self, variables):
        self.moments = [torch.zeros_like(one) for one in variables]

    def apply(self, grads, variables):
        for moment, grad, one in zip(self.moments, grads, variables):
            moment.lerp_(grad, 0.1)
            one.sub_(moment * 0.01)
"""
USES_KERAS = """
import torch
from keras.src.optimizers.adam import Optimizer

weights = [torch.randn(256, 512, device="cuda", requires_grad=True), torch.randn(512, 64, device="cuda", requires_grad=True)]
optimizer = Optimizer()
optimizer.build([one.detach() for one in weights])
for _ in range(4):
    torch.relu(torch.randn(32, 256, device="cuda") @ weights[0]).matmul(weights[1]).sum().backward()
    with torch.no_grad():
        optimizer.apply([one.grad for one in weights], [one.detach() for one in weights])
    for one in weights:
        one.grad = None
"""


def test_what_keras_s_optimizer_allocates_is_its_state_and_its_phase(run_gpumem, tmp_path):
    program, log, folder = tmp_path / "program.py", tmp_path / "run.gpumem", tmp_path / "site-packages"
    program.write_text(USES_KERAS)
    adam = folder / "keras" / "src" / "optimizers" / "adam.py"
    adam.parent.mkdir(parents=True)
    adam.write_text(KERAS)
    env = {**os.environ, "PYTHONPATH": f"{folder}:{os.environ['PYTHONPATH']}"}
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program, env=env).check()
    assert run_gpumem("info", log, "--json").check().json()["devices"][0]["events"] > 30
    peak = run_gpumem("peak", log, "--json").check().json()
    weights = 4 * (256 * 512 + 512 * 64)
    assert peak["by_category"]["parameter"] == peak["by_category"]["optimizer_state"] == weights
    phases = {event["phase"] for event in run_gpumem("events", log, "--json").check().json_lines() if event["size"] == 4 * 256 * 512}
    assert "optimizer" in phases


# Evaluations that keep something: the best weights, predictions. Their inputs are fetched one at a time, or some ahead.
EVALUATES = """
import collections, copy, sys, torch
ahead = int(sys.argv[1])
model = torch.nn.Sequential(torch.nn.Linear(500, 600), torch.nn.ReLU(), torch.nn.Linear(600, 128)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
predictions = []

def evaluate():
    waiting = collections.deque()
    with torch.no_grad():
        for _ in range(8):
            waiting.append(torch.randn(48, 500, device="cuda"))
            if len(waiting) > ahead:
                predictions.append(model(waiting.popleft()).argmax(-1))
        while waiting:
            predictions.append(model(waiting.popleft()).argmax(-1))

for epoch in range(4):
    for _ in range(4):
        x = torch.randn(64, 500, device="cuda")
        model(x).mean().backward(); optimizer.step(); optimizer.zero_grad()
    evaluate()
    best = copy.deepcopy(model.state_dict())
"""


@pytest.mark.parametrize("ahead", [0, 2])
def test_what_evaluations_keep_is_no_input(run_gpumem, tmp_path, ahead):
    program, log = tmp_path / "program.py", tmp_path / "run.gpumem"
    program.write_text(EVALUATES)
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program, ahead).check()
    kinds = {48 * 500 * 4: "input", 48 * 8: "prediction", 500 * 600 * 4: "weight", 128 * 600 * 4: "weight"}
    told = collections.defaultdict(set)
    events = run_gpumem("events", log, "--json").check().json_lines()
    evaluated = [number for number, event in enumerate(events) if event["phase"] == "evaluation"]
    for at in evaluated[::7] + evaluated[-1:]:
        for block in run_gpumem("blocks", log, f"--at={at}", "--json").check().json()["blocks"]:
            if block["phase"] == "evaluation" and (kind := kinds.get(block["requested"])):
                told[kind].add(block["category"])
    assert told["input"] == {"input"} and told["weight"] == {"unknown"}, told
    assert told["prediction"] == {"unknown"}, told


# Autocast turns autograd on while it copies a weight, also in an evaluation, whose first event that may be.
AUTOCAST = """
import sys, torch
where, fetched = sys.argv[1:]
model = torch.nn.Sequential(torch.nn.Linear(500, 600), torch.nn.ReLU(), torch.nn.Linear(600, 128)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
ready = torch.randn(48, 500, device="cuda")

@torch.no_grad()
def evaluate():
    for _ in range(3):
        x = torch.randn(48, 500, device="cuda") if fetched == "fetched" else ready
        with torch.autocast("cuda", dtype=torch.bfloat16):
            model(x)

for i in range(12):
    if where == "before": evaluate()
    x = torch.randn(32, 500, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).mean()
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    if where == "now and then" and i % 4 == 3: evaluate()
"""


@pytest.mark.parametrize("fetched", ["fetched", "ready"])
@pytest.mark.parametrize("where", ["before", "now and then"])
def test_an_evaluation_under_autocast_is_one(run_gpumem, tmp_path, where, fetched):
    program, log = tmp_path / "program.py", tmp_path / "run.gpumem"
    program.write_text(AUTOCAST)
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program, where, fetched).check()
    told = collections.Counter()
    for event in run_gpumem("events", log, "--json", "--stacks").check().out.splitlines():
        event = json.loads(event)
        functions = [frame["function"] for frame in event.get("python", [])]
        if event["action"] == "alloc" and any("_call_impl" in name for name in functions):
            told["evaluate" in functions, event["phase"], event["grad"]] += 1
    assert {(evaluates, phase) for evaluates, phase, _ in told} == {(True, "evaluation"), (False, "forward")}, told
    assert told[True, "evaluation", True] and told[True, "evaluation", False] and told[False, "forward", True], told


# Weights without modules, as of a fit or a factorization; a metric that is a module is called when the training is over, or before it.
RAW = """
import sys, torch
u, v = (torch.randn(512, 512, device="cuda", requires_grad=True) for _ in range(2))
target = torch.rand(512, 512, device="cuda")
optimizer = torch.optim.Adam([u, v])

def metric():
    with torch.no_grad():
        torch.nn.MSELoss()(u @ v, target)

if sys.argv[1] == "before": metric()
for i in range(4):
    optimizer.zero_grad()
    loss = (torch.sigmoid(u @ v) - target).pow(2).mean()
    loss.backward()
    optimizer.step()
if sys.argv[1] == "after": metric()
"""


@pytest.mark.parametrize("when", ["never", "before", "after"])
def test_a_loop_without_modules_has_a_forward_pass_whatever_is_called_elsewhere(run_gpumem, tmp_path, when):
    program, log = tmp_path / "raw.py", tmp_path / "run.gpumem"
    program.write_text(RAW)
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program, when).check()
    events = run_gpumem("events", log, "--json").check().json_lines()
    told = collections.Counter(event["phase"] for event in events if event["action"] == "alloc" and event["step"] and event["requested"] == 512 * 512 * 4)
    # u @ v, its sigmoid, the difference and its square, in each iteration
    assert told["forward"] == 16 and "data" not in told, told
    categories = set(run_gpumem("peak", log, "--json").check().json()["by_category"])
    assert categories >= {"activation", "optimizer_state"} and "input" not in categories, categories
