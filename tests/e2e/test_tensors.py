"""dtype, shape and strides of allocations in recordings are those that the program saw."""

import bisect
import collections
import json
import math
import random
from pathlib import Path

import pytest

from conftest import PYTHON, events_of

# These allocate in one shape and return a view with another.
VIEWED = {"aten.stack.default", "aten.native_layer_norm.default"}
PROGRAMS = Path(__file__).parent / "programs"


def contiguous(shape):
    strides, stride = [], 1
    for size in reversed(shape):
        strides.insert(0, stride)
        stride *= size
    return strides


def same_places(shape, strides, others):
    """Whether both reach the same elements: the stride of a dimension with one element does not matter."""
    return all(size == 1 or one == other for size, one, other in zip(shape, strides, others, strict=True))


def compare_with_operators(run_gpumem, log, made):
    """`made`: what the program wrote about each tensor."""
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
        told += 1
        if tensor["operator"] in VIEWED:
            assert event["dtype"] == tensor["dtype"] and math.prod(event["shape"]) == math.prod(tensor["shape"]), event
            continue
        wanted = tensor["dtype"], tensor["shape"]
        assert (event["dtype"], event["shape"]) == wanted, (tensor["operator"], event["dtype"], event["shape"], wanted)
        strides = event["strides"] or contiguous(event["shape"])
        assert same_places(tensor["shape"], strides, tensor["strides"]), (tensor, event)
    assert told > 0.9 * len(made)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_results_of_operators_are_reported_with_dtype_shape_and_strides(run_gpumem, tmp_path, seed):
    log, made = tmp_path / "run.gpumem", tmp_path / "made.json"
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, PROGRAMS / "tensor_shapes.py", str(seed), made).check()
    compare_with_operators(run_gpumem, log, made)


@pytest.mark.parametrize("device", ["cuda", pytest.param("cpu", marks=pytest.mark.long)])
def test_breakpoints_record_tensors_too(run_gdb, run_gpumem, tmp_path, device):
    log, made = tmp_path / "run.gpumem", tmp_path / "made.json"
    commands = [f"gpumem record --devices {device}", "run", f"gpumem record save {log}"]
    run_gdb(commands, PROGRAMS / "tensor_shapes.py", ["3", made, device])
    compare_with_operators(run_gpumem, log, made)


NUMBERS = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def random_clause(choose, blocks):
    """(text, its value for a block: True, False, or None if it is not known)."""
    block = choose.choice(blocks)
    fact = choose.choice(["size", "requested", "step", "category", "phase", "dtype", "shape"])
    if fact in ("size", "requested", "step"):
        sign = choose.choice(list(NUMBERS))
        value = block[fact] or 0
        return f"{fact}{sign}{value}", lambda one: NUMBERS[sign](one[fact] or 0, value)
    equal = choose.random() < 0.7
    sign = "=" if equal else "!="
    if fact != "shape":
        value = block.get(fact) or "float32"
        return f"{fact} {sign} '{value}'", lambda one: None if fact not in one else (one[fact] == value) == equal
    shape = block.get("shape", [3])
    pattern = [choose.choice([size, None]) for size in shape]
    text = ", ".join("*" if size is None else str(size) for size in pattern)

    def fits(one):
        if "shape" not in one:
            return None
        same = len(one["shape"]) == len(pattern) and all(
            wanted in (None, size) for size, wanted in zip(one["shape"], pattern, strict=True)
        )
        return same == equal

    return f"shape{sign}[{text}]", fits


def random_condition(choose, blocks, depth=2):
    if depth == 0 or choose.random() < 0.3:
        return random_clause(choose, blocks)
    if choose.random() < 0.2:
        text, of = random_condition(choose, blocks, depth - 1)
        return f"not ({text})", lambda one: None if of(one) is None else not of(one)
    (left, of_left), (right, of_right) = (random_condition(choose, blocks, depth - 1) for _ in range(2))
    word = choose.choice(["and", "or"])
    decides = word == "or"

    def of(one):
        values = of_left(one), of_right(one)
        return decides if decides in values else None if None in values else not decides

    return f"({left}) {word} ({right})", of


