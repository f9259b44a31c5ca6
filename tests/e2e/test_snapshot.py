"""PyTorch's snapshots are read like recordings: totals equal PyTorch's own, and no input does harm."""

import gzip
import io
import json
import pickle
import random
import subprocess
from pathlib import Path

import pytest

from conftest import EXAMPLES, KEEP_WORKSPACES, PYTHON

PROGRAM = Path(__file__).parent / "programs" / "dump_snapshot.py"
CASES = {
    "linear_loop": ("linear_loop.py", "python", 100000),
    "train_mlp": ("train_mlp.py", "python", 100000),
    "train_mlp all": ("train_mlp.py", "all", 100000),
    "train_mlp ring": ("train_mlp.py", "python", 20),
    "train_mlp expandable": ("train_mlp.py", "python", 100000),
}


def make(case, out, sim_env, run):
    example, stacks, entries = CASES[case]
    env = {**sim_env(), **KEEP_WORKSPACES}
    if "expandable" in case:
        env["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    run([PYTHON, PROGRAM, EXAMPLES / example, out, stacks, entries], env=env).check()
    return out, pickle.loads(out.read_bytes()), json.loads(Path(f"{out}.json").read_text())


@pytest.fixture(scope="module", params=[pytest.param(case, marks=[pytest.mark.long] * (case in ("train_mlp", "train_mlp expandable"))) for case in CASES])
def snapshot(request, sim_env, run, tmp_path_factory):
    if request.param == "linear_loop":
        return request.param, *request.getfixturevalue("small")
    out = tmp_path_factory.mktemp("snapshot") / "snapshot.pickle"
    return request.param, *make(request.param, out, sim_env, run)


@pytest.fixture(scope="module")
def small(sim_env, run, tmp_path_factory):
    return make("linear_loop", tmp_path_factory.mktemp("small") / "s.pickle", sim_env, run)


def of_device(run_gpumem, path, index=0):
    devices = run_gpumem("info", path, "--json").check().json()["devices"]
    return next(device for device in devices if device["device"] == index)


def replayed_peak(trace):
    """The maximum of the requested bytes in blocks whose free is not completed."""
    live, now, peak = {}, 0, 0
    for entry in trace:
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry["size"]
            now += entry["size"]
        elif entry["action"] == "free_completed":
            now -= live.pop(entry["addr"])
        peak = max(peak, now)
    return peak


def test_totals_are_torchs_own(snapshot, run_gpumem):
    name, path, data, stats = snapshot
    device = of_device(run_gpumem, path)
    segments = data["segments"]
    assert device["allocated"] == sum(one["allocated_size"] for one in segments) > 0
    assert device["allocated"] == stats["allocated_bytes.all.current"]
    assert device["active"] == sum(one["active_size"] for one in segments)
    assert device["requested"] == sum(one["requested_size"] for one in segments)
    assert device["reserved"] == sum(one["total_size"] for one in segments)
    if "ring" not in name:
        assert device["peak_allocated"] == stats["allocated_bytes.all.peak"]
        assert device["peak_reserved"] == stats["reserved_bytes.all.peak"]
        assert device["peak_requested"] == replayed_peak(data["device_traces"][0])


def test_a_whole_trace_is_complete_and_a_ring_that_lost_its_start_is_not(snapshot, run_gpumem):
    name, path, _, _ = snapshot
    info = run_gpumem("info", path, "--json").check().json()
    assert info["complete"] is ("ring" not in name), info["gaps"]
    if "ring" in name:
        assert "older than the trace" in info["gaps"][0]


def test_events_are_the_traces(snapshot, run_gpumem):
    name, path, data, _ = snapshot
    events = run_gpumem("events", path, "--json").check().json_lines()
    trace = data["device_traces"][0]
    ours = [(one["action"], int(one["address"], 16), one.get("requested") or one["size"]) for one in events]
    theirs = [(one["action"], one["addr"], one["size"]) for one in trace]
    assert ours[-len(theirs) :] == theirs
    assert len(ours) == len(theirs) or "ring" in name
    assert [one["time_us"] for one in events][-len(theirs) :] == [one["time_us"] for one in trace]


def test_blocks_and_peak_name_the_programs_lines(snapshot, run_gpumem):
    name, path, _, _ = snapshot
    for command in ("peak", "blocks"):
        out = run_gpumem(command, path).check().out
        if "ring" not in name:
            assert CASES[name][0] in out, out


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("pickler", [pickle.Pickler, pickle._Pickler])
def test_protocols_2_to_5_say_the_same(protocol, pickler, small, run_gpumem, tmp_path):
    path, data, _ = small
    file = io.BytesIO()
    pickler(file, protocol).dump(data)
    again = tmp_path / "again.pickle"
    again.write_bytes(file.getvalue())
    theirs = run_gpumem("events", path, "--json").check().out
    assert run_gpumem("events", again, "--json").check().out == theirs


def test_a_free_does_not_have_its_allocations_stack(small, sim_env, run, run_gpumem, tmp_path):
    """With context="alloc" PyTorch writes the allocation's frames into the free's entry."""
    out = tmp_path / "alloc.pickle"
    env = {**sim_env(), **KEEP_WORKSPACES}  # as make() has it
    run([PYTHON, PROGRAM, EXAMPLES / "linear_loop.py", out, "python", "100000", "alloc"], env=env).check()
    entries = pickle.loads(out.read_bytes())["device_traces"][0]
    assert any(entry["action"] == "free_requested" and entry["frames"] for entry in entries)
    events = run_gpumem("events", out, "--json").check().json_lines()
    assert not any(event["python"] for event in events if event["action"].startswith("free"))
    whole = run_gpumem("events", small[0], "--json").check().json_lines()
    assert [(one["python"], one["step"]) for one in events if one["action"] == "alloc"] == [
        (one["python"], one["step"]) for one in whole if one["action"] == "alloc"
    ]
    ours, theirs = (run_gpumem("steps", path, "--json").check().json()["steps"] for path in (out, small[0]))
    assert [step["peak"] for step in ours] == [step["peak"] for step in theirs] and len(ours) == 3


BIG = (1 << 63) + 4096


def segment(**keys):
    blocks = [
        {"size": 1024, "requested_size": 1000, "state": "active_allocated"},
        {"size": 512, "requested_size": 512, "state": "active_pending_free"},
        {"size": 2097152 - 1536, "requested_size": 0, "state": "inactive"},
    ]
    default = {"device": 0, "address": BIG, "total_size": 2097152, "stream": 0, "blocks": blocks}
    return {**default, **keys}


def write(tmp_path, data, protocol=4):
    path = tmp_path / "made.pickle"
    path.write_bytes(data if isinstance(data, bytes) else pickle.dumps(data, protocol))
    return path


def test_old_list_of_segments_with_history_and_without_addresses(run_gpumem, tmp_path):
    old = segment()
    frames = [{"filename": "old.py", "line": 7, "name": "main"}]
    old["blocks"][0] = {
        "size": 1024, "state": "active_allocated",
        "history": [{"addr": BIG, "real_size": 1000, "frames": frames}],
    }  # fmt: skip
    path = write(tmp_path, [old])
    device = of_device(run_gpumem, path)
    assert (device["allocated"], device["active"], device["requested"]) == (1024, 1536, 1512)
    assert device["reserved"] == 2097152
    events = run_gpumem("events", path, "--json").check().json_lines()
    assert sorted(int(one["address"], 16) for one in events if one["action"] == "alloc") == [BIG, BIG + 1024]
    assert "old.py:7" in run_gpumem("blocks", path).check().out


def test_free_without_alloc_two_devices_and_entries_without_time(run_gpumem, tmp_path):
    traces = [
        [{"action": "free_requested", "addr": 4096, "size": 700, "stream": 0},
         {"action": "free_completed", "addr": 4096, "size": 700, "stream": 0},
         {"action": "oom", "device_free": 5, "size": 1 << 40, "stream": 0}],
        [{"action": "alloc", "addr": 4096, "size": 100, "stream": 3, "pool_id": (0, 1)}],
    ]  # fmt: skip
    path = write(tmp_path, {"segments": [], "device_traces": traces})
    first, second = (of_device(run_gpumem, path, index) for index in (0, 1))
    assert (first["allocated"], first["peak_allocated"], first["ooms"]) == (0, 1024, 1)
    assert (second["allocated"], second["requested"]) == (512, 100)


def refused(run_gpumem, path, *words):
    run = run_gpumem("info", path)
    assert run.status == 3, run.out + run.err
    for word in (str(path), *words):
        assert word in run.err, run.err


class Harm:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_code_is_refused_by_name_and_not_run(protocol, run_gpumem, tmp_path):
    marker = tmp_path / "marker"
    path = write(tmp_path, {"segments": [], "device_traces": Harm(marker)}, protocol)
    refused(run_gpumem, path, "GLOBAL", "at byte")
    assert not marker.exists()


@pytest.mark.parametrize(
    "code, name",
    [(b"N)R.", "REDUCE"), (b"Nb.", "BUILD"), (b"(ios\nsystem\n.", "INST"), (b"(o.", "OBJ"), (b"N)\x81.", "NEWOBJ"),
     (b"Px\n.", "PERSID"), (b"NQ.", "BINPERSID"), (b"\x82\x01.", "EXT1"), (b"cos\nsystem\n.", "GLOBAL")],
)  # fmt: skip
def test_opcodes_that_execute_are_refused(code, name, run_gpumem, tmp_path):
    refused(run_gpumem, write(tmp_path, b"\x80\x04" + code), name, "at byte")


@pytest.mark.parametrize(
    "trace",
    [{"action": "alloc", "addr": 0, "size": -1}, {"action": "alloc", "addr": 0, "size": 1 << 70},
     {"action": "alloc", "addr": -5, "size": 1}, {"action": "alloc", "addr": "x", "size": 1}],
)  # fmt: skip
def test_impossible_sizes_are_refused(trace, run_gpumem, tmp_path):
    refused(run_gpumem, write(tmp_path, {"segments": [], "device_traces": [[trace]]}), "entry")


def test_unknown_device_and_shared_traces_are_refused(run_gpumem, tmp_path):
    refused(run_gpumem, write(tmp_path, [segment(device=1 << 40)]), "device")
    refused(run_gpumem, write(tmp_path, [segment(device=-1)]), "device")
    trace = [{"action": "alloc", "addr": 0, "size": 1}]
    refused(run_gpumem, write(tmp_path, {"segments": [], "device_traces": [trace] * 9}), "several places")


def test_billion_laughs_cost_nothing(run_gpumem, tmp_path):
    """A reader that visits each element would not end: there are 10 to the power of 200."""
    laughs = []
    for _ in range(200):
        laughs = [laughs] * 10
    path = write(tmp_path, {"segments": [segment()], "device_traces": [[]], "external_annotations": laughs})
    assert of_device(run_gpumem, path)["allocated"] == 1024
    refused(run_gpumem, write(tmp_path, {"segments": [], "device_traces": laughs}))


def test_what_is_no_snapshot_is_refused(run_gpumem, tmp_path, small):
    refused(run_gpumem, write(tmp_path, b""))
    refused(run_gpumem, write(tmp_path, gzip.compress(small[0].read_bytes())))
    refused(run_gpumem, tmp_path)
    refused(run_gpumem, write(tmp_path, {"some": "thing"}), "segments")
    refused(run_gpumem, write(tmp_path, b"\x80\x09."), "protocol 9")
    refused(run_gpumem, write(tmp_path, b"\x80\x04" + b"(" * 100000), "deep")
    refused(run_gpumem, write(tmp_path, b"\x80\x04B\xff\xff\xff\xff"), "length")


def test_every_truncation_is_refused(run_gpumem, tmp_path):
    whole = pickle.dumps({"segments": [segment()], "device_traces": [[]]})
    for length in range(len(whole)):
        refused(run_gpumem, write(tmp_path, whole[:length]))


def test_mutations_do_no_harm(gpumem, small, tmp_path):
    whole = small[0].read_bytes()
    numbers = random.Random(7)
    for _ in range(300):
        mutant = bytearray(whole)
        for _ in range(numbers.randint(1, 8)):
            mutant[numbers.randrange(len(mutant))] = numbers.randrange(256)
        run = subprocess.run(
            [gpumem, "info", write(tmp_path, bytes(mutant))], capture_output=True, timeout=600, check=False
        )
        assert run.returncode in (0, 3), run
