"""Snapshots of ten programs against a replay of our own in Python, and against what PyTorch counted at many moments of
the run: info, blocks --at and peak, to the byte."""

import json
import pickle
import random
from pathlib import Path

import pytest

from conftest import PYTHON

PROGRAM = Path(__file__).parent / "programs" / "moments.py"
ONE_DEVICE = [
    "mlp", "transformer_autocast", "convolutions", "recurrent", "checkpointed", "private_pools", "side_streams",
    "random_sizes", "decoding",
]  # fmt: skip
EXPANDABLE = ["random_sizes", "transformer_autocast"]
CASES = [*ONE_DEVICE, "two_devices two", *(f"{name} expandable" for name in EXPANDABLE)]
# These allocate as the others do: many blocks of few sizes.
LONG = ["mlp", "transformer_autocast", "convolutions", "recurrent", "checkpointed", "decoding", "transformer_autocast expandable"]
RANDOM_EVENTS = 50


class Replay:
    """Who is allocated after each entry of one device's trace: {address: requested bytes}."""

    def __init__(self, trace):
        self.states, live = [], {}
        for entry in trace:
            if entry["action"] == "alloc":
                live[entry["addr"]] = entry["size"]
            elif entry["action"] == "free_requested":
                del live[entry["addr"]]
            self.states.append(dict(live))


@pytest.fixture(scope="module")
def folders(request, sim_env, run, tmp_path_factory):
    """The programs' snapshots by their settings."""
    left_out = [] if request.config.getoption("--long") else LONG

    def make(settings, *names, profile="h100-80gb", **env):
        names = [name for name in names if f"{name} {settings}".removesuffix(" plain") not in left_out]
        folder = tmp_path_factory.mktemp(settings)
        run([PYTHON, PROGRAM, folder, *names], env={**sim_env(profile), **env}).check()
        return folder

    return {
        "": make("plain", *ONE_DEVICE),
        "two": make("two", "two_devices", profile="h100-80gbx2"),
        "expandable": make("expandable", *EXPANDABLE, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"),
    }


@pytest.fixture(scope="module", params=[pytest.param(case, marks=[pytest.mark.long] * (case in LONG)) for case in CASES])
def dumped(request, folders, run_gpumem):
    name, _, settings = request.param.partition(" ")
    out = folders[settings] / f"{name}.pickle"
    data = pickle.loads(out.read_bytes())
    traces = [[entry for entry in trace if entry["action"] != "snapshot"] for trace in data["device_traces"]]
    numbers = [[] for _ in traces]  # of gpumem's events, by device, in the order of its trace
    for event in run_gpumem("events", out, "--json").check().json_lines():
        if event["action"] != "snapshot":
            numbers[event["device"]].append(event["n"])
    assert [len(trace) for trace in traces] == [len(one) for one in numbers]
    return out, data, traces, numbers, json.loads(out.with_suffix(".json").read_text())


def blocks(run_gpumem, path, device, *options):
    return run_gpumem("blocks", path, "--device", str(device), "--json", *options).check().json()


def test_bytes_and_blocks_at_each_event_are_those_that_pytorch_counted(dumped, run_gpumem):
    path, _, _, numbers, moments = dumped
    told = [one for one in moments if one["entries"]]
    assert len(told) >= 4
    for moment in random.Random(str(path.name)).sample(told, min(len(told), 25)):
        event = numbers[moment["device"]][moment["entries"] - 1]
        answer = blocks(run_gpumem, path, moment["device"], "--at", str(event))
        assert answer["allocated"] == moment["allocated"], moment
        assert len(answer["blocks"]) == moment["blocks"], moment


def test_blocks_at_random_events_are_those_of_an_independent_replay(dumped, run_gpumem):
    path, _, traces, numbers, _ = dumped
    assert any(traces)
    for device, trace in enumerate(traces):
        if not trace:
            continue
        replay = Replay(trace)
        chosen = random.Random(device).sample(range(len(trace)), min(len(trace), RANDOM_EVENTS))
        for index in chosen:
            answer = blocks(run_gpumem, path, device, "--at", str(numbers[device][index]))
            theirs = {int(one["address"], 16): one["requested"] for one in answer["blocks"]}
            assert theirs == replay.states[index], f"device {device}, entry {index}"
            assert sum(one["size"] for one in answer["blocks"]) == answer["allocated"]
            assert sum(group["bytes"] for group in answer["groups"]) == answer["allocated"]


def test_info_and_peak_are_those_of_the_replay(dumped, run_gpumem):
    path, data, traces, numbers, moments = dumped
    info = {one["device"]: one for one in run_gpumem("info", path, "--json").check().json()["devices"]}
    for device, trace in enumerate(traces):
        if not trace:
            continue
        segments = [one for one in data["segments"] if one["device"] == device]
        assert info[device]["allocated"] == sum(one["allocated_size"] for one in segments)
        assert info[device]["reserved"] == sum(one["total_size"] for one in segments)
        assert info[device]["events"] == len(data["device_traces"][device])
        top = run_gpumem("peak", path, "--device", str(device), "--json").check().json()
        assert top["allocated"] == info[device]["peak_allocated"]
        assert top["allocated"] >= max(one["allocated"] for one in moments if one["device"] == device)
        # the sizes of blocks are ours, the choice of the moment is not: no other moment has more
        index = numbers[device].index(top["event"])
        at = {int(one["address"], 16): one["requested"] for one in
              blocks(run_gpumem, path, device, "--at-peak")["blocks"]}  # fmt: skip
        assert at == Replay(trace).states[index]


def test_a_device_that_is_not_there_is_refused(dumped, run_gpumem):
    assert "no such device" in run_gpumem("peak", dumped[0], "--device", "7").check(2).err
