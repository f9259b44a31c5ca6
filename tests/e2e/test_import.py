"""What a snapshot says is what gpumem's events say, whoever wrote it and in what form: pickles of every protocol and
both picklers, JSON, entries of every shape. The other side of each comparison is the data itself."""

import io
import json
import pickle
import random
import subprocess

import pytest

from conftest import EXAMPLES, PYTHON

KNOWN = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
         "oom", "snapshot"}  # fmt: skip
FRAMES = [{"filename": f"/srv/müller/train_{i}.py", "line": i + 1, "name": f"step_{i}"} for i in range(40)]
WIDTHS = [0, 1, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) + 5, (1 << 47) - 4096]


def entries(count, seed=1, first=1 << 46, **more):
    """A trace of allocations and frees, whose lists of frames are shared as in PyTorch's traces."""
    chance = random.Random(seed)
    trace, live = [], {}
    for number in range(count):
        time = {"time_us": (1 << 50) + number}
        if live and chance.random() < 0.5:
            address = chance.choice(list(live))
            size, stream = live.pop(address)
            stack = FRAMES[: chance.randrange(4)]
            for action in ("free_requested", "free_completed"):
                trace.append({"action": action, "addr": address, "size": size, "stream": stream, **time,
                              **more, "frames": stack})  # fmt: skip
        else:
            address = first + 4096 * number
            live[address] = size, stream = chance.choice(WIDTHS), chance.choice([0, 0, 7, (1 << 47) + 16])
            stack = chance.sample(FRAMES, chance.choice([1, 2, 2, 30]))
            trace.append({"action": "alloc", "addr": address, "size": size, "stream": stream, **time,
                          "compile_context": "N/A", "user_metadata": "", **more, "frames": stack})  # fmt: skip
    return trace


def as_told(trace, device=0):
    """The expected events of a trace."""
    known = [entry for entry in trace if entry["action"] in KNOWN]
    return [
        (entry["action"], 0 if entry["action"] == "oom" else entry["addr"], entry["size"], entry.get("stream", 0),
         entry.get("time_us", 0), device,
         tuple((f["filename"], f["line"], f["name"]) for f in entry.get("frames") or []))
        for entry in known
    ]  # fmt: skip


def as_read(run_gpumem, path):
    return [
        (one["action"], int(one["address"], 16), one["requested"] or 0, one["stream"], one["time_us"], one["device"],
         tuple((f["file"], f["line"], f["function"]) for f in one["python"]))
        for one in run_gpumem("events", path, "--json").check().json_lines() if not one["preexisting"]
    ]  # fmt: skip


def snapshot(*traces, **more):
    return {"segments": [], "device_traces": list(traces), **more}


def pickled(data, protocol=4, pickler=pickle.Pickler, fast=False):
    file = io.BytesIO()
    writer = pickler(file, protocol)
    writer.fast = fast
    writer.dump(data)
    return file.getvalue()


FORMS = {
    **{f"protocol {n}": lambda data, n=n: pickled(data, n) for n in (2, 3, 4, 5)},
    **{f"protocol {n}, Python's": lambda data, n=n: pickled(data, n, pickle._Pickler) for n in (2, 3, 4, 5)},
    "without a memo": lambda data: pickled(data, fast=True),
    "JSON": lambda data: json.dumps(data).encode(),
    "JSON in UTF-8, indented": lambda data: ("\n " + json.dumps(data, ensure_ascii=False, indent=2) + "\n").encode(),
}


def write(tmp_path, data):
    path = tmp_path / "made.snapshot"
    path.write_bytes(data if isinstance(data, bytes) else pickle.dumps(data))
    return path


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_as_the_same_data(form, run_gpumem, tmp_path):
    trace = entries(700)
    path = write(tmp_path, FORMS[form](snapshot(trace, allocator_settings={"a": [1.5, None, True, "x"]})))
    assert as_read(run_gpumem, path) == as_told(trace)


