"""timeline: the plot fits the terminal, and its shapes have the bytes that the program's tensors have."""

import json
import re
from pathlib import Path

import pytest

from conftest import EXAMPLES, KEEP_WORKSPACES, PYTHON

PROGRAMS = Path(__file__).parent / "programs"
# examples/train_mlp.py: two Linear of 512 x 2048, fp32, blocks of 512 bytes
PARAMETERS = 4 * (2 * 512 * 2048 + 2048 + 512)


@pytest.fixture(scope="module")
def mlp(sim_env, run, tmp_path_factory):
    out = tmp_path_factory.mktemp("mlp") / "run.pickle"
    run([PYTHON, PROGRAMS / "dump_snapshot.py", EXAMPLES / "train_mlp.py", out, "python", "100000"], env=sim_env()).check()
    return out


def shapes(run_gpumem, path):
    return {one["kind"]: one for one in run_gpumem("timeline", path, "--json").check().json()["shapes"]}


def test_the_shapes_of_a_training_loop_have_their_bytes_and_lines(mlp, run_gpumem):
    found = shapes(run_gpumem, mlp)
    assert found["parameters"]["bytes"] == PARAMETERS
    assert found["parameters"]["site"]["function"] == "make_model"
    assert found["optimizer_state"]["bytes"] == 2 * PARAMETERS and found["optimizer_state"]["step"] == 1
    assert found["gradients"]["bytes"] == found["zero_grad"]["bytes"] == PARAMETERS
    assert found["optimizer_temporaries"]["bytes"] == PARAMETERS  # foreach: the square roots
    assert found["repeats"]["count"] == 2 and found["repeats"]["step"] == 2
    # inputs, targets, outputs and the loss of a step are still named by variables when the next one begins
    assert found["stale"]["site"]["function"] == "train"
    assert "waves" not in found


def test_checkpoints_make_waves(sim_env, run, run_gpumem, tmp_path):
    out = tmp_path / "run.pickle"
    run([PYTHON, PROGRAMS / "known_memory.py", "checkpoint", out], env=sim_env()).check()
    found = shapes(run_gpumem, out)
    assert found["waves"]["count"] == 4  # one for each block of the model
    assert found["slab"]["bytes"] == 2304 * 8 * 512 * 4  # rows, classes, fp32: the logits' softmax
    assert json.loads(Path(f"{out}.json").read_text())["windows"]


# In each forward pass a module on cuda:1 makes a block as large as the logits on cuda:0, and before them.
TWO_DEVICES = """
import torch
from torch import nn
body = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8))).to("cuda:0")
head, aside = nn.Linear(256, 8192).to("cuda:0"), nn.Linear(256, 8192).to("cuda:1")
for step in range(4):
    hidden = body(torch.ones(512, 256, device="cuda:0"))
    other = aside(torch.ones(512, 256, device="cuda:1"))
    logits = head(hidden)
    loss = logits.square().mean() + other.square().mean().to("cuda:0")
    del logits, other
    loss.backward()
    del loss
    for module in (body, head, aside):
        module.zero_grad()
"""


def test_the_slab_is_a_block_of_the_device_that_is_shown(run_gpumem, tmp_path):
    program, path = tmp_path / "two.py", tmp_path / "two.gpumem"
    program.write_text(TWO_DEVICES)
    run_gpumem("run", "--sim=2GiBx2", "-o", path, "--", PYTHON, program).check()
    slab = shapes(run_gpumem, path)["slab"]
    assert slab["bytes"] == 512 * 8192 * 4
    assert TWO_DEVICES.splitlines()[slab["site"]["line"] - 1].strip().startswith(("logits = ", "loss = logits")), slab


def test_each_block_is_explained(mlp, run_gpumem):
    lines = run_gpumem("blocks", mlp, "--at-peak", "--explain").check().out.splitlines()[2:]
    blocks = run_gpumem("blocks", mlp, "--at-peak", "--json").check().json()["blocks"]
    assert len(lines) == len(blocks) > 4
    for line, block in zip(lines, blocks):
        assert line.split()[0] == f"#{block['allocated']}"
        assert f" {block['category']} " in line and line.endswith(block["category_reason"])
    assert run_gpumem("blocks", mlp, "--explain", "--by", "line").status == 2


@pytest.mark.parametrize("width", [60, 61, 100, 200])
def test_the_plot_has_the_requested_width(mlp, run_gpumem, width):
    lines = run_gpumem("timeline", mlp, f"--width={width}").check().out.splitlines()
    plot = [line for line in lines if set(line) & set("█▁▂▃▄▅▆▇")]
    assert len(plot) > 6 and max(len(line) for line in plot) == width
    assert next(line for line in lines if line.lstrip().startswith("phase")).count("b") > 2
    step = next(line for line in lines if line.lstrip().startswith("step"))
    assert "|1" in step and "|2" in step and "|3" in step


def test_a_width_that_is_too_small_is_refused(mlp, run_gpumem):
    assert run_gpumem("timeline", mlp, "--width=20").status == 2


def test_the_columns_are_the_events(mlp, run_gpumem):
    columns = run_gpumem("timeline", mlp, "--json").check().json()["columns"]
    info = run_gpumem("info", mlp, "--json").check().json()["devices"][0]
    assert max(column["allocated"] for column in columns) == info["peak_allocated"]
    assert max(column["reserved"] for column in columns) == info["peak_reserved"]
    assert columns[0]["first_event"] == 0 and columns[-1]["last_event"] == info["events"] - 1
    for before, after in zip(columns, columns[1:]):
        assert after["first_event"] == before["last_event"] + 1


def test_the_next_peak_and_the_batch_from_which_it_is_the_higher_one(sim_env, run, run_gpumem, tmp_path):
    def peak(rows):
        out = tmp_path / f"{rows}.pickle"
        run([PYTHON, PROGRAMS / "two_peaks.py", out, rows], env={**sim_env(), **KEEP_WORKSPACES}).check()
        answer = run_gpumem("peak", out, "--json").check().json()
        (device,) = run_gpumem("info", out, "--json").check().json()["devices"]
        assert answer["next_peak"]["allocated"] <= answer["allocated"] == device["peak_allocated"], answer
        text = run_gpumem("peak", out).check().out
        assert re.search("^the peak of (the optimizer's step|forward and backward): ", text, re.M) and "times this batch" in text
        return answer["next_peak"]["phase"] != "optimizer", answer["next_peak"]["equal_at_batch_times"]

    optimizer_wins, times = peak("256")
    turn = 256 * times
    assert optimizer_wins and times > 1
    for rows, wins in (int(turn * 0.9), True), (int(turn * 1.1), False):
        again, from_there = peak(str(rows))
        assert again is wins and from_there * rows == pytest.approx(turn, rel=0.02)
