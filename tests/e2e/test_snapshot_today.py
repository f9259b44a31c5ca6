"""What the recorders of torch 2.12 and later write beside allocations and frees: labels, the host's pinned memory, traces
without some kinds of events; and snapshots of other accelerators in the same form."""

import json
import pickle
import random
import subprocess

import pytest

from conftest import PYTHON, ROOT

FRAME = {"filename": "/srv/train.py", "line": 7, "name": "<module>"}


def entry(action, addr, size, time, metadata="", **more):
    """As torch 2.15 writes it."""
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time, "compile_context": "N/A",
            "user_metadata": metadata, "pool_id": (0, 0), "frames": [FRAME], **more}  # fmt: skip


def block(address, size, state="active_allocated", requested=None):
    return {"address": address, "size": size, "requested_size": requested or size, "state": state, "frames": []}


def segment(address, size, blocks, device=0, **more):
    used = sum(one["size"] for one in blocks if one["state"] == "active_allocated")
    return {"device": device, "address": address, "total_size": size, "allocated_size": used, "active_size": used,
            "requested_size": used, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0),
            "is_expandable": False, "frames": [], "blocks": blocks, **more}  # fmt: skip


def snapshot(trace, segments=(), **more):
    return {"segments": list(segments), "device_traces": [trace], "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""},
            "external_annotations": [], "host_segments": [], "host_traces": [], **more}  # fmt: skip


FORMS = {"pickle": pickle.dumps, "protocol 2": lambda data: pickle.dumps(data, 2), "JSON": lambda d: json.dumps(d).encode()}


@pytest.fixture(params=FORMS)
def write(request, tmp_path):
    def to(data, name="made"):
        path = tmp_path / f"{name}.snapshot"
        path.write_bytes(FORMS[request.param](data))
        return path

    return to


def blocks_of(run_gpumem, path, *words):
    return run_gpumem("blocks", path, *words, "--json").check().json()["blocks"]


LABELS = [
    entry("alloc", 0x1000, 1024, 1),
    entry("alloc", 0x2000, 2048, 2, metadata="set_memory_metadata's"),
    entry("annotate", 0x1000, 1024, 3, metadata="the logits"),
    entry("annotate", 0x2000, 2048, 4, metadata="the mask"),
    entry("annotate", 0x1000, 1024, 5, metadata="saved for backward"),
    entry("annotate", 0x1000, 1024, 6, metadata="the logits"),
    entry("annotate", 0x9000, 512, 7, metadata="nobody's"),
    entry("free_requested", 0x2000, 2048, 8),
    entry("free_completed", 0x2000, 2048, 9),
    entry("alloc", 0x2000, 2048, 10),
]


def test_a_label_is_its_blocks_and_of_one_life_alone(write, run_gpumem):
    path = write(snapshot(LABELS))
    assert {one["allocated"]: one["labels"] for one in blocks_of(run_gpumem, path)} == {
        0: ["the logits", "saved for backward"], 9: []}  # fmt: skip
    assert {one["allocated"]: one["labels"] for one in blocks_of(run_gpumem, path, "--at", "6")} == {
        0: ["the logits", "saved for backward"], 1: ["the mask"]}  # fmt: skip
    info = run_gpumem("info", path, "--json").check().json()
    assert info["complete"] and info["devices"][0]["events"] == len(LABELS)
    events = run_gpumem("events", path, "--json").check().json_lines()
    assert [(one["action"], one["metadata"]) for one in events] == [
        (one["action"], one["user_metadata"] or None) for one in LABELS
    ]


def test_labels_are_a_column_and_a_way_to_group(write, run_gpumem):
    path = write(snapshot(LABELS))
    out = run_gpumem("blocks", path).check().out
    assert out.splitlines()[1].split()[-1] == "label"
    assert "the logits, saved for backward" in out
    groups = run_gpumem("peak", path, "--by", "label", "--json").check().json()["groups"]
    assert [(one["key"], one["bytes"]) for one in groups] == [
        ("the mask", 2048), ("the logits, saved for backward", 1024)]  # fmt: skip
    no_labels = write(snapshot([one for one in LABELS if one["action"] != "annotate"]), "none")
    assert "label" not in run_gpumem("blocks", no_labels).check().out
    assert run_gpumem("peak", no_labels, "--by", "label", "--json").check().json()["groups"][0]["key"] == "(no label)"


