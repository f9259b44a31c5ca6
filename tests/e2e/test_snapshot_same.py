"""A snapshot that PyTorch's recorder wrote says what our own recording of the same run says: sites, steps, phases, the
peak and categories. The programs are made up by chance: programs/make_training.py."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from conftest import PYTHON, ROOT, run_process

MAKER = ROOT / "tests" / "e2e" / "programs" / "make_training.py"
CASES = [(1, "all"), (2, "python")]
LONG = [(seed, stacks) for seed in range(3, 9) for stacks in ("all", "python")]


@pytest.fixture(
    scope="module",
    params=[*CASES, *(pytest.param(case, marks=pytest.mark.long) for case in LONG)],
    ids=lambda case: f"{case[0]}-{case[1]}",
)
def both(request, gpumem, tmp_path_factory):
    """One run, as gpumem recorded it and as PyTorch did."""
    seed, stacks = request.param
    folder = tmp_path_factory.mktemp("same")
    program = folder / "train.py"
    program.write_text(subprocess.run([sys.executable, MAKER, str(seed)], capture_output=True, text=True, check=True).stdout)
    ours, theirs = folder / "run.gpumem", folder / "run.pickle"
    env = {name: value for name, value in os.environ.items() if name != "GPUMEM_NO_RECORD"}
    run_process([gpumem, "run", "--sim", "-o", ours, "--", PYTHON, program, theirs, stacks], env=env, timeout=600).check()
    return SimpleNamespace(ours=ours, theirs=theirs, program=program, stacks=stacks)


def events_of(run_gpumem, path):
    """The device's events while PyTorch recorded, which ended with the snapshot."""
    events = run_gpumem("events", path, "--json").check().json_lines()
    return [one for one in events if one["device_type"] == "cuda" and one["action"] != "snapshot"]


def site(event, program):
    """The program's own innermost line: a snapshot has a function's plain name."""
    for one in event["python"]:
        if one["file"] == str(program):
            return one["line"], one["function"].rpartition(".")[2]
    return None


def test_events_have_the_same_steps_and_phases_and_allocations_the_same_sites(both, run_gpumem):
    ours, theirs = (events_of(run_gpumem, path) for path in (both.ours, both.theirs))
    assert len(theirs) > 100
    key = ("action", "address", "size", "step", "phase")
    told = [[tuple(one[k] for k in key) for one in events[: len(theirs)]] for events in (ours, theirs)]
    differ = [(number, *pair) for number, pair in enumerate(zip(*told)) if pair[0] != pair[1]]
    assert not differ, differ[:5]
    sites = [[site(one, both.program) for one in events[: len(theirs)] if one["action"] == "alloc"] for events in (ours, theirs)]
    differ = [(number, *pair) for number, pair in enumerate(zip(*sites)) if pair[0] != pair[1]]
    assert not differ, differ[:5]


def test_both_have_the_same_steps_and_loop(both, run_gpumem):
    ours, theirs = (run_gpumem("info", path, "--json").check().json() for path in (both.ours, both.theirs))
    assert theirs["steps"] == ours["steps"] >= 3
    assert theirs["complete"], theirs["gaps"]


def categories(block, stacks):
    """What a snapshot may say of the block: without native stacks autocast's copies of weights cannot be told from activations
    (docs/truth.md), or, where the forward pass itself frees them, as on PyTorch 2.13, from what it needs for a moment."""
    if stacks == "python" and block["category_reason"].startswith("autocast converted a parameter"):
        return {"activation", "temporary"}
    return {block["category"]}


def test_the_peak_is_the_same_by_line_category_and_phase(both, run_gpumem):
    ours, theirs = (run_gpumem("peak", path, "--json").check().json() for path in (both.ours, both.theirs))
    assert theirs["allocated"] == ours["allocated"]
    assert theirs["by_phase"] == ours["by_phase"]
    if both.stacks == "all":
        assert theirs["by_category"] == ours["by_category"]

    def lines(answer):
        """Of each line; the functions on it have other names without their classes."""
        sums = {}
        for one in answer["groups"]:
            at = sums.setdefault(one["key"].partition(" in ")[0], [0, 0])
            at[0] += one["bytes"]
            at[1] += one["blocks"]
        return sums

    assert lines(theirs) == lines(ours)


def test_every_block_at_the_peak_has_the_same_category(both, run_gpumem):
    ours, theirs = (run_gpumem("blocks", path, "--at-peak", "--json").check().json()["blocks"] for path in (both.ours, both.theirs))
    by_address = {one["address"]: one for one in ours}
    assert len(theirs) == len(ours) and {one["address"] for one in theirs} == set(by_address)
    pairs = [(one, by_address[one["address"]]) for one in theirs]
    differ = [pair for pair in pairs if any(pair[0][key] != pair[1][key] for key in ("size", "step"))
              or pair[0]["category"] not in categories(pair[1], both.stacks)]  # fmt: skip
    assert not differ, differ[:5]
