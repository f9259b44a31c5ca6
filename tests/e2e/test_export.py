"""Exports open in the tools that they are for, with the totals of the recording."""

import csv
import json
import pickle
import sqlite3

import pytest

from conftest import EXAMPLES, KEEP_WORKSPACES, PYTHON

# lines of `python -m torch.cuda._memory_viz stats`
TOTALS = ["total_reserved", "total_allocated"]
CASES = {
    "python stacks": ("python", "100000", ""),
    "all stacks": ("all", "100000", ""),
    "a ring that lost its start": ("python", "40", ""),
    "expandable segments": ("python", "100000", "expandable_segments:True"),
}


@pytest.fixture(scope="module", params=[pytest.param(case, marks=[pytest.mark.long] * (case in ("python stacks", "a ring that lost its start"))) for case in CASES])
def exported(request, sim_env, run, run_gpumem, tmp_path_factory):
    """The snapshot, and a function that exports it and returns the file."""
    stacks, entries, settings = CASES[request.param]
    folder = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    snapshot = folder / "run.pickle"
    env = {**sim_env(), **KEEP_WORKSPACES, "PYTORCH_CUDA_ALLOC_CONF": settings}
    program = EXAMPLES.parent / "tests/e2e/programs/dump_snapshot.py"
    run([PYTHON, program, EXAMPLES / "train_mlp.py", snapshot, stacks, entries], env=env).check()

    def to(form):
        out = folder / f"out.{form}"
        if not out.exists():
            run_gpumem("export", snapshot, "--to", form, "-o", out).check()
        return out

    return snapshot, to


def info(run_gpumem, path):
    return run_gpumem("info", path, "--json").check().json()["devices"][0]


def frames(entry):
    return [(f["filename"], f["line"], f["name"]) for f in entry.get("frames", [])]


def test_a_snapshot_comes_back_with_the_same_trace_and_segments(exported):
    snapshot, to = exported
    before, after = pickle.loads(snapshot.read_bytes()), pickle.loads(to("pytorch").read_bytes())
    keys = ("action", "size", "stream", "time_us")
    assert [[e[k] for k in keys] for e in before["device_traces"][0]] == [
        [e[k] for k in keys] for e in after["device_traces"][0]
    ]
    told = 0
    for one, other in zip(before["device_traces"][0], after["device_traces"][0], strict=True):
        python = [f for f in frames(one) if f[0].endswith(".py") or f[0].startswith("<")]
        again = [f for f in frames(other) if f[0].endswith(".py") or f[0].startswith("<")]
        # the engine's thread has no Python: its events have the stack that waits in backward()
        waits = any("/torch/autograd/" in file and name == "backward" for file, _, name in again)
        assert python == again if python else again == [] or waits, (one, again)
        told += bool(python)
    assert told >= 10 and after["segments"]
    for key in ("total_size", "allocated_size", "active_size", "requested_size"):
        assert sum(s[key] for s in before["segments"]) == sum(s[key] for s in after["segments"]), key
    for segment in after["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:  # they tile the segment
            assert block["address"] == at
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]


def test_pytorchs_own_tools_open_the_snapshot_and_its_flamegraphs_add_up(exported, run):
    # PyTorch fetches the script that draws flamegraphs (flamegraph.pl) from the network, so only its input is compared
    snapshot, to = exported
    program = (
        "import pickle, sys, torch.cuda._memory_viz as viz\n"
        "sums = []\n"
        "for path in sys.argv[1:]:\n"
        "    data = pickle.load(open(path, 'rb'))\n"
        "    print(viz.segsum(data))\n"
        "    assert '<html' in viz.trace_plot(data).lower() or 'script' in viz.trace_plot(data)\n"
        "    viz.segment_plot(data); viz.trace(data)\n"
        "    print('reserved', sum(s['total_size'] for s in data['segments']))\n"
        "    sums.append([])\n"
        "    for form in viz.segments, viz.memory:\n"
        "        lines = form(pickle.load(open(path, 'rb')), format_flamegraph=str.splitlines)\n"
        "        sums[-1].append(sum(int(line.rpartition(' ')[2]) for line in lines))\n"
        "assert sums[0] == sums[1] and all(sums[0]), sums\n"
    )
    lines = run([PYTHON, "-c", program, snapshot, to("pytorch")]).check().out.splitlines()
    totals = [line for line in lines if line.split(":")[0] in TOTALS]
    assert len(totals) == 2 * len(TOTALS) and totals[: len(TOTALS)] == totals[len(TOTALS) :]