def test_pinned_host_memory_is_a_device_of_its_own(write, run_gpumem):
    host = [
        entry("segment_alloc", 0x7F0000000000, 4096, 2, compile_context=""),
        entry("alloc", 0x7F0000000000, 4096, 3, compile_context=""),
        entry("segment_alloc", 0x7F0000100000, 64, 5, compile_context=""),
        entry("alloc", 0x7F0000100000, 64, 6, compile_context=""),
        entry("free_requested", 0x7F0000000000, 4096, 7, compile_context=""),
        entry("free_completed", 0x7F0000000000, 4096, 8, compile_context=""),
    ]
    segments = [
        segment(0x7F0000000000, 4096, [block(0x7F0000000000, 4096, "inactive")], -1),
        segment(0x7F0000100000, 64, [block(0x7F0000100000, 64)], -1),
    ]
    device = [entry("segment_alloc", 0x1000, 2 << 20, 1), entry("alloc", 0x1000, 100, 4)]
    data = snapshot(device, [segment(0x1000, 2 << 20, [block(0x1000, 512)])], host_traces=host, host_segments=segments)
    info = run_gpumem("info", write(data), "--json").check().json()
    assert info["complete"], info["gaps"]
    by_type = {one["device_type"]: one for one in info["devices"]}
    assert (by_type["pinned"]["allocated"], by_type["pinned"]["reserved"]) == (64, 4160)
    assert (by_type["pinned"]["peak_allocated"], by_type["pinned"]["events"]) == (4160, 6)
    assert (by_type["cuda"]["allocated"], by_type["cuda"]["reserved"]) == (512, 2 << 20)
    events = run_gpumem("events", write(data), "--json").check().json_lines()
    assert [one["time_us"] for one in events] == list(range(1, 9))
    assert run_gpumem("peak", write(data), "--json").check().json()["allocated"] == 512
    only = snapshot([], host_traces=host, host_segments=segments)
    assert [one["device_type"] for one in run_gpumem("info", write(only), "--json").check().json()["devices"]] == ["pinned"]


@pytest.mark.parametrize("wrong", [[[entry("alloc", 1, 2, 3)]], [1], [{"addr": 1}], "text", [None]])
def test_host_traces_of_another_form_are_left_out_and_reported(wrong, write, run_gpumem):
    path = write(snapshot(LABELS, host_traces=wrong))
    info = run_gpumem("info", path, "--json").check().json()
    assert [one["device_type"] for one in info["devices"]] == ["cuda"]
    assert wrong == "text" or any("host_traces" in gap for gap in info["gaps"])


def a_trace(seed=3, count=200):
    """Blocks that come and go at addresses that are used again and again, and the segment at the end."""
    chance, trace, live = random.Random(seed), [entry("segment_alloc", 0x100000, 1 << 21, 0)], {}
    for time in range(count):
        free = [0x100000 + 4096 * n for n in range(30) if 0x100000 + 4096 * n not in live]
        if live and (not free or chance.random() < 0.5):
            address, size = live.popitem() if chance.random() < 0.5 else (one := next(iter(live)), live.pop(one))
            trace += [entry(f"free_{end}", address, size, time) for end in ("requested", "completed")]
        else:
            live[address := chance.choice(free)] = size = 512 * chance.randrange(1, 9)
            trace.append(entry("alloc", address, size, time))
    return trace, live


@pytest.mark.parametrize("skipped", ["free_completed", "free_requested", "alloc", "segment_alloc", "snapshot"])
def test_a_trace_without_one_kind_of_events_keeps_its_totals(skipped, write, run_gpumem):
    trace, live = a_trace()
    blocks, at = [], 0x100000
    for address, size in sorted(live.items()):
        blocks += [block(at, address - at, "inactive")] * (address > at) + [block(address, size)]
        at = address + size
    blocks.append(block(at, 0x100000 + (1 << 21) - at, "inactive"))
    whole = write(snapshot(trace, [segment(0x100000, 1 << 21, blocks)]), "whole")
    less = write(snapshot([one for one in trace if one["action"] != skipped], [segment(0x100000, 1 << 21, blocks)]))
    before, after = (run_gpumem("info", path, "--json").check().json() for path in (whole, less))
    assert before["complete"]
    for key in ("allocated", "active", "requested", "reserved") + (("peak_allocated",) if skipped != "alloc" else ()):
        assert after["devices"][0][key] == before["devices"][0][key], (key, after["gaps"])
    assert before["devices"][0]["allocated"] == sum(live.values())
    assert bool(after["gaps"]) == (skipped in ("free_completed", "alloc", "segment_alloc")), after["gaps"]
    if skipped == "alloc":
        assert "no allocations" in " ".join(after["gaps"])
        assert {int(one["address"], 16): one["size"] for one in blocks_of(run_gpumem, less)} == live


def test_a_ring_that_overflowed_says_so(write, run_gpumem):
    path = write(snapshot(LABELS, allocator_settings={"PYTORCH_CUDA_ALLOC_CONF": "", "trace_alloc_overflowed": True}))
    assert "ring was full" in run_gpumem("info", path).check().out


