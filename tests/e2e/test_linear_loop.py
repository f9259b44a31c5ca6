"""The linear loop's answers: who holds its tensors inside a pass, and why they went when they did.

The loop with gradients is recorded in each debugger, the one without them in gdb alone."""

import os
import re
from types import SimpleNamespace

import pytest

from conftest import EXAMPLES, KEEP_WORKSPACES, line_of

PROGRAM = EXAMPLES / "linear_loop.py"
INPUT, OUTPUT = 200_000_000, 1_000_000_000


def record(run_gdb, run_gpumem, folder, *arguments):
    log = folder / "run.gpumem"
    gdb = run_gdb(
        [
            "gpumem record",
            "tcatch syscall write",
            "run",
            "gpumem who-holds outputs --json",
            "gpumem who-holds outputs",
            "gpumem who-holds inputs --json",
            "gpumem until step=2",
            "continue",
            f"gpumem record save {log}",
            "gpumem peak --json",
            "gpumem peak",
        ],
        PROGRAM,
        arguments,
        env={**os.environ, **KEEP_WORKSPACES},
    )
    assert log.exists(), gdb.out
    events = run_gpumem("events", log, "--json").check().json_lines()

    def allocated(size):
        return [e["n"] for e in events if e["action"] == "alloc" and e["requested"] == size]

    def why(n):
        return run_gpumem("why", log, f"#{n}", "--json").check().json()

    return SimpleNamespace(
        gdb=gdb, log=log, events=events, inputs=allocated(INPUT), outputs=allocated(OUTPUT), why=why
    )


@pytest.fixture(scope="module")
def with_grad(run_gdb, run_gpumem, tmp_path_factory):
    return record(run_gdb, run_gpumem, tmp_path_factory.mktemp("grad"))


@pytest.fixture(scope="module")
def no_grad(run_gdb, run_gpumem, tmp_path_factory):
    return record(run_gdb, run_gpumem, tmp_path_factory.mktemp("no-grad"), "--no-grad")


@pytest.fixture(params=["with_grad", "no_grad"])
def either(request, run_gdb):
    return request.getfixturevalue(request.param)


def holds_variable(answer, name):
    roots = [holder["path"][0] for holder in answer["holders"] if holder["class"] == "proven"]
    return [
        root for root in roots
        if root.get("name") == name and root["kind"] in ("local", "global", "module")
    ]  # fmt: skip


def test_three_inputs_and_three_outputs_are_recorded(either):
    assert len(either.inputs) == len(either.outputs) == 3


def test_who_holds_names_the_variable_inside_step_1(either):
    answer = either.gdb["gpumem who-holds outputs --json"].json()
    assert answer["block"]["size"] >= OUTPUT
    (root,) = holds_variable(answer, "outputs")
    assert root["file"].endswith("linear_loop.py")
    assert root["line"] == line_of(PROGRAM, 'print(f"step {step}')


def test_who_holds_finds_every_reference(either):
    answer = either.gdb["gpumem who-holds outputs --json"].json()
    assert answer["complete"] is True
    assert answer["storages"] and all(s["found"] == s["refcount"] >= 1 for s in answer["storages"])
    assert re.search(r"every reference was found \(([1-9]\d*) of \1\)", either.gdb["gpumem who-holds outputs"])


@pytest.mark.every_debugger
def test_who_holds_shows_the_graph_that_saved_the_input(with_grad):
    answer = with_grad.gdb["gpumem who-holds inputs --json"].json()
    assert holds_variable(answer, "inputs")
    kinds = {step["kind"] for holder in answer["holders"] for step in holder["path"]}
    assert "saved_tensor" in kinds


def test_without_gradients_only_the_variable_holds_the_input(no_grad):
    answer = no_grad.gdb["gpumem who-holds inputs --json"].json()
    assert len(answer["holders"]) == len(holds_variable(answer, "inputs")) == 1


def test_until_step_2_stops_in_the_second_iteration(either):
    assert "linear_loop.py" in either.gdb["gpumem until step=2"]
    assert "step 2:" in either.gdb["continue"]


def test_first_output_was_rebound_in_step_2(either):
    cause = either.why(either.outputs[0])["cause"]
    assert (cause["kind"], cause["name"], cause["step"]) == ("rebound", "outputs", 2)
    assert cause["file"].endswith("linear_loop.py")
    assert cause["line"] == line_of(PROGRAM, "outputs = model(inputs)")


def test_first_output_was_released_after_the_second_was_allocated(either):
    freed = either.why(either.outputs[0])["freed"]
    assert freed["n"] > either.outputs[1]
    assert freed["n"] < either.outputs[2]


def test_why_says_that_two_outputs_were_live_together(either, run_gpumem):
    text = run_gpumem("why", either.log, f"#{either.outputs[0]}").check().out
    assert f"#{either.outputs[1]}" in text
    assert re.search(r"together|at the same time|both", text)


@pytest.mark.every_debugger
def test_graph_kept_the_first_input_until_its_output_was_released(with_grad):
    answer = with_grad.why(with_grad.inputs[0])
    assert "graph" in answer["sentence"]
    output = with_grad.why(with_grad.outputs[0])
    assert answer["freed"]["step"] == output["freed"]["step"] == 2
    assert answer["freed"]["python"][0]["line"] == line_of(PROGRAM, "outputs = model(inputs)")


def test_without_gradients_its_own_variable_kept_the_first_input(no_grad):
    cause = no_grad.why(no_grad.inputs[0])["cause"]
    assert (cause["kind"], cause["name"], cause["step"]) == ("rebound", "inputs", 2)
    assert cause["line"] == line_of(PROGRAM, "inputs = torch.randn")


def test_peak_is_pytorchs_to_the_byte(either):
    told = int(re.search(r"allocated_bytes\.all\.peak: ([\d,]+)", either.gdb["continue"])[1].replace(",", ""))
    peak = either.gdb["gpumem peak --json"].json()
    assert peak["allocated"] == told
    assert sum(group["bytes"] for group in peak["groups"]) == told
    assert f"{told:,}" in either.gdb["gpumem peak"]


@pytest.mark.every_debugger
def test_peak_with_gradients_is_that_of_a_gpu(with_grad):
    # from 2.15 on cuBLASLt has no workspace of its own, of 1 MiB: it shares cuBLAS's
    assert with_grad.gdb["gpumem peak --json"].json()["allocated"] in (4_436_169_216, 4_436_169_216 - (1 << 20))


@pytest.mark.every_debugger
def test_segments_are_those_of_a_gpu(with_grad):
    expected = [2_000_683_008, 2_097_152, 201_326_592, 201_326_592, 1_000_341_504, 1_000_341_504, 33_554_432]
    assert sorted(e["size"] for e in with_grad.events if e["action"] == "segment_alloc") == sorted(expected)


@pytest.mark.every_debugger
def test_both_stacks_lead_from_the_allocator_to_the_programs_line(with_grad):
    alloc = with_grad.events[with_grad.outputs[0]]
    functions = [frame["function"] for frame in alloc["native"]]
    assert functions[0].startswith("c10::reportMemoryUsageToProfiler(")
    assert any(function and "addmm" in function for function in functions)
    assert functions[-1] == "_start"
    assert alloc["python"][-1]["file"].endswith("examples/linear_loop.py")
    assert alloc["python"][-1]["line"] == line_of(PROGRAM, "outputs = model(inputs)")