@pytest.fixture(scope="module")
def shapes(run_gpumem, tmp_path_factory):
    """A recording that no test changes."""
    folder = tmp_path_factory.mktemp("shapes")
    run_gpumem("run", "--sim", "-o", folder / "run.gpumem", "--", PYTHON, PROGRAMS / "tensor_shapes.py", "5", folder / "made.json").check()
    return folder / "run.gpumem"


def test_where_selects_the_blocks_of_which_a_condition_holds(run_gpumem, shapes):
    log = shapes
    everything = run_gpumem("blocks", log, "--at-peak", "--json").check().json()
    blocks = everything["blocks"]
    assert len(blocks) > 20
    choose, selected = random.Random(5), 0
    for _ in range(60):
        text, of = random_condition(choose, blocks)
        answer = run_gpumem("blocks", log, "--at-peak", "--json", "--where", text).check().json()
        wanted = {block["address"] for block in blocks if of(block) is True}
        unknown = [block for block in blocks if of(block) is None]
        assert {block["address"] for block in answer["blocks"]} == wanted, text
        assert answer["allocated"] == everything["allocated"]
        assert answer["where"]["bytes"] == sum(block["size"] for block in answer["blocks"]) == sum(
            group["bytes"] for group in answer["groups"]
        ), text
        assert answer["where"]["unknown_blocks"] == len(unknown), text
        selected += len(wanted)
    assert selected > 100


def test_blocks_are_sorted_and_cut_as_asked(run_gpumem, shapes):
    log = shapes

    def blocks(*options):
        return run_gpumem("blocks", log, "--at-peak", "--json", *options).check().json()["blocks"]

    everything = blocks()
    assert blocks("--sort", "age") == sorted(everything, key=lambda block: block["allocated"])
    assert blocks("--sort", "address") == sorted(everything, key=lambda block: int(block["address"], 16))
    assert blocks("--top", "3") == everything[:3]
    cut = run_gpumem("blocks", log, "--at-peak", "--top", "3").check().out
    assert f"... {len(everything) - 3} more blocks, " in cut
    assert len(cut.splitlines()) == 6


@pytest.mark.parametrize("by", ["shape", "dtype"])
def test_groups_of_shapes_and_dtypes_add_up(run_gpumem, shapes, by):
    log = shapes
    wanted = collections.Counter()
    for block in run_gpumem("blocks", log, "--at-peak", "--json").check().json()["blocks"]:
        shape = f" [{', '.join(map(str, block['shape']))}]" if by == "shape" and "shape" in block else ""
        wanted[block.get("dtype", "no tensor is known") + shape] += block["size"]
    groups = run_gpumem("blocks", log, "--at-peak", "--by", by, "--json").check().json()["groups"]
    assert {group["key"]: group["bytes"] for group in groups} == wanted
    assert len(groups) > 4


def test_a_recording_without_shapes_says_how_to_record_them(run_gpumem, tmp_path):
    snapshot = tmp_path / "snapshot.pickle"
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "torch.cuda.memory._record_memory_history()\n"
        "kept = torch.zeros(1000, device='cuda')\n"
        f"torch.cuda.memory._dump_snapshot({str(snapshot)!r})\n"
    )
    run_gpumem("run", "--sim", "--no-record", "--", PYTHON, program).check()
    said = run_gpumem("blocks", snapshot, "--by", "shape").check(4).err
    assert "this recording has no dtypes and shapes: record with `gpumem run`" in said
    answer = run_gpumem("blocks", snapshot, "--where", "dtype=float32").check().out
    assert "in 0 of 1 block" in answer and "does not contain the property that the condition needs" in answer