@pytest.mark.long
def test_pytorchs_command_line_says_the_same_of_the_export_as_of_the_snapshot(exported, run, tmp_path):
    snapshot, to = exported

    def totals(path):
        """The output of `stats`, without the pictures of single segments, which name blocks by their frames."""
        out = run([PYTHON, "-m", "torch.cuda._memory_viz", "stats", path]).check().out
        return [line for line in out.splitlines() if line.split(":")[0] in TOTALS]

    assert len(totals(snapshot)) == len(TOTALS) and totals(to("pytorch")) == totals(snapshot)
    for form in "trace_plot", "segment_plot":
        page = tmp_path / f"{form}.html"
        run([PYTHON, "-m", "torch.cuda._memory_viz", form, to("pytorch"), "-o", page]).check()
        assert "<script" in page.read_text()


def test_the_exported_snapshot_is_read_as_the_recording_was(exported, run_gpumem):
    snapshot, to = exported
    before, after = info(run_gpumem, snapshot), info(run_gpumem, to("pytorch"))
    for key in ("allocated", "reserved", "requested", "peak_allocated", "peak_reserved"):
        assert before[key] == after[key], key


def test_folded_stacks_add_up_to_the_peak(exported, run_gpumem):
    snapshot, to = exported
    lines = to("folded").read_text().splitlines()
    total = 0
    for line in lines:
        stack, _, count = line.rpartition(" ")
        assert stack and count.isdigit()
        total += int(count)
    assert total == info(run_gpumem, snapshot)["peak_allocated"]
    if "lost" not in snapshot.parent.name:
        assert any(line.split(";")[-1].startswith("_multi_tensor_adam") for line in lines)


def test_perfettos_counters_are_the_allocators(exported, run_gpumem):
    snapshot, to = exported
    events = json.loads(to("perfetto").read_text())["traceEvents"]
    counters = [e["args"] for e in events if e["ph"] == "C"]
    device = info(run_gpumem, snapshot)
    assert max(c["allocated"] for c in counters) == device["peak_allocated"]
    assert max(c["allocated"] + c["cached"] for c in counters) == device["peak_reserved"]
    names = {e["name"] for e in events if e["ph"] == "X"}
    assert {"forward", "backward", "optimizer"} <= names or "lost" in snapshot.parent.name
    assert all(e["dur"] >= 0 for e in events if e["ph"] == "X")


def slices_of_blocks(trace):
    """The slices, and the names of their processes."""
    events = trace["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    return [e for e in events if e["ph"] == "X" and e["pid"] != 1], processes


def check_rows(slices, processes):
    """A row belongs to one process, and its slices do not overlap."""
    rows = {}
    for one in slices:
        rows.setdefault(one["tid"], []).append(one)
    for row in rows.values():
        assert len({one["pid"] for one in row}) == 1 and row[0]["pid"] in processes
        row.sort(key=lambda one: one["ts"])
        for before, after in zip(row, row[1:]):
            assert before["ts"] + before["dur"] <= after["ts"], (before, after)


def test_perfettos_slices_of_blocks_are_the_blocks_of_the_database(exported):
    snapshot, to = exported
    trace = json.loads(to("perfetto").read_text())
    slices, processes = slices_of_blocks(trace)
    base = sqlite3.connect(to("sqlite"))
    base.row_factory = sqlite3.Row
    query = "SELECT block.*, device.name AS name FROM block JOIN device ON device.id = block.device"
    true = sorted(
        (f"{row['name']} blocks: {row['category']}", row["address"], row["size"], row["alloc"] or 0,
         row["free_requested"] or row["free_completed"] or 0)
        for row in base.execute(query)
    )  # fmt: skip
    told = sorted(
        (processes[one["pid"]], int(one["args"]["address"], 16), one["args"]["bytes"], one["args"].get("allocated", 0),
         one["args"].get("released", 0))
        for one in slices
    )  # fmt: skip
    assert told == true and len(told) > 10
    assert trace["otherData"] == {"blocks_left_out": "0", "bytes_left_out": "0"}
    check_rows(slices, processes)
    times = dict(base.execute("SELECT id, time_ns FROM event"))
    for one in slices:
        if "allocated" in one["args"]:
            assert abs(one["ts"] - times[one["args"]["allocated"]] / 1000) <= 1
        if "released" in one["args"]:
            assert abs(one["ts"] + one["dur"] - times[one["args"]["released"]] / 1000) <= 1
    assert any(one["name"].startswith("train_mlp.py:") for one in slices)


def test_perfettos_slices_are_the_largest_blocks_and_their_number_is_bounded(run_gpumem, tmp_path):
    most, more, kinds = 8192, 300, 7
    sizes = [512 * (1 + number * 37 % kinds) for number in range(most + more)]
    address, trace = 1 << 40, []
    for number, size in enumerate(sizes):
        trace.append({"action": "alloc", "addr": address, "size": size, "stream": 0, "time_us": number, "frames": []})
        address += size
    snapshot, out = tmp_path / "run.pickle", tmp_path / "run.json"
    snapshot.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace], "allocator_settings": {}}))
    run_gpumem("export", snapshot, "--to", "perfetto", "-o", out).check()
    read = json.loads(out.read_text())
    slices, processes = slices_of_blocks(read)
    left = sorted(range(len(sizes)), key=lambda number: (-sizes[number], number))[:most]
    assert {one["args"]["allocated"] for one in slices} == set(left) and len(slices) == most
    assert read["otherData"] == {"blocks_left_out": str(more), "bytes_left_out": str(sum(sizes) - sum(sizes[n] for n in left))}
    assert len([e for e in read["traceEvents"] if e["ph"] == "C"]) == len(sizes)
    check_rows(slices, processes)