XPU = {"PYTORCH_ALLOC_CONF": "", "expandable_segments": False}  # torch/csrc/xpu/Module.cpp of torch 2.11 and later
DEVICES = {
    "torch.cuda": ({}, [], "cuda", "cuda:0"),
    "torch.cuda before there were settings": ({"allocator_settings": None, "external_annotations": None}, [], "cuda", "cuda:0"),
    "torch.xpu": ({"allocator_settings": XPU, "external_annotations": None}, [], "xpu", "xpu:0"),
    "torch.xpu by its libraries": ({"allocator_settings": None}, ["/opt/torch/lib/libc10_xpu.so"], "xpu", "xpu:0"),
    "torch.mtia": ({"allocator_settings": None}, ["/opt/torch/mtia/__init__.py"], "mtia", "mtia:0"),
    "torch_npu": ({"allocator_settings": None}, ["/opt/torch_npu/lib/libtorch_npu.so"], "privateuseone", "privateuseone:0"),
    "one that asks torch.cuda too": ({"allocator_settings": None}, ["/opt/torch/cuda/memory.py", "/opt/torch/xpu/memory.py"],
                                     "xpu", "xpu:0"),
    "one that is not known": ({"allocator_settings": {"PYTORCH_FOO_CONF": ""}, "external_annotations": None}, [],
                              "other", "device 0"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DEVICES)
def test_the_type_of_the_device_is_named_if_the_snapshot_shows_it(kind, write, run_gpumem):
    more, files, device_type, name = DEVICES[kind]
    frames = [{"filename": file, "line": 1, "name": "f"} for file in files] + [FRAME]
    trace = [{**one, "frames": frames} for one in LABELS]
    data = {key: value for key, value in snapshot(trace, **more).items() if value is not None}
    path = write(data)
    info = run_gpumem("info", path, "--json").check().json()
    assert [one["device_type"] for one in info["devices"]] == [device_type]
    assert f"{name}: " in run_gpumem("info", path).check().out
    assert run_gpumem("peak", path).check().out.startswith(f"{name}: ")
    assert run_gpumem("blocks", path, "--device", "0", "--json").check().json()["allocated"] == 3072
    assert blocks_of(run_gpumem, path)[1]["labels"] == ["the logits", "saved for backward"]
    failed = {"action": "oom", "device_free": 512, "size": 1 << 30, "stream": 0, "time_us": 9, "frames": frames}
    path = write({**data, "device_traces": [[*trace, failed]]})
    assert run_gpumem("oom", path).check().out.startswith(f"{name} ran out of memory")
    platform = device_type.upper() if device_type in ("xpu", "mtia") else "CUDA" if name == "cuda:0" else None
    oom = run_gpumem("oom", path, "--device", "0", "--json").check().json()
    assert not platform or oom["platform"] == platform
    assert sum(row["bytes"] for row in oom["top"]) == 3072
    run_gpumem("oom", path, "--device", "1").check(2)
    assert run_gpumem("segments", path, "--device", "0", "--json").check().json()["device"] == 0
    run_gpumem("segments", path, "--device", "1").check(2)


def test_no_mutation_of_todays_form_does_harm(write, gpumem):
    native = {"name": "??", "filename": "/l/libpython3.11.so.1.0", "line": 1038786}
    trace = [{**one, "frames": [native, FRAME, native]} for one in LABELS]
    path = write(snapshot(trace, [segment(0x1000, 4096, [block(0x1000, 4096)])], host_traces=trace[:3],
                          host_segments=[segment(0x5000, 4096, [block(0x5000, 4096)], -1)]))  # fmt: skip
    whole, chance = path.read_bytes(), random.Random(7)
    for _ in range(80):
        mutant = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            mutant[chance.randrange(len(mutant))] = chance.choice([0, 1, 0x28, 0x2E, 0x4A, 0x5D, 0x86, 0x94, 0xFF, 0x7D])
        path.write_bytes(mutant)
        for question in ("info", "blocks"):
            done = subprocess.run([gpumem, question, path], capture_output=True, timeout=20)
            assert done.returncode in (0, 3), done


REAL = ROOT / "tests" / "e2e" / "programs" / "recorder_settings.py"


@pytest.fixture(scope="module")
def real(sim_env, run, tmp_path_factory):
    """A snapshot of each way to call the recorder that this PyTorch has, with torch's own statistics beside it."""
    folder = tmp_path_factory.mktemp("settings")
    run([PYTHON, REAL, folder], env=sim_env(), timeout=600).check()
    return folder


STEPS = {"all": 3, "python": 3, "annotations": 3, "no free_completed": 3, "no free_requested": 3, "no segments": 3,
         "pinned": 3, "no frames": 0}  # fmt: skip


@pytest.mark.parametrize("setting", STEPS)
def test_snapshots_of_the_installed_pytorch_have_its_figures(setting, real, run_gpumem):
    path = real / f"{setting}.pickle"
    if not path.exists():
        pytest.skip(f"this PyTorch's recorder has no such setting: {setting}")
    stats = json.loads((real / f"{setting}.json").read_text())
    info = run_gpumem("info", path, "--json").check().json()
    device = next(one for one in info["devices"] if one["device_type"] == "cuda")
    for key, name in (("allocated", "allocated_bytes.all.current"), ("active", "active_bytes.all.current"),
                      ("requested", "requested_bytes.all.current"), ("reserved", "reserved_bytes.all.current"),
                      ("peak_allocated", "allocated_bytes.all.peak")):  # fmt: skip
        assert device[key] == stats[name], (key, info["gaps"])
    assert info["steps"] == STEPS[setting]
    assert not any("unknown" in gap or "not known" in gap for gap in info["gaps"]), info["gaps"]
    data = pickle.loads(path.read_bytes())
    if setting == "pinned":
        pinned = next(one for one in info["devices"] if one["device_type"] == "pinned")
        assert pinned["reserved"] == sum(one["total_size"] for one in data["host_segments"]) > 0
        assert pinned["allocated"] == sum(one["allocated_size"] for one in data["host_segments"]) > 0
    labelled = {one["addr"] for one in data["device_traces"][0] if one["action"] == "annotate"}
    if labelled:
        events = run_gpumem("events", path, "--json").check().json_lines()
        last = [one for one in events if one["action"] == "annotate"][-1]
        (found,) = [one for one in blocks_of(run_gpumem, path, "--at", str(last["n"])) if one["labels"] == ["the output"]
                    and one["address"] == last["address"]]  # fmt: skip
        assert int(found["address"], 16) in labelled


def test_an_export_is_of_todays_form_and_says_the_same(run_gpumem, tmp_path):
    host = [entry(action, 0x7F0000000000, 4096, time, compile_context="") for time, action in
            enumerate(("segment_alloc", "alloc", "free_requested", "free_completed"), 20)]  # fmt: skip
    trace = [entry("segment_alloc", 0x1000, 1 << 20, 0), *LABELS]
    blocks = [block(0x1000, 1024), block(0x1400, 0xC00, "inactive"), block(0x2000, 2048), block(0x2800, 0xFE800, "inactive")]
    data = snapshot(trace, [segment(0x1000, 1 << 20, blocks)], host_traces=host,
                    host_segments=[segment(0x7F0000000000, 4096, [block(0x7F0000000000, 4096, "inactive")], -1)])  # fmt: skip
    path, out = tmp_path / "made.pickle", tmp_path / "out.pickle"
    path.write_bytes(pickle.dumps(data))
    run_gpumem("export", path, "--to", "pytorch", "-o", out).check()
    again = pickle.loads(out.read_bytes())
    assert set(again) == set(data)

    def without(one, *keys):
        return {key: value for key, value in one.items() if key not in keys}

    assert any(data["device_traces"]) and data["host_traces"] and data["segments"]
    for before, after in (*zip(data["device_traces"], again["device_traces"], strict=True), (data["host_traces"], again["host_traces"])):
        assert [without(one, "pool_id") for one in before] == after
    for key in "segments", "host_segments":
        for before, after in zip(data[key], again[key], strict=True):
            assert without(before, "segment_pool_id", "blocks", "frames") == without(after, "blocks", "frames")
            tiles = ("address", "size", "state")
            assert [[one[k] for k in tiles] for one in before["blocks"]] == [[one[k] for k in tiles] for one in after["blocks"]]
    told = [run_gpumem("events", one, "--json").check().out for one in (path, out)]
    assert told[0] == told[1]


@pytest.mark.parametrize("settings, device_type", [(XPU, "xpu"), ({"PYTORCH_CUDA_ALLOC_CONF": ""}, "cuda")])
def test_an_export_keeps_the_devices_type(settings, device_type, run_gpumem, tmp_path):
    data = {"segments": [], "device_traces": [[], LABELS], "allocator_settings": settings}
    path, out = tmp_path / "made.pickle", tmp_path / "out.pickle"
    path.write_bytes(pickle.dumps(data))
    run_gpumem("export", path, "--to", "pytorch", "-o", out).check()
    (device,) = run_gpumem("info", out, "--json").check().json()["devices"]
    assert (device["device_type"], device["device"], device["events"]) == (device_type, 1, len(LABELS))
