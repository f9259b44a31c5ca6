"""`gpumem amp`: its answers about random training loops (programs/amp_loops.py) are what hooks in the programs saw: the skipped steps of the
optimizers, the scale, when optimizer state was allocated, and whose copies autocast made."""

import json
import os
import subprocess

import pytest

from conftest import PYTHON, ROOT, run_process
from schemas import problems

PROGRAM = ROOT / "tests" / "e2e" / "programs" / "amp_loops.py"
STATELESS = {"sgd"}


def run_loops(gpumem, folder, device, first, count, overflows=()):
    env = {name: value for name, value in os.environ.items() if name != "GPUMEM_NO_RECORD"}
    where = ["--sim"] if device == "cuda" else ["--devices", "cpu"]
    numbers = ",".join(map(str, overflows))
    where += ["--overflow-at", numbers] if numbers else []
    run = [gpumem, "run", *where, "-o", folder / "%p.gpumem", "--", PYTHON, "-W", "ignore", PROGRAM, folder, device, first, count, numbers]
    run_process(list(map(str, run)), env=env, timeout=3600).check()
    for seed in range(first, first + count):
        truth = json.loads((folder / f"{seed}.json").read_text())
        log = folder / f"{truth['pid']}.gpumem"
        yield truth, log, run_process([gpumem, "amp", log, "--json"]).check().json()


def expected_outcome(truth, step):
    """Whether the whole step was skipped; None: it cannot be known."""
    given = truth["given"]
    if given["kind"] != "scaler":
        return "taken"
    if not step["asked"]:
        return "not_asked"
    fused = [name == "fused" for name in given["optimizers"]]
    skipped = [found for found in step["found"]]
    assert all(ran == (1 if is_fused else not found) for ran, found, is_fused in zip(step["ran"], skipped, fused)), "the truth is wrong"
    return "skipped" if all(skipped) else "partly_skipped" if any(skipped) else "taken"


def wrong_in(truth, answer):
    given = truth["given"]
    wrong = []

    def compare(what, told, true):
        if told != true:
            wrong.append((given["seed"], what, told, true))

    compare("steps", len(answer["steps"]), given["steps"])
    for number, (step, told) in enumerate(zip(truth["steps"], answer["steps"], strict=False), 1):
        compare(f"step {number}", told["outcome"], expected_outcome(truth, step))
        if given["kind"] != "scaler":
            compare(f"calls of {number}", told["scaler_steps"], [])
            continue
        compare(f"found of {number}", [call["found_inf"] for call in told["scaler_steps"] if step["asked"]], step["found"] if step["asked"] else [])
        # on the CPU the program reads these values, either in each step or only at the end
        readable = given["device"] == "cuda" or given["looks"] or told["scale"] is not None and number == given["steps"]
        compare(f"scale of {number}", told["scale"], step["scale"] if readable else None)
        compare(f"tracker of {number}", told["growth_tracker"], step["tracker"] if given["device"] == "cuda" else None)
        if told["outcome"] in ("skipped", "not_asked"):
            compare(f"bits of {number}", any(step["changed"]) and told["outcome"] == "skipped", False)
        if told["outcome"] == "taken" and given["device"] == "cpu":
            compare(f"bits of {number}", any(step["changed"]), True)
    if given["kind"] == "scaler":
        scaler = answer["scaler"]
        compare("settings", [scaler[name] for name in ("growth_factor", "backoff_factor", "growth_interval")],
                [given[name] for name in ("growth_factor", "backoff_factor", "growth_interval")])  # fmt: skip
    else:
        compare("scaler", answer["scaler"], None)
    compare("autocast", answer["autocast"], given["kind"] != "plain")
    stateful = [index for index, name in enumerate(given["optimizers"]) if name not in STATELESS]
    made = [number for number, step in enumerate(truth["steps"], 1) if any(step["ran"][index] for index in stateful)]
    compare("state", (answer["optimizer_state"] or {"step": None})["step"], made[0] if made else None)
    copies = sum(parameter["copies"] for parameter in answer["parameters"])
    compare("copies", copies, 0 if given["kind"] == "plain" else 2 * given["layers"] * given["parts"] * given["accumulate"] * given["steps"])
    return wrong