def test_the_database_answers_in_sql(exported, run_gpumem):
    snapshot, to = exported
    base = sqlite3.connect(to("sqlite"))
    device = info(run_gpumem, snapshot)
    (peak,) = base.execute("SELECT max(allocated) FROM event").fetchone()
    assert peak == device["peak_allocated"]
    at = device["peak_event"]
    rows = base.execute(
        "SELECT category, sum(size) FROM block WHERE alloc <= ? AND coalesce(free_requested, free_completed, 1e18) > ?"
        " GROUP BY category",
        (at, at),
    ).fetchall()
    ours = run_gpumem("blocks", snapshot, "--at-peak", "--json").check().json()["by_category"]
    assert dict(rows) == ours
    lines = base.execute("SELECT DISTINCT line FROM block JOIN site USING (stack) WHERE category = 'optimizer_state'")
    assert len(lines.fetchall()) <= 1


def test_csv_and_json_have_one_line_for_each_event(exported, run_gpumem):
    snapshot, to = exported
    rows = list(csv.DictReader(to("csv").open(newline="")))
    lines = [json.loads(line) for line in to("json").read_text().splitlines()]
    assert len(rows) == len(lines) == info(run_gpumem, snapshot)["events"]
    for row, line in zip(rows, lines):
        assert int(row["event"]) == line["n"] and row["action"] == line["action"]
        assert int(row["size"]) == line["size"] and row["address"] == line["address"]


def test_an_event_is_the_same_alone_and_among_all(exported, run_gpumem):
    """All of them share the texts of their stacks."""
    snapshot, to = exported
    lines = [json.loads(line) for line in to("json").read_text().splitlines()]
    for number in range(len(lines) - 1, 0, -len(lines) // 5):
        part = ("--from", number, "--to", number)
        assert run_gpumem("events", snapshot, "--json", *part).check().json_lines() == [lines[number]]
    # `why` tells the two events whole
    block = next(line["n"] for line in reversed(lines) if line["action"] == "alloc" and line["python"])
    why = json.dumps(run_gpumem("why", snapshot, f"#{block}", "--json").check().json())
    assert json.dumps(lines[block])[1:-1] in why


def test_a_recording_made_in_gdb_is_exported_too(run_gdb, run_gpumem, tmp_path):
    log, out = tmp_path / "run.gpumem", tmp_path / "run.pickle"
    run_gdb(["gpumem record", "run", f"gpumem record save {log}"], EXAMPLES / "linear_loop.py")
    run_gpumem("export", log, "--to", "pytorch", "-o", out).check()
    data = pickle.loads(out.read_bytes())
    before = info(run_gpumem, log)
    assert sum(s["total_size"] for s in data["segments"]) == before["reserved"]
    assert len(data["device_traces"][0]) == before["events"]
    after = info(run_gpumem, out)
    assert after["peak_allocated"] == before["peak_allocated"]


def test_wrong_uses_are_refused(exported, run_gpumem, tmp_path):
    snapshot, to = exported
    there = to("sqlite")
    for arguments, text in (
        ([snapshot, "--to", "gif", "-o", tmp_path / "x"], "unknown word 'gif': use pytorch, perfetto,"),
        ([snapshot, "-o", tmp_path / "x"], "no format given"),
        ([snapshot, "--to", "csv"], "no output file given"),
        ([snapshot, "--to", "csv", "-o", snapshot], "which would be lost"),
    ):
        done = run_gpumem("export", *arguments)
        assert done.status == 2 and text in done.err
    there.write_bytes(b"something else")
    run_gpumem("export", snapshot, "--to", "sqlite", "-o", there).check()
    assert there.read_bytes().startswith(b"SQLite format 3")
    done = run_gpumem("export", snapshot, "--to", "sqlite", "-o", "/dev/null")
    assert done.status == 4 and "not a regular file" in done.err
    done = run_gpumem("export", snapshot, "--to", "csv", "-o", tmp_path / "no" / "where")
    assert done.status == 4 and "cannot be written" in done.err
    assert not (tmp_path / "x").exists()