MORE = {
    "pool ids": {"pool_id": (0, 3)},
    "text that differs": None,
    "numbers, nothing and truth": {"a": 1 << 70, "b": -5, "c": None, "d": True, "e": 2.5},
    "lists and dictionaries": {"list": [1, [2]], "dict": {"k": {"action": "alloc"}}},
    "bytes and sets, not in protocol 2": {"bytes": b"bytes", "set": frozenset([1]), "more": {1, 2}},
    "strings of frames": {"forward_frames": ["one.py:1:f\n", "two.py:2:g\n"]},
    "a long string": {"text": "x" * 70000},
}


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("protocol", [2, 4])
def test_keys_that_are_newer_than_gpumem_change_nothing(more, protocol, run_gpumem, tmp_path):
    trace = entries(300)
    protocol = 4 if "not in protocol 2" in more else protocol
    for number, entry in enumerate(trace):
        entry.update(MORE[more] or {"user_metadata": f"step {number}", "new": "a" if number % 3 else number})
    assert as_read(run_gpumem, write(tmp_path, pickled(snapshot(trace), protocol))) == as_told(trace)


def test_entries_of_all_shapes_in_one_trace(run_gpumem, tmp_path):
    chance = random.Random(4)
    trace = entries(400)
    for number, entry in enumerate(trace):
        keys = list(entry)
        if number % 7 == 0:
            chance.shuffle(keys)
        if number % 11 == 0:
            keys.remove("time_us")
            entry["time_us"] = 0
        if number % 13 == 0:
            keys.remove("frames")
            entry["frames"] = []
        trace[number] = {key: entry[key] for key in keys}
    trace.insert(5, {"action": "oom", "device_free": 77, "size": 1 << 40, "stream": 0, "frames": FRAMES[:3]})
    trace.insert(6, {"action": "made_up_later", "addr": 1, "size": 2, "stream": 3})
    trace.insert(9, {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "frames": []})
    trace.append({"action": "alloc", "addr": (1 << 64) - 512, "size": 5, "stream": (1 << 63) - 1, "frames": FRAMES * 70})
    for protocol in (2, 4):
        path = write(tmp_path, pickled(snapshot(trace), protocol))
        assert as_read(run_gpumem, path) == as_told(trace)
    assert "1 entries have an unknown action" in run_gpumem("info", path).check().out


def test_an_entry_that_appears_twice_is_two_events(run_gpumem, tmp_path):
    trace = entries(50)
    again = [*trace[:20], trace[3], *trace[20:], trace[4]]
    path = write(tmp_path, snapshot(again, [trace[0], trace[7]]))
    read = as_read(run_gpumem, path)
    assert [one for one in read if one[5] == 0] == as_told(again)
    assert [one for one in read if one[5] == 1] == as_told([trace[0], trace[7]], 1)


@pytest.mark.parametrize("behind", [pickle.dumps({}), b"junk"], ids=["pickle", "junk"])
def test_what_follows_the_snapshot_in_its_file_is_told(behind, run_gpumem, tmp_path):
    whole = pickle.dumps(snapshot(entries(20)))
    before = run_gpumem("info", write(tmp_path, whole), "--json").check().json()["gaps"]
    after = run_gpumem("info", write(tmp_path, whole + behind), "--json").check().json()
    text = f"{len(behind)} bytes follow the snapshot in its file and were not read, from offset {len(whole)} on: a second snapshot?"
    assert [gap for gap in after["gaps"] if gap not in before] == [text] and not after["complete"]


def test_traces_of_several_devices_are_merged_by_time(run_gpumem, tmp_path):
    traces = [entries(200, seed, first=seed << 44) for seed in (1, 2, 3)]
    path = write(tmp_path, snapshot(traces[0], [], traces[1], traces[2]))
    read = as_read(run_gpumem, path)
    assert [one[4] for one in read] == sorted(one[4] for one in read)
    for device, trace in ((0, traces[0]), (2, traces[1]), (3, traces[2])):
        assert [one for one in read if one[5] == device] == as_told(trace, device)


def refused(run_gpumem, path, *words):
    done = run_gpumem("info", path)
    assert done.status == 3, done.out + done.err
    for word in (str(path), *words):
        assert word in done.err, done.err


@pytest.mark.parametrize(
    "text, word",
    [('{"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": -1}]]}', "entry"),
     ('{"segments": [], "device_traces": [[{"action": "alloc", "addr": 18446744073709551616}]]}', "entry"),
     ('{"segments": [], "device_traces": []} x', "JSON"), ('{"segments": [,]}', "JSON"), ("[tru]", "JSON"),
     ('{"a": "\\q"}', "JSON"), ('{"a" 1}', "JSON"), ('{1: 2}', "JSON"), ("[" * 5000, "deep"), ("{}", "segments"),
     ('["' + "\x01" + '"]', "JSON"), ('{"traceEvents": []}', "segments")],
)  # fmt: skip
def test_json_that_is_no_snapshot_is_refused(text, word, run_gpumem, tmp_path):
    refused(run_gpumem, write(tmp_path, text.encode()), word)


