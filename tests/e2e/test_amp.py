"""`gpumem amp`: of random training loops (programs/amp_loops.py), which of the optimizers' steps were skipped, what the scale was, when
state was made, whose copies autocast made, as hooks in the programs saw it."""

import json
import os

import pytest

from conftest import PYTHON, ROOT, run_process

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
    """Of a step as a whole; None: it cannot be known."""
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
        # on the CPU what the program reads: each time, or in the end alone
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
    for truth, _, answer in run_loops(gpumem, tmp_path, device, first, 10, overflows):
        wrong += wrong_in(truth, answer)
        kinds |= {step["outcome"] for step in answer["steps"]}
    assert not wrong, wrong
    assert {"taken", "skipped"} <= kinds


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("device", "first", "overflows"), [
    ("cuda", 1000, (1,)), ("cuda", 1100, (2, 3)), ("cuda", 1200, ()), ("cuda", 1300, (1, 2, 4, 6)), ("cpu", 2000, ()), ("cpu", 2100, ()),
])  # fmt: skip
def test_of_a_hundred_loops_each_step_is_told_right(gpumem, tmp_path, device, first, overflows):
    wrong = []
    for truth, _, answer in run_loops(gpumem, tmp_path, device, first, 100, overflows):
        wrong += wrong_in(truth, answer)
    assert not wrong, wrong