@pytest.mark.parametrize(("device", "first", "overflows"), [("cuda", 0, (1, 3, 4)), ("cpu", 100, ())])
def test_steps_are_skipped_where_the_programs_saw_it(gpumem, tmp_path, device, first, overflows):
    wrong, kinds = [], set()
    for truth, _, answer in run_loops(gpumem, tmp_path, device, first, 4, overflows):
        wrong += wrong_in(truth, answer)
        kinds |= {step["outcome"] for step in answer["steps"]}
    assert not wrong, wrong
    assert {"taken", "skipped"} <= kinds


READS = """
import torch

class Reading(torch.optim.SGD):
    # An optimizer that reads the scaler's tensor itself: that read is not the decision of step().
    def step(self, closure=None):
        for value in scaler._per_optimizer_states[id(self)]["found_inf_per_device"].values():
            value.add_(1).item()
        return super().step(closure)

model = torch.nn.Linear(64, 64)
optimizer = Reading(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for step in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(torch.ones(8, 64)).sum()
    scaler.scale(loss * (float("inf") if step == 1 else 1)).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def test_what_the_optimizer_reads_is_no_decision_of_the_scaler(gpumem, tmp_path):
    (tmp_path / "reads.py").write_text(READS)
    log = tmp_path / "run.gpumem"
    run_process([gpumem, "run", "--devices", "cpu", "-o", log, "--", PYTHON, "-W", "ignore", tmp_path / "reads.py"]).check()
    answer = run_process([gpumem, "amp", log, "--json"]).check().json()
    assert [step["outcome"] for step in answer["steps"]] == ["taken", "skipped", "taken", "taken"]
    assert [len(step["scaler_steps"]) for step in answer["steps"]] == [1, 1, 1, 1]


FUSED = """
import torch
parameter = torch.nn.Parameter(torch.ones(64))
optimizer = torch.optim.Adam([parameter], lr=0.01, fused=True)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=1000)
for step in range(6):
    optimizer.zero_grad()
    scaler.scale((parameter * 2).sum() * (float("inf") if step in (1, 3, 4) else 1)).backward()
    before = parameter.detach().clone()
    scaler.step(optimizer)
    scaler.update()
    print(scaler.get_scale(), "taken" if (parameter.detach() != before).any() else "skipped")
