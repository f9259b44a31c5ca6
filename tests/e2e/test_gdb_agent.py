"""`gpumem record --engine agent` in gdb: the agent records, gdb stops where its user wants, and questions read the recording."""

import os
import re
import subprocess

import pytest

from conftest import EXAMPLES, PYTHON, ROOT, the_program

PROGRAMS = ROOT / "tests" / "e2e" / "programs"
RECORD = "gpumem record --engine agent"

STOPS = """
import signal, torch
kept = [torch.zeros(1 << 20, device="cuda") for _ in range(5)]
stop = lambda: signal.sigtimedwait([], 0)
before = torch.cuda.memory_allocated()
stop()
for step in range(3):
    scratch = torch.zeros(1 << 18, device="cuda")
    stop()
del kept[2]
stop()
print("end", before, torch.cuda.memory_allocated(), flush=True)
"""


@pytest.fixture
def can_call(run_gdb, debugger_calls):
    """For a test in which the debugger loads the agent into a program that has started."""
    why_not = debugger_calls(run_gdb.path)
    if why_not:
        pytest.skip(why_not)


@pytest.fixture(scope="module")
def stops(tmp_path_factory):
    """A program that calls sigtimedwait() at the place where gdb shall stop."""
    program = tmp_path_factory.mktemp("stops") / "stops.py"
    program.write_text(STOPS)
    return program


def same(event):
    keys = ("action", "block", "size", "requested", "device", "stream", "step", "phase", "allocated", "reserved", "borrowed")
    frames = [(os.path.realpath(frame["file"]), frame["line"], frame["function"]) for frame in event["python"]]
    return [event[key] for key in keys], frames


@pytest.mark.long  # of the agent outside of gdb: test_agent.py, and in each debugger test_gdb.py
def test_the_agents_events_are_those_of_the_breakpoints_in_gdb(run_gdb):
    events = {}
    for engine in ("agent", "breakpoint"):
        gdb = run_gdb([f"gpumem record --engine {engine}", "run", "gpumem events --json"], EXAMPLES / "linear_loop.py")
        assert "exited normally" in gdb["run"]
        events[engine] = gdb["gpumem events --json"].json_lines()
    assert len(events["agent"]) > 20
    assert [same(event) for event in events["agent"]] == [same(event) for event in events["breakpoint"]]


def test_preloaded_libraries_stay_preloaded_while_gdb_traces_commands(run_gdb):
    gdb = run_gdb(["set trace-commands on", RECORD, "show environment LD_PRELOAD"], "/bin/true")
    assert re.search(r"libgpumem-agent.*libgpumem-sim", gdb["show environment LD_PRELOAD"]), gdb.out


def test_a_recording_that_cannot_begin_leaves_gdb_as_it_was(run_gdb, tmp_path):
    folder = tmp_path / "a;b"
    folder.mkdir()
    commands = ["show auto-solib-add", RECORD, "show auto-solib-add", "show environment LD_PRELOAD", "run", "gpumem info", "gpumem record", "run"]
    gdb = run_gdb(commands, "/bin/true", sim=False, env={**os.environ, "TMPDIR": str(folder)})
    assert "TMPDIR contains ';' or '%'" in gdb[RECORD]
    assert gdb.sections[2] == gdb.sections[0], gdb.out
    assert "agent" not in gdb["show environment LD_PRELOAD"]
    assert "exited normally" in gdb.sections[4] and "is not recorded" not in gdb.out and "Error" not in gdb.out, gdb.out
    assert "recording begins" not in gdb["gpumem info"] and "recording begins" in gdb["gpumem record"]


