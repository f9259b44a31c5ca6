"""The agent records the same events of a run as PyTorch itself, whatever the program does."""

import json
import os

import pytest

from conftest import EXAMPLES, PYTHON, ROOT

PROGRAMS = ROOT / "tests" / "e2e" / "programs"
PROGRAM = PROGRAMS / "agent_run.py"


@pytest.fixture(scope="module")
def record(run_gpumem, tmp_path_factory):
    """record(*command, sim="--sim", options=(), …) -> (finished run, path of the log)."""

    def call(*command, sim="--sim", options=(), out="run.gpumem", folder=None, **keys):
        folder = folder or tmp_path_factory.mktemp("agent")
        path = folder / out
        words = ["run", *([sim] if sim else []), "-o", path, *options, "--", *command]
        return run_gpumem(*words, timeout=600, **keys), path

    return call


@pytest.fixture(scope="module")
def read(run_gpumem):
    """read("events", path) -> the JSON of the answer."""

    def call(question, path, *more):
        answer = run_gpumem(question, path, "--json", *more).check()
        return answer.json_lines() if question == "events" else answer.json()

    return call


def device_events(events, device=0):
    """(action, address, requested size, stream) of PyTorch's own trace."""
    return [
        (e["action"], int(e["address"], 16), e["requested"] or e["size"], e["stream"])
        for e in events
        if e["device_type"] == "cuda" and e["device"] == device
    ]


def pytorch_events(trace):
    return [(e["action"], e.get("addr", 0), e["size"], e["stream"]) for e in trace if e["action"] != "snapshot"]


def assert_equal(events, truth, device=0):
    theirs = pytorch_events(truth["traces"][device])
    ours = device_events(events, device)
    assert len(theirs) > 100
    # PyTorch's record ends before the program does
    assert ours[: len(theirs)] == theirs
    assert all(action.startswith(("free", "segment_free")) for action, *_ in ours[len(theirs) :])


def assert_stacks_are_of_the_right_thread(events):
    """The sizes tell which of the four an event is of: its stack, where it has one, is that one's."""
    told = borrowed = untold = 0
    for e in events:
        number = (e["requested"] or 0) // 400_000 - 1
        functions = [frame["function"] for frame in e["python"]]
        if number < 0 or e["action"] != "alloc":
            continue
        assert not functions or f"train_{number}" in functions, e
        told += bool(functions)
        borrowed += e["borrowed"]
        untold += not functions
    assert told > 1000
    print("of the right thread:", told, "borrowed:", borrowed, "untold:", untold)
    assert borrowed  # which of those that wait is meant is known, but where the threads ran in an unlucky order


@pytest.mark.parametrize("kind", ["gpt", pytest.param("threads", marks=pytest.mark.long), "waiting", pytest.param("trainer", marks=pytest.mark.long), "loader"])
def test_events_are_pytorchs_own_in_order_size_and_stream(record, read, tmp_path, kind):
    out = tmp_path / "truth.json"
    run, log = record(PYTHON, PROGRAM, kind, out)
    run.check()
    truth = json.loads(out.read_text())
    assert_equal(read("events", log), truth)
    info = read("info", log)
    assert [gap for gap in info["gaps"] if "several threads wait" not in gap] == []
    assert info["complete"] is True or kind == "waiting"
    (device,) = [one for one in info["devices"] if one["device_type"] == "cuda"]  # pinned memory is a second entry
    assert device["peak_allocated"] == truth["stats"]["allocated_bytes.all.peak"]
    assert device["peak_requested"] == truth["stats"]["requested_bytes.all.peak"]
    assert device["peak_reserved"] == truth["stats"]["reserved_bytes.all.peak"]
    assert "gpumem: recorded " in run.err and str(log) in run.err
    if kind == "waiting":
        assert_stacks_are_of_the_right_thread(read("events", log))


@pytest.mark.long  # test_collectives.py records two ranks, each in a file of its own
def test_each_rank_of_ddp_has_its_own_log_of_its_own_device(record, read, tmp_path):
    out = tmp_path / "truth.json"
    run, log = record(PYTHON, PROGRAM, "ddp", out, sim="--sim=h100-80gbx2", out="run.%r.%p", folder=tmp_path)
    run.check()
    for rank in (0, 1):
        truth = json.loads((tmp_path / f"truth.json.{rank}").read_text())
        assert_equal(read("events", tmp_path / f"run.{rank}.{truth['pid']}"), truth, rank)
    assert "and 1 more file, one for each process" in run.err


def test_streams_and_deferred_frees_are_pytorchs_own(record, read, tmp_path):
    out = tmp_path / "truth.json"
    run, log = record(PYTHON, PROGRAMS / "with_snapshot.py", PROGRAMS / "deferred.py", out)
    run.check()
    theirs = pytorch_events(json.loads(out.read_text())["trace"])
    ours = device_events(read("events", log))
    assert ours[: len(theirs)] == theirs
    assert [action for action, *_ in theirs].count("free_completed") >= 3


