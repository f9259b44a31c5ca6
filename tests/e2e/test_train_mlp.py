"""A training loop: gradients, moments and activations, and who let them go."""

import re

import pytest

from conftest import EXAMPLES, line_of

PROGRAM = EXAMPLES / "train_mlp.py"


@pytest.fixture(scope="module")
def log(run_gdb, tmp_path_factory):
    path = tmp_path_factory.mktemp("mlp") / "run.gpumem"
    gdb = run_gdb(["gpumem record", "run", f"gpumem record save {path}"], PROGRAM)
    assert path.exists(), gdb.out
    return path


@pytest.fixture(scope="module")
def events(log, run_gpumem):
    return run_gpumem("events", log, "--json").check().json_lines()


def test_events_carry_the_step_that_they_belong_to(events):
    assert {event.get("step") for event in events if event.get("step")} == {1, 2, 3}


def test_backwards_events_carry_the_waiting_callers_stack(events):
    """backward() allocates on a thread without Python; its caller is known all the same."""
    line = line_of(PROGRAM, "loss.backward()")
    threads = {event["thread"] for event in events}
    assert len(threads) > 1
    main = events[0]["thread"]
    backward = [event for event in events if event["thread"] != main]
    assert backward
    for event in backward:
        assert line in [frame["line"] for frame in event["python"] if frame["file"].endswith("train_mlp.py")]


def test_moments_are_allocated_in_the_first_step_only(events):
    line = line_of(PROGRAM, "optimizer.step()")
    weight = 512 * 2048 * 4

    def moments(step):
        return [
            event["n"] for event in events
            if event["action"] == "alloc" and event.get("step") == step and event["size"] == weight
            and any(frame["function"].endswith("_init_group") for frame in event["python"])
            and line in [frame["line"] for frame in event["python"]]
        ]  # fmt: skip

    assert len(moments(1)) == 4  # two weights, two moments each
    assert moments(2) == moments(3) == []


def test_gradients_of_step_1_go_at_zero_grad(events, log, run_gpumem):
    backward, zero_grad = line_of(PROGRAM, "loss.backward()"), line_of(PROGRAM, "optimizer.zero_grad()")
    weight = 512 * 2048 * 4
    made = [
        event["n"] for event in events
        if event["action"] == "alloc" and event.get("step") == 1 and event["size"] == weight
        and event["python"] and backward in [frame["line"] for frame in event["python"]]
    ]  # fmt: skip
    assert len(made) == 2
    for n in made:
        freed = run_gpumem("why", log, f"#{n}", "--json").check().json()["freed"]
        assert freed["step"] == 1
        assert zero_grad in [frame["line"] for frame in freed["python"]]


def test_peak_groups_add_up(log, run_gpumem):
    peak = run_gpumem("peak", log, "--json").check().json()
    assert sum(group["bytes"] for group in peak["groups"]) == peak["allocated"] > 0


def test_blocks_at_every_event_add_up_to_the_allocators_figure(events, log, run_gpumem):
    for n in range(0, len(events), max(1, len(events) // 10)):
        answer = run_gpumem("blocks", log, "--at", str(n), "--json").check().json()
        assert sum(group["bytes"] for group in answer["groups"]) == answer["allocated"]


def test_text_and_json_agree_on_the_peak(log, run_gpumem):
    peak = run_gpumem("peak", log, "--json").check().json()["allocated"]
    assert re.search(rf"\b{peak:,}\b", run_gpumem("peak", log).check().out)