RANK = """
import sys
rank = int(sys.argv[3])
sys.path.insert(0, sys.argv[4])
import agent_run
agent_run.one_rank(rank)
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gpt", "trainer", "loader", "ddp"])
def test_both_engines_see_the_same_of_one_run(run_gdb, run_gpumem, build_dir, sim_env, spawn, kind, tmp_path):
    """Both engines at once in one process, because PyTorch's order of frees differs between runs (a cache keyed by addresses)."""
    agent, log = build_dir / "lib" / "libgpumem-agent.so", tmp_path / "agent.gpumem"
    environment = {**os.environ, "HISTORY": "0"}
    arguments = [PROGRAMS / "agent_run.py", kind, tmp_path / "out"]
    if kind == "ddp":
        arguments = ["-c", RANK, kind, tmp_path / "out", "0", PROGRAMS]
        other = ["-c", RANK, kind, tmp_path / "out", "1", PROGRAMS]
        spawn([PYTHON, *other], env={**sim_env("h100-80gbx2"), **environment, "LD_PRELOAD": sim_env("h100-80gbx2")["LD_PRELOAD"]})
    profile = "h100-80gbx2" if kind == "ddp" else "h100-80gb"  # Trainer takes as many devices as there are
    preload = f"{agent}:{sim_env(profile)['LD_PRELOAD']}"
    settings = f"out={log};devices=cuda;stacks=python,native"
    commands = [f"set environment LD_PRELOAD {preload}", f"set environment GPUMEM_AGENT {settings}", "gpumem record", "run"]
    gdb = run_gdb([*commands, "gpumem events --json"], PYTHON, arguments, env=environment, sim=profile, timeout=600)
    assert "exited normally" in gdb["run"]
    keys = ["action", "address", "size", "requested", "device", "stream", "step", "phase", "borrowed"]
    keys += ["allocated", "reserved"] if kind != "ddp" else []

    def of(lines):
        # pinned memory is seen by the agent alone; two threads of gloo's come to each of the two in an order of its own
        lines = [event for event in lines if event["device_type"] == "cuda"]
        if kind == "ddp":
            lines.sort(key=lambda event: event["thread"])
        return [([event[key] for key in keys], [(f["file"], f["line"], f["function"]) for f in event["python"]]) for event in lines]

    theirs = of(gdb["gpumem events --json"].json_lines())
    ours = of(run_gpumem("events", log, "--json").check().json_lines())
    assert len(theirs) > 100
    if ours != theirs:
        first = next(i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b)
        pytest.fail(f"event {first}: {ours[first : first + 4]} is not {theirs[first : first + 4]}")
    assert len(ours) == len(theirs)


def test_questions_are_answered_while_the_agent_records(run_gdb, stops):
    questions = ["gpumem info --json", "gpumem blocks", "gpumem who-holds #3", "gpumem why #7", "gpumem peak", "gpumem timeline"]
    gdb = run_gdb(
        ["set breakpoint pending on", RECORD, "tbreak sigtimedwait", "run", "gpumem info --json", "tbreak sigtimedwait", "continue", *questions]
        + ["gpumem record status", "delete", "continue", "gpumem info --json"],
        stops,
    )
    first, second, last = (section.json() for section in gdb.sections if '"gaps"' in section)
    assert first["devices"][0]["allocated"] == 5 << 22
    assert second["devices"][0]["allocated"] == (5 << 22) + (1 << 20)
    assert "the process still runs" in second["gaps"][0]
    assert "stops.py:3" in gdb["gpumem blocks"]
    assert "kept" in gdb["gpumem who-holds #3"]
    assert "still alive" in gdb["gpumem why #7"]
    assert re.search(r"recording process \d+: \d+ events, peak 22,020,096 bytes allocated", gdb["gpumem record status"])
    assert last["complete"] is True and last["gaps"] == []
    assert "end 20971520 17825792" in gdb.out


@pytest.mark.every_debugger
def test_an_agent_loaded_at_a_stop_records_the_earlier_allocations(run_gdb, stops, can_call):
    commands = ["set breakpoint pending on", "tbreak sigtimedwait", "run", "bt 1", RECORD, "bt 1", "gpumem blocks --json"]
    gdb = run_gdb([*commands, "tbreak sigtimedwait", "continue", "gpumem events --json", "gpumem record stop", "gpumem info --json", "continue"], stops)
    assert gdb[3] == gdb[5] != ""
    assert gdb["gpumem blocks --json"].json()["allocated"] == 5 << 22
    events = gdb["gpumem events --json"].json_lines()
    new = next(event for event in events if event["python"] and event["action"] == "alloc")
    assert (new["action"], new["size"], new["python"][0]["line"]) == ("alloc", 1 << 20, 8)
    assert gdb["gpumem info --json"].json()["gaps"] == []
    assert "end 20971520 17825792" in gdb.out and "exited normally" in gdb.out