def test_released_segments_and_the_failed_request_are_in_pytorchs_order(record, read, tmp_path):
    out = tmp_path / "truth.json"
    run, log = record(PYTHON, PROGRAMS / "with_snapshot.py", PROGRAMS / "fills.py", out, sim="--sim=4GiB")
    run.check()
    theirs = [(a, 0 if a == "oom" else b, c) for a, b, c, _ in pytorch_events(json.loads(out.read_text())["trace"])]
    ours = [(a, b, c) for a, b, c, _ in device_events(read("events", log))]
    assert ours[: len(theirs)] == theirs
    assert {"segment_free", "oom"} <= {action for action, *_ in ours}


def test_expandable_segments_grow_and_shrink_as_pytorch_records_it(record, read, tmp_path):
    out = tmp_path / "truth.json"
    run, log = record(PYTHON, PROGRAMS / "with_snapshot.py", PROGRAMS / "expandable_churn.py", out)
    run.check()
    truth = json.loads(out.read_text())
    theirs = pytorch_events(truth["trace"])
    events = read("events", log)
    assert device_events(events)[: len(theirs)] == theirs
    actions = [action for action, *_ in theirs]
    assert actions.count("segment_map") > 10 and actions.count("segment_unmap") > 10
    answer = read("segments", log, "--at", len(theirs) - 1)
    segments = [(int(s["address"], 16), s["size"]) for s in answer["segments"]]
    assert segments == sorted((s["address"], s["total_size"]) for s in truth["segments"])
    assert len(segments) > 4  # two streams, two pools: one of them has a hole


@pytest.fixture(scope="module")
def linear_loop(record):
    return record(PYTHON, EXAMPLES / "linear_loop.py")[1]


def place(frame):
    # gdb starts the interpreter by its resolved path
    return os.path.realpath(frame["file"]), frame["line"], frame["function"]


@pytest.mark.parametrize("example", ["linear_loop.py", pytest.param("train_mlp.py", marks=pytest.mark.long)])
def test_events_are_those_of_the_breakpoints_with_the_same_stacks(linear_loop, record, read, run_gdb, example):
    log = linear_loop if example == "linear_loop.py" else record(PYTHON, EXAMPLES / example)[1]
    gdb = run_gdb(["gpumem record", "run", "gpumem events --json"], EXAMPLES / example)
    theirs, ours = gdb["gpumem events --json"].json_lines(), read("events", log)
    keys = ("action", "block", "size", "requested", "device", "stream", "step", "phase", "allocated", "reserved", "borrowed")
    assert [{key: e[key] for key in keys} for e in ours] == [{key: e[key] for key in keys} for e in theirs]
    assert [list(map(place, e["python"])) for e in ours] == [list(map(place, e["python"])) for e in theirs]
    for mine, other in zip(ours, theirs):
        if mine["action"] in ("alloc", "free_requested"):
            # a breakpoint is in the reporting function; the agent's stack begins at its caller
            names = [frame["function"] for frame in mine["native"]]
            assert names and names == [frame["function"] for frame in other["native"]][1:]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gpt", "loader", "trainer"])
def test_events_of_a_training_are_those_of_the_breakpoints(record, read, run_gdb, tmp_path, kind):
    arguments = [kind, tmp_path / "unused.json"]
    environment = {**os.environ, "HISTORY": "0"}
    _, log = record(PYTHON, PROGRAM, *arguments, env=environment)
    commands = ["gpumem record", "run", "gpumem events --json"]
    gdb = run_gdb(commands, PROGRAM, arguments, env=environment, timeout=600)
    keys = ("size", "requested", "stream", "phase", "step", "borrowed")

    def told(events):
        """What each statement allocated, then what it freed: autocast frees its weights in the order of a hash table of pointers."""
        rows, at = [], None
        for e in events:
            where = list(map(place, e["python"])), e["action"].startswith("free")
            if e["device_type"] != "cuda":
                continue
            if where != at:
                rows.append((where, []))
                at = where
            rows[-1][1].append((e["action"], *(e[key] for key in keys)))
        return [(where, sorted(them, key=str) if where[1] else them) for where, them in rows]

    theirs, ours = told(gdb["gpumem events --json"].json_lines()), told(read("events", log))
    assert len(ours) > 50
    assert ours == theirs


def test_why_knows_the_statement_that_released_it(linear_loop, run_gpumem):
    answer = run_gpumem("why", linear_loop, "#7").check()
    assert "was released by the rebinding of `outputs` at linear_loop.py:22 in step 2" in answer.out


@pytest.mark.long  # so they are in test_attach.py and test_names.py
def test_losses_are_the_same_to_the_bit(record, run):
    # How many threads share a sum may change with the machine's load, and with them its last bits.
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    plain = run([PYTHON, PROGRAM, "cpu", "-"], env=env).check()
    recorded, log = record(PYTHON, PROGRAM, "cpu", "-", sim=None, options=["--devices", "cpu"], env=env)
    assert recorded.check().out == plain.out
    assert log.stat().st_size > 10_000
