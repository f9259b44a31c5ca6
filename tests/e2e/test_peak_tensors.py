"""Dtype, shape and name of what programs that nobody here wrote have at their peak, against watches in them."""

import bisect
import collections
import json
import math
from pathlib import Path

import pytest
from names import names_in

from conftest import EXAMPLES, PYTHON, TORCH_VERSION, needs

PROGRAMS = Path(__file__).parent / "programs"
TRAINER = ["transformers", "accelerate"]
# They allocate in one shape and give back a view of another.
VIEWED = ("aten.embedding.", "aten.native_layer_norm.", "aten._scaled_dot_product_", "aten.stack.")
CLOCKS_DIFFER_US = 5  # the agent's and the program's
ONE_OF_TWO = ["--rank", "0", "--world", "2"]
CASES = [
    pytest.param(([EXAMPLES / "gpt.py"], [], [], 0.95), id="gpt-autocast"),
    pytest.param(([PROGRAMS / "sim_trainer.py", "plain"], [], TRAINER, 0.95), id="trainer", marks=pytest.mark.long),
    pytest.param(([PROGRAMS / "sim_trainer.py", "ddp"], ONE_OF_TWO, TRAINER, 0.95), id="ddp", marks=pytest.mark.long),
    pytest.param(([PROGRAMS / "sim_trainer.py", "fsdp2"], ONE_OF_TWO, TRAINER, 0.95), id="fsdp2", marks=pytest.mark.long),
    pytest.param(([PROGRAMS / "sim_trainer.py", "zero1"], ONE_OF_TWO, [*TRAINER, "deepspeed"], 0.95), id="deepspeed", marks=pytest.mark.long),
]


def same(block, tensor):
    if tensor["operator"].startswith(VIEWED):
        return block["dtype"] == tensor["dtype"] and math.prod(block["shape"]) == math.prod(tensor["shape"])
    return (block["dtype"], block["shape"]) == (tensor["dtype"], tensor["shape"])



@pytest.fixture(scope="module", params=CASES)
def recorded(run_gpumem, tmp_path_factory, request):
    """(log, what operators made, what tensors are called, share of the peak's bytes to be known) of one program."""
    program, options, libraries, share = request.param
    for library in libraries:
        needs(library)
    folder = tmp_path_factory.mktemp("peak")
    log = folder / "run.gpumem"
    watches = [PROGRAMS / "names_watch.py", folder / "names.json", PROGRAMS / "tensor_watch.py", folder / "made.json"]
    run_gpumem("run", "--sim", "--names", *options, "-o", log, "--", PYTHON, "-W", "ignore", *watches, *program).check()
    (made,), (names,) = folder.glob("made.json*"), folder.glob("names.json*")
    return log, json.loads(made.read_text()), json.loads(names.read_text()), share


def test_the_peaks_tensors_are_reported_as_the_program_saw_them(run_gpumem, recorded):
    log, tensors, _, share = recorded
    allocated, made = collections.defaultdict(list), collections.defaultdict(list)
    for line in run_gpumem("events", log, "--json").check().out.splitlines():
        event = json.loads(line)
        if event["action"] == "alloc":
            allocated[event["address"]].append((event["time_us"], event["n"]))
    for tensor in tensors:
        made[f"{tensor['address']:#x}", tensor["bytes"]].append(tensor)
    blocks = run_gpumem("blocks", log, "--at-peak", "--json").check().json()["blocks"]
    known = judged = 0
    for block in blocks:
        if "dtype" not in block:
            continue
        known += block["size"]
        lives = allocated[block["address"]]
        number = bisect.bisect([n for _, n in lives], block["allocated"])
        begin = lives[number - 1][0] - CLOCKS_DIFFER_US
        end = (lives[number][0] if number < len(lives) else math.inf) + CLOCKS_DIFFER_US
        seen = [one for one in made[block["address"], block["requested"]] if begin <= one["time_us"] < end]
        if not seen:
            continue  # it was made within an operator, or in a tensor of another class
        judged += block["size"]
        assert any(same(block, tensor) for tensor in seen), (block, seen)
    kept = "workspace" if TORCH_VERSION < (2, 15) else None  # cuBLAS's, which are no tensors
    total = sum(block["size"] for block in blocks if block["category"] != kept)
    assert known >= share * total, (known, total)
    assert judged >= 0.95 * total, (judged, total)


def test_all_parameters_gradients_and_states_have_their_names(run_gpumem, recorded):
    log, _, names, _ = recorded
    true, told = set(map(tuple, names)), set(names_in(run_gpumem, log))
    assert {kind for kind, *_ in true} >= {"parameter", "gradient", "optimizer_state"}
    more = {row for row in told - true if row[0] != "attribute"}
    assert (true - told, more) == (set(), set())
