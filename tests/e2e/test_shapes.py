"""The shapes that people read off a plot, in programs built to have them: bytes, steps and lines are known from the
sources. Recorded by `gpumem run`, as the examples say."""

import re

import pytest

from conftest import EXAMPLES, PYTHON, line_of

MIB = 1 << 20


@pytest.fixture(scope="module")
def recorded(run_gpumem, tmp_path_factory):
    made = {}

    def record(program, *arguments, overflow=()):
        key = (program, *arguments, *overflow)
        if key not in made:
            out = tmp_path_factory.mktemp("shapes") / "run.gpumem"
            command = [PYTHON, EXAMPLES / program, *arguments]
            done = run_gpumem("run", "--sim", *overflow, "-o", out, "--", *command).check()
            peak = int(re.search(r"peak:? ([\d,]+)", done.out)[1].replace(",", ""))
            found = run_gpumem("timeline", out, "--json").check().json()["shapes"]
            made[key] = out, peak, {one["kind"]: one for one in found}
        return made[key]

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
    # a large block may keep a rest that is too small to be split off
    assert 2 * parameters <= found["optimizer_state"]["bytes"] < 2.01 * parameters
    assert near(found["slab"]["bytes"], logits)
    assert found["slab"]["site"]["line"] == line_of(EXAMPLES / "gpt.py", "return self.head(x)")
    assert near(found["cliff"]["bytes"] // 2, logits)  # the logits' softmax and its gradient
    assert found["cliff"]["site"]["line"] == line_of(EXAMPLES / "gpt.py", "loss.backward()")
    assert found["waves"]["count"] == layers
    assert found["gradients"]["bytes"] == found["zero_grad"]["bytes"] == parameters
    # foreach: square roots of all second moments at once
    assert parameters <= found["optimizer_temporaries"]["bytes"] < 1.1 * parameters
    assert near(found["stale"]["bytes"], logits)
    assert found["stale"]["site"]["line"] == line_of(EXAMPLES / "gpt.py", "return self.head(x)")


def test_where_the_first_step_is_skipped_the_moments_come_in_the_second(recorded):
    weight = 4096 * 4096 * 4
    _, _, found = recorded("amp.py", overflow=("--overflow-at", "1"))
    assert found["parameters"]["bytes"] == weight
    assert found["optimizer_state"]["step"] == 2 and found["optimizer_state"]["bytes"] == 2 * weight
    assert found["zero_grad"]["bytes"] == weight  # the stale fp32 gradient of step 1
    kept = 1024 * 4096 * (4 + 2)  # data, output in half precision, and the loss
    assert kept < found["stale"]["bytes"] <= kept + 4096


def test_why_output_was_not_freed_until_step_2(recorded, run_gpumem):
    path, _, _ = recorded("amp.py", overflow=("--overflow-at", "1"))
    line = line_of(EXAMPLES / "amp.py", "output = data @ weight")
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


def test_why_the_stale_gradient_is_released_before_backward(recorded, run_gpumem):
    path, _, _ = recorded("amp.py", overflow=("--overflow-at", "1"))
    events = run_gpumem("events", path, "--json").check().json_lines()
    (free,) = [
        event for event in events
        if event["action"] == "free_requested" and event["phase"] == "zero_grad" and event["step"] == 2
    ]  # fmt: skip
    assert free["size"] == 4096 * 4096 * 4
    step = [event for event in events if event["step"] == 2]
    loss = line_of(EXAMPLES / "amp.py", "loss = output")
    forward = max(event["n"] for event in step if any(frame["line"] == loss for frame in event["python"]))
    backward = min(event["n"] for event in step if event["phase"] == "backward")
    assert forward < free["n"] < backward
    why = run_gpumem("why", path, f"#{free['block']}", "--json").check().json()
    assert (why["cause"]["kind"], why["cause"]["name"], why["cause"]["step"]) == ("attribute_change", "grad", 2)
    assert f"amp.py:{line_of(EXAMPLES / 'amp.py', 'optimizer.zero_grad()')}" in why["held_until"]


def test_a_gpts_loss_and_its_ends_are_named_by_their_operators(recorded):
    _, _, found = recorded("gpt.py")
    logits, table = 4 * 256 * 50_000 * 4, 50_000 * 256 * 4
    assert found["slab"]["note"] == "logits"
    assert near(found["softmax"]["bytes"], logits) and found["softmax"]["of"] == 0
    assert found["softmax"]["site"]["line"] == line_of(EXAMPLES / "gpt.py", "loss = F.cross_entropy")
    assert near(found["first_gradient"]["bytes"], table) and found["first_gradient"]["note"] == "mm"
    assert near(found["last_gradient"]["bytes"], table)
    assert found["last_gradient"]["note"].startswith("embedding")
    assert found["cliff"]["last_event"] < found["first_gradient"]["first_event"]
    assert found["waves"]["last_event"] < found["last_gradient"]["first_event"]
    assert found["optimizer_temporaries"]["note"] == "_foreach_sqrt"
    # the third step lies in what the first two took from CUDA
    assert found["cached"]["count"] == 0 and found["cached"]["blocks"] > 100


@pytest.mark.long
def test_the_fused_optimizer_has_no_temporaries(recorded):
    _, _, found = recorded("gpt.py", "fused")
    assert found["optimizer_temporaries"]["bytes"] == 0 and found["optimizer_temporaries"]["count"] == 1
    # its state has a step of 4 bytes for each parameter on the device beside the moments
    assert 2 * found["parameters"]["bytes"] < found["optimizer_state"]["bytes"] < 2.01 * found["parameters"]["bytes"]


@pytest.mark.long
def test_in_half_precision_the_loss_keeps_more_than_the_logits(recorded):
    _, _, found = recorded("gpt.py", "bf16")
    logits = 4 * 256 * 50_000 * 2
    assert found["slab"]["note"] == "logits" and near(found["slab"]["bytes"], logits)
    # the softmax in half precision, and a copy of it in full precision that the loss reads
    assert 3 * logits <= found["softmax"]["bytes"] < 3 * logits + 2 * MIB


def test_two_layers_serve_each_others_memory(recorded):
    _, _, found = recorded("amp_two_layers.py")
    weights = 2 * 4096 * 4096 * 4
    assert found["parameters"]["bytes"] == found["gradients"]["bytes"] == found["zero_grad"]["bytes"] == weights
    assert found["optimizer_state"]["bytes"] == 2 * weights
    assert found["cached"]["count"] == 0 and found["cached"]["blocks"] > 20


@pytest.mark.long
def test_zero_1_halves_the_optimizers_state_and_adds_buffers(run_gpumem, tmp_path):
    torchrun = PYTHON.parent / "torchrun"
    if not torchrun.exists():
        pytest.skip("no torchrun in this Python")
    command = ["run", "--sim=h100-80gbx2", "-o", tmp_path / "%r.gpumem", "--", torchrun, "--standalone", "--nproc-per-node", "2"]
    run_gpumem(*command, EXAMPLES / "zero1.py").check()
    weights = 4 * (2048 * 2048 + 2048) * 4
    for rank in range(2):
        path = tmp_path / f"{rank}.gpumem"
        found = {one["kind"]: one for one in run_gpumem("timeline", path, "--json").check().json()["shapes"]}
        assert near(found["parameters"]["bytes"], weights)
        assert near(found["optimizer_state"]["bytes"], weights)  # half of what Adam has alone
        assert near(found["optimizer_temporaries"]["bytes"] * 2, weights)
        # DDP's buckets; those of the first step live on where a collective's end was not seen yet
        assert weights <= found["communication"]["bytes"] < 2 * weights + MIB
        # torch's keeps no half precision weights from one step to the next: each pass makes them anew
        at_end = run_gpumem("steps", path, "--json").check().json()["steps"][-1]["last_event"]
        kept = run_gpumem("blocks", path, "--at", str(at_end), "--json").check().json()["blocks"]
        assert not [block for block in kept if block["requested"] == 2048 * 2048 * 2]


@pytest.mark.long
def test_the_batch_decides_whether_forward_or_the_optimizer_makes_the_peak(recorded, run_gpumem):
    """A transformers model of 1.5 billion parameters, from its configuration."""
    needs("transformers")
    turns = []
    for batch, phase in (16, "backward"), (2, "optimizer"):
        path, peak, found = recorded("qwen2.py", str(batch))
        weights = 1_543_714_304 * 4
        assert weights <= found["parameters"]["bytes"] < 1.001 * weights
        for kind, times in ("gradients", 1), ("optimizer_temporaries", 1), ("optimizer_state", 2):
            assert found[kind]["bytes"] == pytest.approx(times * weights, rel=0.001), kind
        assert found["last_gradient"]["note"] == "add_Tensor"  # embedding and head are one
        assert found["last_gradient"]["bytes"] == pytest.approx(151936 * 1536 * 4, rel=0.001)
        answer = run_gpumem("peak", path, "--json").check().json()
        assert answer["allocated"] == peak
        events = run_gpumem("events", path, "--from", str(answer["event"]), "--to", str(answer["event"]), "--json")
        assert events.check().json()["phase"] == phase
        turns.append(batch * answer["next_peak"]["equal_at_batch_times"])
    assert all(5 < turn < 8 for turn in turns)


@pytest.mark.long
def test_what_saving_techniques_save(recorded, run_gpumem):
    def sums(*arguments):
        path, peak, _ = recorded("techniques.py", *arguments)
        return peak, run_gpumem("peak", path, "--json").check().json()["by_category"]

    plain, at_plain = sums("plain")
    checkpoint, at_checkpoint = sums("checkpoint")
    assert at_checkpoint["activation"] < 0.2 * at_plain["activation"]
    autocast, at_autocast = sums("autocast")
    assert at_autocast["parameter"] == at_plain["parameter"] and autocast > 0.8 * plain
    assert sums("offload")[0] == plain
    accumulate, at_accumulate = sums("accumulate")
    assert at_accumulate["gradient"] > 0.9 * at_plain["parameter"] and accumulate < 1.05 * plain
    assert sums("chunked")[0] > plain  # autograd keeps every block's scores


@pytest.mark.long
def test_the_shapes_of_the_loop_without_training(recorded):
    _, _, found = recorded("linear_loop.py")
    assert near(found["parameters"]["bytes"], (10_000 + 1) * 50_000 * 4)
    assert near(found["forward"]["bytes"], 5_000 * 50_000 * 4)
    # the old inputs and outputs wait until the new outputs are made
    assert found["stale"]["bytes"] >= 5_000 * 60_000 * 4
    assert found["stale"]["site"]["line"] == line_of(EXAMPLES / "linear_loop.py", "outputs = model(inputs)")