"""


def test_whether_a_fused_optimizer_stepped_follows_from_the_scale_that_the_program_read(gpumem, tmp_path):
    """A fused optimizer does not read found_inf. The scale is not read before the first update, so that step is unknown."""
    (tmp_path / "fused.py").write_text(FUSED)
    log = tmp_path / "run.gpumem"
    told = run_process([gpumem, "run", "--devices", "cpu", "-o", log, "--", PYTHON, "-W", "ignore", tmp_path / "fused.py"]).check().out
    truth = [line.split() for line in told.splitlines() if line.endswith(("taken", "skipped"))]
    assert [outcome for _, outcome in truth] == ["taken", "skipped", "taken", "skipped", "skipped", "taken"]
    steps = run_process([gpumem, "amp", log, "--json"]).check().json()["steps"]
    assert [(step["scale"], step["outcome"]) for step in steps[1:]] == [(float(scale), outcome) for scale, outcome in truth[1:]]
    assert {step["evidence"] for step in steps[1:]} == {"scale"}
    assert (steps[0]["scale"], steps[0]["outcome"]) == (64.0, "unknown")


@pytest.fixture(scope="module")
def example(run_gpumem, examples, tmp_path_factory):
    log = tmp_path_factory.mktemp("amp") / "amp.gpumem"
    run_gpumem("run", "--sim", "--overflow-at=1", "-o", log, "--", PYTHON, examples / "amp.py").check()
    return log


@pytest.fixture(scope="module")
def line_of(examples):
    lines = (examples / "amp.py").read_text().splitlines()
    return lambda text: next(number for number, line in enumerate(lines, 1) if text in line)


def test_the_example_is_explained_from_the_skipped_step_to_the_release_of_the_gradients(run_gpumem, example, line_of):
    answer = run_gpumem("amp", example, "--json").check().json()
    first = answer["steps"][0]
    assert (first["outcome"], first["updated"], first["evidence"]) == ("skipped", False, "host_read")
    assert first["scaler_steps"][0]["place"]["line"] == line_of("scaler.step")
    assert [step["outcome"] for step in answer["steps"][1:]] == ["taken"] * 3
    assert (answer["optimizer_state"]["step"], answer["optimizer_state"]["bytes"]) == (2, 2 * 4096 * 4096 * 4)
    (weight,) = answer["parameters"]
    assert (weight["dtype"], weight["shape"], weight["copies"], weight["copy_bytes"]) == ("float32", [4096, 4096], 4, 4096 * 4096 * 2)
    assert weight["copies_kept_by"] == {"kept": 0, "autocast_cache": 4, "graph": 0, "other": 0}
    assert (weight["first_copy"]["dtype"], weight["first_copy"]["step"]) == ("float16", 1)
    (gradients,) = answer["gradients"]
    assert (gradients["half_operator"], gradients["half_node"], gradients["full_node"]) == ("mm", "MmBackward0", "ToCopyBackward0")
    assert (gradients["half"]["dtype"], gradients["full"]["dtype"], gradients["count"]) == ("float16", "float32", 4)
    release = answer["releases"][0]
    assert (release["step"], release["released_step"], release["zero_grad"]) == (1, 2, True)
    assert (release["phase_before"], release["phase_after"]) == ("forward", "backward")
    assert release["place"]["line"] == line_of("optimizer.zero_grad")


def test_other_answers_say_that_a_step_was_skipped(run_gpumem, example):
    for question in ("steps", "timeline", "amp"):
        assert "skipped: found inf" in run_gpumem(question, example).check().out
    steps = run_gpumem("steps", example, "--json").check().json()["steps"]
    assert [step["optimizer_step"] for step in steps] == ["skipped", "taken", "taken", "taken"]
    gradient = run_gpumem("amp", example, "--json").check().json()["gradients"][0]["full"]["block"]
    why = run_gpumem("why", example, f"#{gradient}", "--json").check().json()
    assert (why["skipped_steps"], why["skipped_step_count"]) == ([1], 1)
    assert "step 1 was skipped: found inf" in run_gpumem("why", example, f"#{gradient}").check().out


def test_events_blocks_and_why_show_the_operator_and_the_node(run_gpumem, example):
    answer = run_gpumem("amp", example, "--json").check().json()["gradients"][0]
    events = {event["n"]: event for event in run_gpumem("events", example, "--json").check().json_lines()}
    half = events[answer["half"]["block"]]
    assert (half["operator"], half["node"]) == ("mm", "MmBackward0")
    blocks = run_gpumem("blocks", example, "--at", half["n"], "--json").check().json()["blocks"]
    (block,) = [block for block in blocks if block["address"] == half["address"]]
    assert (block["operator"], block["node"]) == ("mm", "MmBackward0")
    assert run_gpumem("why", example, f"#{half['n']}", "--json").check().json()["allocated"]["node"] == "MmBackward0"
    assert all("operator" not in event for event in events.values() if event["action"] != "alloc")


def test_gdb_answers_what_the_shell_answers_of_the_saved_recording(run_gdb, run_gpumem, examples, tmp_path):
    log = tmp_path / "saved.gpumem"
    commands = ["gpumem record --engine agent", "run", "gpumem amp --json", "gpumem amp", f"gpumem record save {log}"]
    gdb = run_gdb(commands, examples / "amp.py", sim_options=["--overflow-at", "1"])
    answer = gdb["gpumem amp --json"].json()
    assert [step["outcome"] for step in answer["steps"]] == ["skipped", "taken", "taken", "taken"]
    assert answer == run_gpumem("amp", log, "--json").check().json()
    assert gdb["gpumem amp"].strip().splitlines()[1:] == run_gpumem("amp", log).check().out.strip().splitlines()[1:]


def test_gdb_shows_the_values_of_a_stopped_program(run_gdb, tmp_path):
    program, truth = tmp_path / "held.py", tmp_path / "truth.json"
    program.write_text(HELD.replace("sys.stdin.read()", f"open({str(truth)!r}, 'w').write(line); os.kill(os.getpid(), 19)"))
    gdb = run_gdb(["run", "gpumem amp --json", "kill"], program, ["cuda", "0"], sim_options=["--overflow-at=1"], symbols=False)
    told = json.loads(truth.read_text())
    (used,) = [scaler for scaler in gdb["gpumem amp --json"].json()["scalers"] if scaler["growth_interval"] == 2]
    assert (used["scale"], used["growth_tracker"], used["found_inf"]) == (told["scale"], told["tracker"], told["found"])
    assert any(told["found"])


HELD = """
import json, os, sys
import torch

