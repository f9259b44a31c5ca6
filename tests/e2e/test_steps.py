"""Steps of real programs."""

import re
from pathlib import Path

import pytest
from conftest import PYTHON

PROGRAMS = Path(__file__).parent / "programs"
PROGRAM = PROGRAMS / "thin_loop.py"


def test_iterations_of_one_line_over_equal_layers_are_steps_by_the_loops_iterator(
    run_gdb, run_gpumem, tmp_path
):
    log = tmp_path / "thin.gpumem"
    gdb = run_gdb(["gpumem record", "run", f"gpumem record save {log}"], PROGRAM)
    assert log.exists(), gdb.out
    assert run_gpumem("info", log, "--json").check().json()["steps"] == 3
    events = run_gpumem("events", log, "--json").check().json_lines()
    outputs = [e for e in events if e["action"] == "alloc" and e["step"]]
    layers = [e["step"] for e in outputs if e["requested"] == 512 * 512 * 4]
    assert layers == [1] * 4 + [2] * 4 + [3] * 4


def test_a_step_within_one_called_function_is_an_iteration_each_time_it_is_called(run_gdb):
    gdb = run_gdb(["gpumem record", "run", "gpumem info --json"], PROGRAMS / "called_step.py")
    assert gdb["gpumem info --json"].json()["steps"] == 2 * 4  # two epochs of four batches


def test_what_the_next_step_replaces_is_told_from_what_is_kept(run_gpumem, python, tmp_path):
    program, log = tmp_path / "both.py", tmp_path / "run.gpumem"
    program.write_text(
        "import torch\n"
        "def new(mib):\n    return torch.empty(mib << 20, dtype=torch.uint8, device='cuda')\n"
        "held = []\n"
        "for step in range(6):\n"
        "    out = new(4)  # replaced by the next step\n"
        "    held.append(new(2))\n"
        "    if step >= 3:\n        held.pop(0)  # of three steps before\n"
    )
    run_gpumem("run", "--sim", "-o", log, "--", python, program).check()
    steps = run_gpumem("steps", log, "--json").check().json()
    assert [(one["kept"] >> 20, one["replaced"] and one["replaced"] >> 20) for one in steps["steps"]] == [(6, 4)] * 5 + [(6, None)]
    text = run_gpumem("steps", log).check().out
    assert re.search(r"^ +2 .* 6\.00 MiB  4\.00 MiB$", text, re.M) and "replaced: of these, those that the next step frees" in text, text


# Two networks trained in each iteration; backward and the update are functions that both call, as a library's are.
GAN = """
import sys, torch
generator, critic = torch.nn.Linear(16, 64).cuda(), torch.nn.Linear(64, 1).cuda()
optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (generator, critic)]

def update(optimizer):
    optimizer.step()
    optimizer.zero_grad()

def backward(loss):
    loss.backward()

def iteration(x):
    z = torch.randn(8, 16, device="cuda")
    losses = critic(generator(z)).mean(), critic(x).mean()
    if sys.argv[1] == "both":
        backward(losses[0]); update(optimizers[0])
        backward(losses[1]); update(optimizers[1])
    elif sys.argv[1] == "update":
        losses[0].backward(); update(optimizers[0])
        losses[1].backward(); update(optimizers[1])
    else:
        backward(losses[0] + losses[1])
        for optimizer in optimizers: update(optimizer)

for i in range(12):
    iteration(torch.randn(8, 64, device="cuda"))
"""


@pytest.mark.parametrize("shared", ["both", "update", "sum"])
def test_an_iteration_that_trains_two_networks_by_shared_functions_is_one_step(run_gpumem, tmp_path, shared):
    program, log = tmp_path / "gan.py", tmp_path / "run.gpumem"
    program.write_text(GAN)
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program, shared).check()
    answer = run_gpumem("steps", log, "--json").check().json()
    assert len(answer["steps"]) == 12 and answer["told_by"] == "around_work", answer


# As learning by reinforcement does it: each iteration acts, one in four learns, and from time to time one is larger.
ACTS = """
import torch
policy = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.Adam(policy.parameters())
for step in range(200):
    with torch.no_grad():
        policy(torch.zeros(32, 64, device="cuda"))
    if step % 4 == 3:
        loss = policy(torch.zeros(128 << (step // 50), 64, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_of_many_steps_those_that_train_are_counted_and_the_text_is_short(run_gpumem, tmp_path):
    program, log = tmp_path / "acts.py", tmp_path / "run.gpumem"
    program.write_text(ACTS)
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, program).check()
    answer, text = run_gpumem("steps", log, "--json").check().json(), run_gpumem("steps", log).check().out
    assert (len(answer["steps"]), answer["training_steps"]) == (200, 50)
    assert "50 of the steps train: they have a backward pass or an optimizer's step.\n" in text
    shown = [int(number) for number in re.findall(r"^ +(\d+) +\d+-\d+ ", text, re.M)]
    assert shown[0] == 1 and shown[-1] == 200 and len(shown) <= 40
    left_out = int(re.search(r"^(\d+) more rows, none with a peak more than 10 % above", text, re.M)[1])
    peaks = {one["step"]: one["peak"] for one in answer["steps"]}
    # equal iterations that follow each other are one pair of rows
    assert left_out <= 200 - len(shown) and left_out > 50
    for number in peaks.keys() - set(shown):
        assert peaks[number] <= 1.1 * max(peaks[one] for one in shown if one < number), number
