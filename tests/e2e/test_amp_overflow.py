"""`gpumem amp`: in which parameter an overflow came first, of random training loops (programs/amp_overflow.py), as hooks on their
parameters saw it."""

import json

import pytest
from conftest import EXAMPLES, PYTHON, ROOT, run_process

PROGRAM = ROOT / "tests" / "e2e" / "programs" / "amp_overflow.py"


def record(gpumem, folder, *command, options=()):
    log = folder / "run.gpumem"
    run_process(list(map(str, [gpumem, "run", *options, "-o", log, "--", PYTHON, "-W", "ignore", *command]))).check()
    return log


def overflows(gpumem, log):
    """(step, call of scaler.step()) of the calls that found a gradient that is not finite."""
    steps = run_process([gpumem, "amp", log, "--json"]).check().json()["steps"]
    return {step["step"]: call for step in steps for call in step["scaler_steps"] if call["found_inf"]}


def layers(names):
    """One node of the graph computes the gradients of a layer's weight and bias, and passes them on in a different order."""
    return list(dict.fromkeys(name.partition(".")[0] for name in names))


def wrong_in(truth, told):
    wrong = []
    for number, step in enumerate(truth["steps"], 1):
        true = {int(address): about for address, about in step["found"].items() if about[2]}
        if not true:
            if number in told:
                wrong.append((number, told[number]))
            continue
        found = told[number]["not_finite"]
        items = {int(item["address"], 16): item for item in found["items"]}
        if (found["gradients"], found["read"], found["not_finite"]) != (len(step["found"]), len(step["found"]), len(true)) or set(items) != set(true):
            wrong.append((number, found, true))
            continue
        for address, (name, elements, count, nan) in true.items():
            item = items[address]
            if (item["elements"], item["not_finite"], item["nan"]) != (elements, count, nan) or item["name"] not in (None, f"{name}.grad"):
                wrong.append((number, item, name, elements, count, nan))
        names = [true[int(item["address"], 16)][0] for item in found["items"]]
        # the gradient of a weight that is used twice is allocated at the first use and added to at the second
        if found["ordered"] and not truth["tied"] and layers(names) != layers(step["order"]):
            wrong.append((number, names, step["order"]))
        # by one pass, into gradients of its own, the order is known
        if truth["parts"] == 1 and truth["none"] and not found["ordered"]:
            wrong.append((number, "not ordered", found))
    return wrong


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_the_first_gradient_that_overflowed_is_the_one_that_a_hook_saw(gpumem, tmp_path, seed):
    log = record(gpumem, tmp_path, PROGRAM, tmp_path / "told.json", seed, options=["--devices", "cpu", "--names"])
    truth, told = json.loads((tmp_path / "told.json").read_text()), overflows(gpumem, log)
    assert wrong_in(truth, told) == []
    assert set(told) == {2, 4, 6}
    # names are read at the end of the second step that was not skipped: the places are known from then on
    assert all(item["name"] for call in told.values() for item in call["not_finite"]["items"])


TWO = """
import torch

def model():
    return torch.nn.Sequential(torch.nn.Linear(16, 16, bias=False), torch.nn.Linear(16, 16, bias=False))

first, second = model(), model()
optimizers = [torch.optim.Adam(one.parameters()) for one in (first, second)]
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for step in range(4):
    for optimizer in optimizers:
        optimizer.zero_grad()
    hidden = first(torch.ones(4, 16))
    if step == 2:
        hidden.register_hook(lambda gradient: gradient * float("inf"))
    scaler.scale(second(hidden).sum()).backward()
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()
"""


def test_a_gradient_that_two_optimizers_could_own_has_no_name(gpumem, tmp_path):
    """Both have the same number of parameters of the same size, so it is unknown whose place it was when names were read."""
    (tmp_path / "two.py").write_text(TWO)
    call = overflows(gpumem, record(gpumem, tmp_path, tmp_path / "two.py", options=["--devices", "cpu", "--names"]))[3]
    assert call["not_finite"]["ordered"] and [item["index"] for item in call["not_finite"]["items"]] == [1, 0]
    assert [item["name"] for item in call["not_finite"]["items"]] == [None, None]


def test_without_names_a_gradient_is_recognized_by_its_place_block_and_shape(gpumem, tmp_path):
    (tmp_path / "two.py").write_text(TWO)
    log = record(gpumem, tmp_path, tmp_path / "two.py", options=["--devices", "cpu"])
    item = overflows(gpumem, log)[3]["not_finite"]["items"][0]
    text = run_process([gpumem, "amp", log]).check().out
    assert f"It came first in gradient 2 of 2 (#{item['block']} (16, 16) float32, 256 of 256 elements" in text
    assert "Of 2 gradients 2 have inf or NaN." in text


def test_values_that_the_simulated_device_did_not_compute_are_not_guessed(gpumem, tmp_path):
    log = record(gpumem, tmp_path, EXAMPLES / "amp_two_layers.py", options=["--sim", "--overflow-at", "1"])
    assert overflows(gpumem, log)[1]["not_finite"] == {"gradients": 2, "read": 0, "not_finite": 0, "ordered": False, "items": []}
    assert "the simulated device computed 0 of the 2 gradients" in run_process([gpumem, "amp", log]).check().out


COMPUTED = """
import torch
weights = [torch.nn.Parameter(torch.ones(64, device="cuda")) for _ in range(3)]
optimizer = torch.optim.SGD(weights, lr=0.1)
scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10)
for step in range(1, 4):
    optimizer.zero_grad()
    hidden = weights[0] * 1.0
    hidden = hidden * weights[1] * (1e37 if step == 2 else 1.0)
    scaler.scale((hidden * weights[2]).sum()).backward()
    print(step, [index for index, weight in enumerate(weights) if not weight.grad.isfinite().all()])
    scaler.step(optimizer)
    scaler.update()
"""


def test_values_that_the_simulated_device_computed_are_examined(gpumem, tmp_path):
    (tmp_path / "computed.py").write_text(COMPUTED)
    log = tmp_path / "run.gpumem"
    printed = run_process([gpumem, "run", "--sim", "-o", log, "--", PYTHON, tmp_path / "computed.py"]).check().out
    assert "2 [0, 1, 2]" in printed
    told = overflows(gpumem, log)
    assert set(told) == {2} and told[2]["not_finite"]["read"] == 3
    # backward computes the gradient of the last one first
    assert told[2]["not_finite"]["ordered"] and told[2]["not_finite"]["items"][0]["index"] == 2


def test_finite_gradients_show_that_the_overflow_was_simulated(gpumem, tmp_path):
    (tmp_path / "computed.py").write_text(COMPUTED)
    log = record(gpumem, tmp_path, tmp_path / "computed.py", options=["--sim", "--overflow-at", "3"])
    assert overflows(gpumem, log)[3]["not_finite"] == {"gradients": 3, "read": 3, "not_finite": 0, "ordered": False, "items": []}
    assert "All gradients are finite: the overflow is the simulated device's" in run_process([gpumem, "amp", log]).check().out