def test_json_strings_may_be_escaped(run_gpumem, tmp_path):
    frame = {"filename": 'a\\b"\n\té😀\ud83d.py', "line": 3, "name": "f"}
    trace = [{"action": "alloc", "addr": 4096, "size": 5, "stream": 0, "frames": [frame]}]
    path = write(tmp_path, json.dumps(snapshot(trace)).encode())
    assert as_read(run_gpumem, path)[0][6][0][0] == 'a\\b"\n\té😀?.py'


def test_numbers_that_only_python_writes_are_read_over(run_gpumem, tmp_path):
    text = json.dumps({**snapshot(entries(2)), "allocator_settings": {"a": float("nan"), "b": [float("inf"), -float("inf")]}})
    assert "-Infinity" in text
    assert run_gpumem("info", write(tmp_path, text.encode()), "--json").check().json()["events"] == 2


def test_every_cut_of_json_is_refused_and_no_mutation_does_harm(gpumem, run_gpumem, tmp_path):
    whole = json.dumps(snapshot(entries(8))).encode()
    chance = random.Random(3)
    for length in range(0, len(whole), 23):
        refused(run_gpumem, write(tmp_path, whole[:length]))
    for _ in range(60):
        mutant = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            mutant[chance.randrange(len(mutant))] = chance.choice(b'"{}[]:,-0919.eE\\u\0\xff')
        done = subprocess.run([gpumem, "info", write(tmp_path, bytes(mutant))], capture_output=True, timeout=600)
        assert done.returncode in (0, 3), done


def test_a_memo_that_is_used_twice_is_followed(run_gpumem, tmp_path):
    """BINPUT may give a number another meaning; no pickler does."""
    trace = entries(60)
    data = bytearray(pickled(snapshot(trace), 2))
    assert as_read(run_gpumem, write(tmp_path, bytes(data))) == as_told(trace)
    # a value that is discarded, under the number of the first key
    assert data[2:3] == b"}"
    again = data[:-1] + b"X\x01\x00\x00\x00zq\x01" + b"0."
    assert as_read(run_gpumem, write(tmp_path, bytes(again))) == as_told(trace)


@pytest.mark.parametrize("form", ["protocol 2", "protocol 4", "protocol 3, Python's", "without a memo", "JSON"])
def test_annotations_are_ranges_and_metadata_is_shown(form, run_gpumem, tmp_path):
    trace = entries(300)
    start = 1 << 50
    for number, entry in enumerate(trace):
        entry["user_metadata"] = f"batch {number // 20}" if number % 50 < 35 else ""
    ranges = [("ProfilerStep#0", 0, 199), ("forward", 3, 90), ("inner", 5, 5), ("backward", 91, 180),
              ("ProfilerStep#1", 200, 400), ("outer", 210, 390), ("never ends", 220, None)]  # fmt: skip
    told = []
    for name, first, last in ranges:
        told.append({"stage": "START", "name": name, "device": 0, "time_us": start + first})
        if last is not None:
            told.append({"stage": "END", "name": name, "device": 0, "time_us": start + last})
    told.append({"stage": "END", "name": "began before", "device": 0, "time_us": start + 2})
    told.append({"stage": "START", "name": 5, "time_us": "x"})
    told.append("nothing")
    random.Random(2).shuffle(told)
    path = write(tmp_path, FORMS[form](snapshot(trace, external_annotations=told)))
    assert as_read(run_gpumem, path) == as_told(trace)
    for event, entry in zip(run_gpumem("events", path, "--json").check().json_lines(), trace):
        time = entry["time_us"] - start
        open_ranges = [name for name, first, last in ranges if first <= time and (last is None or time <= last)]
        if time > 390:
            open_ranges = open_ranges[:1]  # `outer` ended, and what had not ended within it
        assert event["marks"] == ([] if time > 400 else open_ranges), event
        assert event["metadata"] == (entry["user_metadata"] or None), event
        assert event["step"] == (None if time < 0 else 1 if time < 200 else 2)


