"""dtype, shape and strides of what is allocated, as recordings tell them, against what the program itself saw."""

import bisect
import collections
import json
import math
from pathlib import Path

import pytest

from conftest import PYTHON

# They allocate in one shape and give back a view of another.
VIEWED = {"aten.stack.default", "aten.native_layer_norm.default"}
# They get their memory by resizing an empty tensor: no shape is known where that happens.
RESIZED = {"aten.arange.default"}
PROGRAMS = Path(__file__).parent / "programs"


def events_of(run_gpumem, log):
    finished = run_gpumem("events", log, "--json")
    assert finished.status == 0, finished.out
    return [json.loads(line) for line in finished.out.splitlines()]


def contiguous(shape):
    strides, stride = [], 1
    for size in reversed(shape):
        strides.insert(0, stride)
        stride *= size
    return strides


def same_places(shape, strides, others):
    """Whether both reach the same elements: of a dimension with one element the stride is of no account."""
    return all(size == 1 or one == other for size, one, other in zip(shape, strides, others, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_what_operators_make_is_told_with_dtype_shape_and_strides(run_gpumem, tmp_path, seed):
    log, made = tmp_path / "run.gpumem", tmp_path / "made.json"
    finished = run_gpumem("run", "--sim", "-o", log, "--", PYTHON, PROGRAMS / "tensor_shapes.py", str(seed), made)
    assert finished.status == 0, finished.out
    allocated = collections.defaultdict(list)
    for event in events_of(run_gpumem, log):
        if event["action"] == "alloc":
            allocated[int(event["address"], 16)].append(event)
    told = 0
    made = json.loads(made.read_text())
    assert len(made) > 300
    for tensor in made:
        lives = allocated[tensor["address"]]
        event = lives[bisect.bisect([life["time_us"] for life in lives], tensor["time_us"] + 5) - 1]
        assert event["requested"] == tensor["bytes"], (tensor, event)
        if tensor["operator"] in RESIZED:
            assert "dtype" not in event
            continue
        told += 1
        if tensor["operator"] in VIEWED:
            assert event["dtype"] == tensor["dtype"] and math.prod(event["shape"]) == math.prod(tensor["shape"]), event
            continue
        wanted = tensor["dtype"], tensor["shape"]
        assert (event["dtype"], event["shape"]) == wanted, (tensor["operator"], event["dtype"], event["shape"], wanted)
        strides = event["strides"] or contiguous(event["shape"])
        assert same_places(tensor["shape"], strides, tensor["strides"]), (tensor, event)
    assert told > 0.9 * len(made)
