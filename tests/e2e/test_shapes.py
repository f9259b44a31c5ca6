"""The shapes that people read off a plot, in programs built to have them: bytes, steps and lines are known from the
sources. Recorded by `gpumem run`, as the examples say."""

import pytest

from conftest import EXAMPLES, PYTHON

MIB = 1 << 20


def line_of(program, text):
    (number,) = [n for n, line in enumerate((EXAMPLES / program).read_text().splitlines(), 1) if text in line]
    return number


@pytest.fixture(scope="module")
def recorded(run_gpumem, tmp_path_factory):
    made = {}

    def record(program, *options):
        if program not in made:
            out = tmp_path_factory.mktemp("shapes") / "run.gpumem"
            done = run_gpumem("run", "--sim", *options, "-o", out, "--", PYTHON, EXAMPLES / program).check()
            peak = int(done.out.split("peak: ")[1].split(" bytes")[0].replace(",", ""))
            found = run_gpumem("timeline", out, "--json").check().json()["shapes"]
            made[program] = out, peak, {one["kind"]: one for one in found}
        return made[program]

    return record


def near(measured, bytes):
    """A block is rounded up: at most by 1 MiB."""
    return bytes <= measured < bytes + MIB


def test_a_gpts_shapes_are_named_at_their_steps_and_lines(recorded, run_gpumem):
    path, peak, found = recorded("gpt.py")
    vocabulary, width, rows, layers = 50_000, 256, 4 * 256, 6
    logits = rows * vocabulary * 4
    parameters = found["parameters"]["bytes"]
    assert parameters > 2 * vocabulary * width * 4
    assert run_gpumem("info", path, "--json").json()["devices"][0]["peak_allocated"] == peak
    assert found["repeats"]["count"] == 2 and found["optimizer_state"]["step"] == 1
    assert found["optimizer_state"]["bytes"] == 2 * parameters
    assert near(found["slab"]["bytes"], logits)
    assert found["slab"]["site"]["line"] == line_of("gpt.py", "return self.head(x)")
    assert near(found["cliff"]["bytes"] // 2, logits)  # the logits' softmax and its gradient
    assert found["cliff"]["site"]["line"] == line_of("gpt.py", "loss.backward()")
    assert found["waves"]["count"] == layers
    assert found["gradients"]["bytes"] == found["zero_grad"]["bytes"] == parameters
    # foreach: square roots of all second moments at once
    assert parameters <= found["optimizer_temporaries"]["bytes"] < 1.1 * parameters
    assert near(found["stale"]["bytes"], logits)
    assert found["stale"]["site"]["line"] == line_of("gpt.py", "return self.head(x)")


def test_where_the_first_step_is_skipped_the_moments_come_in_the_second(recorded):
    weight = 4096 * 4096 * 4
    _, _, found = recorded("amp.py", "--overflow-at", "1")
    assert found["parameters"]["bytes"] == weight
    assert found["optimizer_state"]["step"] == 2 and found["optimizer_state"]["bytes"] == 2 * weight
    assert found["zero_grad"]["bytes"] == weight  # the stale fp32 gradient of step 1
    kept = 1024 * 4096 * (4 + 2)  # data, output in half precision, and the loss
    assert kept < found["stale"]["bytes"] <= kept + 4096


def test_why_output_was_not_freed_until_step_2(recorded, run_gpumem):
    path, _, _ = recorded("amp.py", "--overflow-at", "1")
    line = line_of("amp.py", "output = data @ weight")
    events = run_gpumem("events", path, "--json").check().json_lines()
    frees = {event["block"]: event for event in events if event["action"] == "free_requested"}
    made = [event for event in events if event["action"] == "alloc" and event["step"] == 1]
    (output,) = [
        event for event in made
        if event["size"] == 1024 * 4096 * 2 and event["python"][0]["line"] == line and frees[event["block"]]["step"] == 2
    ]  # fmt: skip
    why = run_gpumem("why", path, f"#{output['n']}", "--json").check().json()
    assert why["cause"]["kind"] == "rebound" and why["cause"]["name"] == "output"
    assert why["cause"]["step"] == 2 and why["cause"]["line"] == line


def test_why_the_stale_gradient_is_let_go_before_backward(recorded, run_gpumem):
    path, _, _ = recorded("amp.py", "--overflow-at", "1")
    events = run_gpumem("events", path, "--json").check().json_lines()
    (free,) = [
        event for event in events
        if event["action"] == "free_requested" and event["phase"] == "zero_grad" and event["step"] == 2
    ]  # fmt: skip
    assert free["size"] == 4096 * 4096 * 4
    step = [event for event in events if event["step"] == 2]
    loss = line_of("amp.py", "loss = output")
    forward = max(event["n"] for event in step if any(frame["line"] == loss for frame in event["python"]))
    backward = min(event["n"] for event in step if event["phase"] == "backward")
    assert forward < free["n"] < backward
    why = run_gpumem("why", path, f"#{free['block']}", "--json").check().json()
    assert (why["cause"]["kind"], why["cause"]["name"], why["cause"]["step"]) == ("attribute_change", "grad", 2)
    assert f"amp.py:{line_of('amp.py', 'optimizer.zero_grad()')}" in why["held_until"]
