"""What gpumem recorded of a run is what PyTorch itself recorded of that run."""

import json
from types import SimpleNamespace

import pytest

from conftest import EXAMPLES, ROOT

PROGRAM = ROOT / "tests" / "e2e" / "programs" / "with_snapshot.py"
CASES = {"linear_loop": [], "linear_loop --no-grad": ["--no-grad"], "train_mlp": []}


@pytest.fixture(scope="module", params=[pytest.param(case, marks=[pytest.mark.long] * ("--" in case)) for case in CASES])
def both(request, run_gdb, tmp_path_factory):
    """The same run as PyTorch saw it, and as gpumem did."""
    out = tmp_path_factory.mktemp("pytorch") / "out.json"
    example = EXAMPLES / f"{request.param.split()[0]}.py"
    gdb = run_gdb(
        ["gpumem record", "run", "gpumem events --json", "gpumem info --json", "kill"],
        PROGRAM,
        [example, out, *CASES[request.param]],
    )
    assert "SIGUSR1" in gdb["run"], gdb.out
    pytorch = json.loads(out.read_text())
    return SimpleNamespace(
        name=request.param,
        pytorch=pytorch,
        events=gdb["gpumem events --json"].json_lines(),
        info=gdb["gpumem info --json"].json(),
    )


def test_events_are_pytorchs_own_in_order(both):
    theirs = [(entry["action"], entry["size"]) for entry in both.pytorch["trace"] if entry["action"] != "snapshot"]
    ours = [(event["action"], event.get("requested") or event["size"]) for event in both.events]
    assert len(theirs) > 10
    assert ours == theirs


def test_addresses_are_pytorchs_own(both):
    theirs = [entry["addr"] for entry in both.pytorch["trace"] if "addr" in entry]
    assert [int(event["address"], 16) for event in both.events] == theirs


def test_info_equals_memory_stats_to_the_byte(both):
    stats = both.pytorch["stats"]
    (device,) = both.info["devices"]
    assert device["allocated"] == stats["allocated_bytes.all.current"]
    assert device["reserved"] == stats["reserved_bytes.all.current"]
    assert device["peak_allocated"] == stats["allocated_bytes.all.peak"]
    assert device["peak_requested"] == stats["requested_bytes.all.peak"]
    assert device["peak_reserved"] == stats["reserved_bytes.all.peak"]


def test_recording_is_complete(both):
    """So far: it goes on, so more may come."""
    assert both.info["gaps"] == []
    assert (both.info["closed"], both.info["complete"]) == (False, False)


def test_segments_are_pytorchs_own(both):
    live = {}
    for event in both.events:
        if event["action"] == "segment_alloc":
            live[int(event["address"], 16)] = event["size"]
        elif event["action"] == "segment_free":
            del live[int(event["address"], 16)]
    assert live == {segment["address"]: segment["total_size"] for segment in both.pytorch["segments"]}