@pytest.mark.long
def test_a_thread_in_the_c_library_leaves_it_before_the_agent_is_loaded(run_gdb, stops):
    gdb = run_gdb(["set breakpoint pending on", "tbreak sigtimedwait", "run", "tbreak malloc", "continue", RECORD, "delete", "continue", "gpumem info"], stops)
    assert "gpumem: the program was continued briefly, to leave a function of the C library" in gdb[RECORD]
    assert "gpumem: recording process" in gdb[RECORD]
    assert "end 20971520 17825792" in gdb.out and "exited normally" in gdb.out
    assert "complete: no gaps" in gdb["gpumem info"]


@pytest.mark.long
def test_each_run_is_recorded_again_and_a_saved_one_stays(run_gdb, run_gpumem, stops, tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    saved = tmp_path / "saved.gpumem"
    gdb = run_gdb([RECORD, "run", "run", f"gpumem record save {saved}", "gpumem record stop", "run"], stops, env=environment)
    first, second = (re.search(r"recorded ([0-9,]+) events", gdb[index])[1] for index in (1, 2))
    assert first == second != "0"
    assert "recorded" not in gdb[5]
    assert run_gpumem("info", saved, "--json").check().json()["complete"] is True
    assert [path.name for path in tmp_path.iterdir()] == ["saved.gpumem"]


def test_step_and_until_stop_at_the_same_events_as_breakpoints(run_gdb):
    shown = {}
    commands = ["gpumem until step=2", "gpumem step", "gpumem step 3", "gpumem who-holds outputs", "gpumem until step=9"]
    for engine in ("agent", "breakpoint"):
        gdb = run_gdb([f"gpumem record --engine {engine}", *commands], EXAMPLES / "linear_loop.py")
        lines = [re.findall(r"^ *#[0-9]+  .*$", gdb[command], re.M) for command in commands[:3]]
        shown[engine] = lines
        assert "frames" in gdb[commands[3]] or "outputs" in gdb[commands[3]], gdb.out
        assert "the program ended before step 9" in gdb[commands[4]] and "exited normally" in gdb[commands[4]]
    assert shown["agent"] == shown["breakpoint"] and all(len(lines) == 1 for lines in shown["agent"]), shown


def test_until_a_step_and_next_event_stop_as_conditions_do(run_gdb):
    """gdb shows only the event, no signal."""
    program = EXAMPLES / "amp.py"
    aims = ["gpumem until step=2", "gpumem until size>1MiB", "gpumem next-event 2"]
    gdb = run_gdb(["gpumem record --engine agent", *aims, "kill", "gpumem next-event 4"], program)
    assert "#3  " in gdb["gpumem next-event 4"]
    for shown in (*gdb.sections[1:4], gdb["gpumem next-event 4"]):
        lines = [line for line in shown.splitlines() if line and not re.match(r"\[|Using host|warning|gpumem sim|This GDB", line)]
        assert len(lines) == 1 and re.match(r" *#\d+  ", lines[0]), shown


@pytest.mark.long
def test_step_continues_from_where_the_program_stopped_and_leaves_no_breakpoint(run_gdb, stops):
    commands = ["set breakpoint pending on", "tbreak sigtimedwait", "run", RECORD, "gpumem step", "gpumem step 2", "continue", "gpumem info --json"]
    gdb = run_gdb([*commands, "info breakpoints"], stops)
    assert re.search(r"^ *#6  segment_alloc .* 2.00 MiB .*stops.py:8 ", gdb["gpumem step"], re.M), gdb.out
    assert re.search(r"^ *#9  .*stops.py:8 ", gdb["gpumem step 2"], re.M), gdb.out
    assert "exited normally" in gdb[-3] and "No breakpoints" in gdb["info breakpoints"]
    assert gdb["gpumem info --json"].json()["complete"] is True


@pytest.mark.long
def test_a_process_that_a_program_starts_is_not_stopped_by_step(run_gdb, tmp_path):
    program = tmp_path / "starts.py"
    program.write_text(
        "import subprocess, sys, torch\nkept = torch.zeros(1000, device='cuda')\n"
        "code = 'import torch; torch.zeros(1000, device=\"cuda\"); print(\"child done\")'\n"
        "print('status', subprocess.run([sys.executable, '-c', code]).returncode, flush=True)\n"
    )
    gdb = run_gdb([RECORD, "gpumem step", "continue"], program)
    assert re.search(r"^ *#0  ", gdb["gpumem step"], re.M)
    assert "child done" in gdb.out and "status 0" in gdb.out and "exited normally" in gdb["continue"]


@pytest.mark.parametrize("way", ["stop", "core"])
def test_after_a_recording_with_on_oom_gdb_handles_sigstop_as_before(run_gdb, way):
    ask, record = "info signals SIGSTOP", f"{RECORD} --on-oom {way}"
    own = "handle SIGSTOP nostop noprint nopass"
    gdb = run_gdb([ask, record, "run", ask, "gpumem record stop", own, record, "run", ask], "/bin/true", sim=False)
    shown = [re.search(r"^SIGSTOP\s+(\w+)\s+(\w+)\s+(\w+)", gdb.sections[index], re.M).groups() for index in (0, 3, 8)]
    assert shown == [("Yes", "Yes", "Yes"), ("Yes", "Yes", "Yes"), ("No", "No", "No")], gdb.out


@pytest.mark.long
def test_the_program_stops_where_a_device_is_out_of_memory_and_continues(run_gdb):
    gdb = run_gdb([f"{RECORD} --on-oom stop", "run", "gpumem oom --json", "continue"], EXAMPLES / "oom.py", sim="8GiB")
    assert "cuda:0 is out of memory: 67,108,864 bytes did not fit, at" in gdb["run"] and "verdict: capacity." in gdb["run"]
    assert gdb["gpumem oom --json"].json()["verdict"] == "capacity"
    assert "torch.OutOfMemoryError" in gdb["continue"] and "exited with code 01" in gdb["continue"]


@pytest.mark.long
def test_a_core_is_written_where_a_device_is_out_of_memory_and_the_program_continues(run_gdb, run_gpumem, tmp_path):
    core = tmp_path / "core.oom"
    commands = [f"{RECORD} --on-oom core --core-file {core}", "run", "gpumem info", "info breakpoints"]
    gdb = run_gdb(commands, EXAMPLES / "oom.py", sim="8GiB")
    assert "cuda:0 is out of memory: 67,108,864 bytes did not fit, at" in gdb["run"], gdb.out
    assert "core written: `gpumem oom" in gdb["run"] and "exited with code 01" in gdb["run"]
    assert "No breakpoints" in gdb["info breakpoints"]
    assert run_gpumem("oom", core, "--json").check().json()["requested"] == 67108864
    core.unlink()


def test_a_recorded_process_and_its_core_are_asked_for_the_recording_that_it_writes(
    run_gdb, spawn, run_gpumem, gpumem, make_core, tmp_path
):
    program = tmp_path / "waits.py"
    program.write_text("import sys, torch\nkept = torch.zeros(1 << 20, device='cuda')\nprint('ready', flush=True)\nsys.stdin.readline()\n")
    log = tmp_path / "run.gpumem"
    process = spawn(
        [gpumem, "run", "--sim", "-o", log, "--", PYTHON, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout.readline() == "ready\n"
    pid = the_program(process.pid)
    gdb = run_gdb(["gpumem events", "gpumem why #1"], sim=False, pid=pid, symbols=False)
    assert "waits.py:2" in gdb["gpumem events"] and "waits.py:2" in gdb["gpumem why #1"]
    core = tmp_path / "core"
    run_gpumem("core", pid, "-o", core).check()
    process.stdin.close()
    process.wait(600)
    gdb = run_gdb([f"core-file {core}", "gpumem events", "gpumem why #1"], sim=False, symbols=False)
    assert "waits.py:2" in gdb["gpumem events"] and "waits.py:2" in gdb["gpumem why #1"]