def test_the_annotations_of_pytorchs_recorder(sim_env, run, run_gpumem, tmp_path):
    out = tmp_path / "annotated.pickle"
    program = EXAMPLES.parent / "tests" / "e2e" / "programs" / "annotated.py"
    run([PYTHON, program, out], env=sim_env()).check()
    events = run_gpumem("events", out, "--json").check().json_lines()
    assert run_gpumem("info", out, "--json").check().json()["steps"] == 3
    assert {tuple(one["marks"]) for one in events if one["metadata"]} == {
        (f"ProfilerStep#{n}", "forward") for n in range(3)
    }
    for n in range(3):
        inside = [one for one in events if one["marks"][:1] == [f"ProfilerStep#{n}"]]
        assert inside and {one["step"] for one in inside} == {n + 1}
        assert {one["metadata"] for one in inside} == {None, f"batch {n}"}
        assert {one["phase"] for one in inside if "backward" in one["marks"]} == {"backward"}


def test_an_exported_snapshot_is_read_as_the_same_data(run_gpumem, tmp_path):
    trace = entries(200)
    for number, entry in enumerate(trace):
        entry["user_metadata"] = f"batch {number // 20}"
        entry["size"] = entry["size"] or 1  # of nothing asked for an export says the block's size
    trace.insert(100, {"action": "oom", "device_free": 12345, "size": 1 << 40, "stream": 0,
                       "time_us": trace[100]["time_us"], "user_metadata": "batch 5", "frames": FRAMES[:3]})  # fmt: skip
    said = [{"stage": stage, "name": name, "device": 0, "time_us": (1 << 50) + time} for stage, name, time in
            [("START", "a", 3), ("START", "b", 10), ("END", "b", 40), ("END", "a", 90), ("START", "c", 95)]]  # fmt: skip
    path, again = write(tmp_path, snapshot(trace, external_annotations=said)), tmp_path / "again.pickle"
    run_gpumem("export", path, "--to", "pytorch", "-o", again).check()
    before, after = (run_gpumem("events", one, "--json").check().json_lines() for one in (path, again))
    told = ("action", "address", "requested", "stream", "time_us", "marks", "metadata", "step", "phase", "python")
    assert [[one[key] for key in told] for one in before] == [[one[key] for key in told] for one in after]
    exported = pickle.loads(again.read_bytes())
    assert [one.get("device_free") for one in exported["device_traces"][0] if one["action"] == "oom"] == [12345]
    assert [one["name"] for one in exported["external_annotations"]] == ["a", "b", "b", "a", "c"]


def test_other_keys_next_to_device_traces_are_ignored(run_gpumem, tmp_path):
    # after torch 2.11, whose recorder writes none of these: a ring that has overflowed says so in the settings; records of
    # pinned host memory, in a form made up here
    trace = entries(300)
    more = {
        "allocator_settings": {"trace_alloc_overflowed": True, "trace_alloc_max_entries": 300},
        "host_segments": [{"address": 1 << 40, "total_size": 4096, "blocks": []}],
        "host_traces": [[{"action": "alloc", "addr": 1 << 40, "size": 4096, "time_us": 5}]],
        "version": (3, 1),
    }
    for order in (lambda data: data, lambda data: dict(reversed(data.items()))):
        for data in (pickled(order(snapshot(trace, **more))), json.dumps(order(snapshot(trace, **more))).encode()):
            assert as_read(run_gpumem, write(tmp_path, data)) == as_told(trace)


FX = """
import pickle, sys, torch
import torch.fx.experimental._config as config
config.enrich_profiler_metadata = True
net = torch.nn.Sequential(torch.nn.Linear(500, 700), torch.nn.ReLU(), torch.nn.Linear(700, 10)).cuda()
traced = torch.fx.symbolic_trace(net)
torch.cuda.memory._record_memory_history(stacks="python")
out = traced(torch.ones(64, 500, device="cuda"))
for path, with_fx in ((sys.argv[1], False), (sys.argv[2], True)):
    torch.cuda.memory._dump_snapshot(path, augment_with_fx_traces=with_fx)
"""


def test_frames_with_fx_nodes_from_pytorch(sim_env, run, run_gpumem, tmp_path):
    plain, told = tmp_path / "plain.pickle", tmp_path / "told.pickle"
    run([PYTHON, "-c", FX, plain, told], env=sim_env()).check()
    data = pickle.loads(told.read_bytes())
    keys = {key for entry in data["device_traces"][0] for frame in entry.get("frames", []) for key in frame}
    assert {"fx_node_op", "fx_node_name", "fx_node_target"} <= keys
    assert as_read(run_gpumem, told) == as_told(data["device_traces"][0])
    before, after = (run_gpumem("blocks", path, "--json").check().json() for path in (plain, told))
    assert before["by_category"] == after["by_category"] and before["allocated"] == after["allocated"]