device = sys.argv[1]
weights = [torch.nn.Parameter(torch.randn(16, 16, device=device)) for _ in range(3)]
optimizers = [torch.optim.Adam(weights[:2]), torch.optim.SGD(weights[2:], lr=0.1)]
scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_factor=1.5, backoff_factor=0.25, growth_interval=2)
unused = torch.amp.GradScaler(device, init_scale=8.0)
disabled = torch.amp.GradScaler(device, enabled=False)
for step in range(3):
    loss = sum(weight.square().sum() for weight in weights)
    if step == 0 and device == "cpu":
        loss = loss * float("inf")
    for weight in weights:
        weight.grad = None
    scaler.scale(loss).backward()
    for optimizer in optimizers:
        scaler.step(optimizer)
    found = [value.item() for state in scaler._per_optimizer_states.values() for value in state["found_inf_per_device"].values()]
    if step == int(sys.argv[2]):
        break
    scaler.update()
line = json.dumps({"scale": scaler._scale.item(), "tracker": scaler._growth_tracker.item(), "found": [bool(value) for value in found],
                  "state": [sum(map(bool, optimizer.state.values())) for optimizer in optimizers]})
print(line, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("device", "step"), [("cuda", 0), pytest.param("cuda", 2, marks=pytest.mark.long), ("cpu", 0)])
def test_a_process_and_a_core_have_their_scalers_values(run_gpumem, sim_env, spawn, tmp_path, device, step):
    program = tmp_path / "held.py"
    program.write_text(HELD)
    env = {**sim_env(), "GPUMEM_SIM_OVERFLOW_AT": "1"}
    process = spawn([PYTHON, "-W", "ignore", program, device, str(step)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    truth = json.loads(process.stdout.readline())
    core = tmp_path / "core"
    run_gpumem("core", process.pid, "-o", core).check()
    for target in (f"--pid={process.pid}", f"--core={core}"):
        answer = run_gpumem("amp", target, "--json").check().json()
        assert answer["scaler_count"] == 3
        (used,) = [scaler for scaler in answer["scalers"] if scaler["growth_interval"] == 2]
        settings = [used[name] for name in ("enabled", "growth_factor", "backoff_factor", "growth_interval", "init_scale")]
        assert settings == [True, 1.5, 0.25, 2, 1024]
        # a core has no memory of a device
        readable = device == "cpu" or target.startswith("--pid")
        assert (used["scale"], used["growth_tracker"]) == ((truth["scale"], truth["tracker"]) if readable else (None, None))
        assert used["found_inf"] == (truth["found"] if readable else [None, None])
        assert sorted(str(scaler["enabled"]) for scaler in answer["scalers"]) == ["False", "True", "True"]
        by_class = {optimizer["class"]: optimizer for optimizer in answer["optimizers"]}
        assert [by_class[name]["with_state"] for name in ("Adam", "SGD")] == truth["state"]
        assert by_class["Adam"]["parameter_dtypes"] == {"float32": {"tensors": 2, "elements": 512}}
        assert by_class["SGD"]["gradient_dtypes"] == {"float32": {"tensors": 1, "elements": 256}}
        text = run_gpumem("amp", target).check().out
        assert "GradScaler at" in text and ("found inf" in text) == (readable and any(truth["found"]))


# As in deepspeed/runtime/fp16/loss_scaler.py and engine.py, whose attributes gpumem reads; DeepSpeed is usually not installed.
LOSS_SCALERS = """
import sys
import torch

class LossScalerBase:
    def __init__(self, cur_scale):
        self.cur_scale = cur_scale

class LossScaler(LossScalerBase):
    pass

class DynamicLossScaler(LossScalerBase):
    def __init__(self, init_scale, overflows):
        super().__init__(init_scale)
        self.cur_iter, self.last_overflow_iter, self.scale_factor, self.scale_window = 0, -1, 2.0, 1000
        for overflow in overflows:
            if overflow:
                self.cur_scale = max(self.cur_scale / self.scale_factor, 1)
                self.last_overflow_iter = self.cur_iter
            self.cur_iter += 1

class DeepSpeedEngine(torch.nn.Module):
    def __init__(self, overflows):
        super().__init__()
        self.global_steps, self.skipped_steps = len(overflows), sum(overflows)
        self.scaler = DynamicLossScaler(2.0**16, overflows)

kept = [LossScaler(8.0), DeepSpeedEngine([True, False, True, False, False]), DynamicLossScaler(4.0, [])]
print("ready", flush=True)
sys.stdin.read()
"""


def test_deepspeeds_scalers_and_skipped_steps_are_those_of_the_process(run_gpumem, spawn, tmp_path):
    program = tmp_path / "scalers.py"
    program.write_text(LOSS_SCALERS)
    process = spawn([PYTHON, "-W", "ignore", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    answer = run_gpumem("amp", f"--pid={process.pid}", "--json").check().json()
    assert answer["scaler_count"] == 0 and not problems("amp", answer)
    told = sorted(tuple(scaler[name] for name in ("class", "scale", "steps", "last_overflow", "scale_window")) for scaler in answer["loss_scalers"])
    assert told == [("DynamicLossScaler", 4, 0, None, 1000), ("DynamicLossScaler", 16384, 5, 3, 1000), ("LossScaler", 8, None, None, None)]
    assert [(engine["steps"], engine["skipped_steps"]) for engine in answer["engines"]] == [(5, 2)]
    text = run_gpumem("amp", f"--pid={process.pid}").check().out
    assert "5 steps; the last one that overflowed, and was skipped, was step 3" in text
    assert "0 steps, and no overflow in them" in text and "No GradScaler" not in text
    assert ", steps 5, skipped 2: a gradient was inf or NaN, so no parameter and no moment changed" in text


DEEPSPEED = """
import json, os, sys
os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
import deepspeed, torch
torch.distributed.init_process_group("nccl", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
config = {
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    "fp16": {"enabled": True, "initial_scale_power": 6, "loss_scale_window": 3, "hysteresis": 1},
    "zero_optimization": {"stage": 1},
}
model = torch.nn.Linear(8, 4)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for step in range(1, 6):
    loss = engine(torch.randn(4, 8).half().cuda()).float().sum()
    engine.backward(loss * float("inf") if step in (2, 4) else loss)
    engine.step()
scaler = engine.optimizer.loss_scaler
print("told", json.dumps([scaler.cur_scale, scaler.cur_iter, scaler.last_overflow_iter + 1, engine.global_steps, engine.skipped_steps]), flush=True)
sys.stdin.read()
"""


def test_deepspeed_itself_agrees(run_gpumem, sim_env, spawn, tmp_path):
    if run_process([PYTHON, "-c", "import deepspeed"], timeout=600).status:
        pytest.skip("the tests' Python has no deepspeed (PyPI has it, without dependencies: hjson, py-cpuinfo, msgpack, einops, ninja)")
    program = tmp_path / "trains.py"
    program.write_text(DEEPSPEED)
    process = spawn([PYTHON, "-W", "ignore", program, tmp_path / "store"], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    line = next(line for line in process.stdout if line.startswith("told "))
    scale, steps, last, global_steps, skipped = json.loads(line[5:])
    answer = run_gpumem("amp", f"--pid={process.pid}", "--json").check().json()
    (scaler,), (engine,) = answer["loss_scalers"], answer["engines"]
    assert (scaler["scale"], scaler["steps"], scaler["last_overflow"]) == (scale, steps, last) and steps == 5 and last == 4
    assert (engine["steps"], engine["skipped_steps"]) == (global_steps, skipped) and skipped == 2


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("device", "first", "overflows"), [
    ("cuda", 1000, (1,)), ("cuda", 1100, (2, 3)), ("cuda", 1200, ()), ("cuda", 1300, (1, 2, 4, 6)), ("cpu", 2000, ()), ("cpu", 2100, ()),
])  # fmt: skip
def test_in_a_hundred_loops_each_step_is_correct(gpumem, tmp_path, device, first, overflows):
    wrong = []
    for truth, _, answer in run_loops(gpumem, tmp_path, device, first, 100, overflows):
        wrong += wrong_in(truth, answer)
    assert not wrong, wrong
