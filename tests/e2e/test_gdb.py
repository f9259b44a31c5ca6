"""gpumem's commands in gdb: what a user sees, and that gdb stays usable."""

import os
import re
from types import SimpleNamespace

import pytest

from conftest import EXAMPLES

LOOP = EXAMPLES / "linear_loop.py"
CPU_LOOP = """
import torch
for size in range(1, 31):
    kept = torch.empty(size * 100)
print("done")
"""


@pytest.fixture
def cpu_loop(tmp_path):
    program = tmp_path / "cpu_loop.py"
    program.write_text(CPU_LOOP)
    return program


RECORD = "gpumem record --devices cpu"


@pytest.fixture(scope="module")
def session(run_gdb, tmp_path_factory):
    """One recording for the questions of several tests, saved while it records as session.saved. The keys are the commands' places."""
    folder = tmp_path_factory.mktemp("session")
    program, saved = folder / "cpu_loop.py", folder / "early.gpumem"
    program.write_text(CPU_LOOP)
    commands = {
        "record": RECORD,
        "break": "tbreak Py_RunMain",
        "run": "run",
        "record again": "gpumem record",
        "step": "gpumem step",
        "step 2": "gpumem step 2",
        "save": f"gpumem record save {saved}",
        "break at the end": "tbreak _exit",
        "to the end": "continue",
        "breakpoints at the end": "info breakpoints",
        "libraries": "info sharedlibrary",
        "step too far": "gpumem step 1000000",
        "breakpoints": "info breakpoints",
        "info": "gpumem info --json",
        "events": "gpumem events",
        "run again": "run",
    }
    gdb = run_gdb(commands.values(), program, sim=False)
    said = {name: gdb[index] for index, name in enumerate(commands)}
    return SimpleNamespace(said=said, saved=saved, out=gdb.out)


@pytest.mark.every_debugger
def test_run_twice_makes_a_new_recording_each_time(session):
    first, second = (re.search(r"recorded ([0-9,]+) events", session.said[name])[1] for name in ("step too far", "run again"))
    assert first == second != "0"


@pytest.mark.every_debugger
def test_symbols_of_libraries_behind_links_are_read(session):
    """libz.so.1 is a link to libz.so.1.2.13: gdb has one name, the kernel the other."""
    read = {path: state for state, path in re.findall(r"(Yes|No)[ (*)]*(/\S+)", session.said["libraries"])}
    links = {path: state for path, state in read.items() if os.path.islink(path) and "/torch/" not in path and "/nvidia/" not in path}
    assert len(links) > 2 and set(links.values()) == {"Yes"}, links
    assert {state for path, state in read.items() if "libtorch_cpu" in path} == {"No"}


@pytest.mark.every_debugger
def test_questions_answer_after_the_program_has_ended(session):
    assert session.said["info"].json()["complete"] is True
    assert "exited normally" in session.said["step too far"]
    assert "cpu_loop.py:4" in session.said["events"]


@pytest.mark.every_debugger
def test_gdb_does_not_list_gpumems_breakpoints(session):
    assert "No breakpoints" in session.said["breakpoints at the end"]
    assert "No breakpoints" in session.said["breakpoints"]


def test_a_temporary_log_is_removed_with_gdb_and_a_saved_one_stays(run_gdb, cpu_loop, tmp_path):
    saved = tmp_path / "saved.gpumem"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    gdb = run_gdb([RECORD, "run", f"gpumem record save {saved}"], cpu_loop, sim=False, env=environment)
    named = re.search(r"in (\S+\.gpumem) until", gdb["run"])[1]
    assert named.startswith(str(tmp_path)) and not os.path.exists(named)
    assert saved.stat().st_size > 1000
    assert [path.name for path in tmp_path.glob("*.gpumem")] == ["saved.gpumem"]


@pytest.mark.every_debugger
def test_a_log_saved_while_recording_gets_the_later_events_too(session, run_gpumem):
    events = run_gpumem("events", session.saved, "--json").check().json_lines()
    assert len([event for event in events if event["action"] == "alloc"]) >= 30


def test_a_program_without_python_has_no_events(run_gdb):
    gdb = run_gdb(["gpumem record", "run"], "/bin/true", sim=False)
    assert "recorded 0 events: PyTorch was not loaded;" in gdb["run"]


def test_a_python_program_without_torch_has_no_events_and_no_gaps(run_gdb, tmp_path):
    program = tmp_path / "plain.py"
    program.write_text("print('plain')\n")
    gdb = run_gdb(["gpumem record", "run", "gpumem info --json"], program, sim=False)
    assert "plain" in gdb["run"] and "recorded 0 events: PyTorch was not loaded;" in gdb["run"]
    assert gdb["gpumem info --json"].json()["gaps"] == []


def test_no_such_program_is_one_line_and_status_4(run_gpumem):
    run = run_gpumem("gdb", "-batch", "--", "/nowhere/at/all", "x")
    assert run.status == 4
    assert run.err == "gpumem: /nowhere/at/all: no such program: check the name, or give its path\n"


def test_a_script_is_debugged_through_its_interpreter(run_gdb, tmp_path, python):
    script = tmp_path / "tool"
    script.write_text(f"#!{python}\nprint('script ran')\n")
    script.chmod(0o755)
    assert "script ran" in run_gdb(["run"], script, sim=False)["run"]


def test_another_allocator_is_refused_by_name(run_gdb, tmp_path):
    program = tmp_path / "one.py"
    program.write_text("import torch\ntorch.empty(1000, device='cuda')\nprint('went on')\n")
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    gdb = run_gdb(["gpumem record", "run"], program, env=environment)
    refusal = [line for line in gdb["run"].splitlines() if line.startswith("gpumem: not recorded")]
    assert len(refusal) == 1 and "the allocator is cudaMallocAsync" in refusal[0], gdb.out


@pytest.mark.parametrize(
    "command, line",
    [
        ("gpumem record begin", "record: 'begin' is not an action: use start, stop, save or status"),
        ("gpumem record --devices tpu", "record: --devices tpu: no such device 'tpu': use cuda, cpu or cuda,cpu"),
        ("gpumem record --engine fast", "record: --engine fast: no such engine: use breakpoint or agent"),
        ("gpumem record --fast", "record: unrecognized arguments: --fast: see `help gpumem record`"),
        ("gpumem record stop", "record stop: nothing is recorded: type `gpumem record` first"),
        ("gpumem record save", "record: save: FILE is missing: name one, as in `gpumem record save run.gpumem`"),
        ("gpumem step", "step: nothing is recorded: type `gpumem record` first"),
        ("gpumem until", "until: nothing is recorded: type `gpumem record` first"),
        ("gpumem whoholds x", "unknown command 'whoholds': did you mean `gpumem who-holds`?"),
        ("gpumem why 'x", "why: the quote ' is not closed: close it"),
        ("gpumem whoholds 'x", "whoholds: the quote ' is not closed: close it"),
    ],
)
def test_wrong_usage_is_one_line(run_gdb, command, line):
    gdb = run_gdb([command, "print 40 + 2"], "/bin/true", sim=False)
    assert gdb[0].strip() == f"gpumem: {line}"
    assert "= 42" in gdb[1]


@pytest.mark.every_debugger
def test_asking_without_a_recording_says_what_to_do(run_gdb):
    gdb = run_gdb(["gpumem info", "gpumem who-holds x"], "/bin/true", sim=False)
    assert re.match(r"gpumem: .*: .*gpumem record.*\n\Z", gdb[0])
    assert re.match(r"gpumem: .+: .+: .+\n\Z", gdb[1])


@pytest.mark.every_debugger
def test_recording_twice_is_refused(session):
    assert session.said["record again"].startswith("gpumem: already recording process")


@pytest.mark.every_debugger
def test_every_command_has_help_with_an_example(run_gdb):
    gdb = run_gdb(["help gpumem"], "/bin/true", sim=False)
    names = re.findall(r"^gpumem ([a-z-]+)(?:,[^-]*)? -- ", gdb[0], re.M)
    assert {"record", "step", "until", "info", "who-holds", "why"} <= set(names)
    helps = run_gdb([f"help gpumem {name}" for name in names], "/bin/true", sim=False)
    for index, name in enumerate(names):
        assert "example" in helps[index].lower() and "Traceback" not in helps[index], helps[index]


@pytest.mark.every_debugger
def test_completion_offers_words(run_gdb):
    gdb = run_gdb(["complete gpumem rec", "complete gpumem record st", "complete gpumem info --j"], "/bin/true", sim=False)
    assert gdb[0].strip() == "gpumem record"
    assert gdb[1].split("\n")[:3] == ["gpumem record start", "gpumem record status", "gpumem record stop"]
    assert gdb[2].strip() == "gpumem info --json"


def test_completion_offers_options_and_blocks(run_gdb):
    """The options of each question; and for a block, the numbers of allocated blocks."""
    typed = ["complete gpumem events --", "complete gpumem blocks --w", "complete gpumem why #1"]
    gdb = run_gdb(["complete gpumem why #", "gpumem record --engine agent", "gpumem until step=2", *typed, "gpumem blocks"], EXAMPLES / "amp.py")
    assert gdb[0].strip() == ""
    assert {"gpumem events --collectives", "gpumem events --from=", "gpumem events --json"} <= set(gdb[3].splitlines())
    assert "gpumem blocks --where" in gdb[4]
    numbers = re.findall(r"^ *#(1\d*) ", gdb[6], re.M)
    assert numbers and {f"gpumem why #{number}" for number in numbers} <= set(gdb[5].splitlines())


@pytest.mark.every_debugger
def test_step_stops_at_the_next_event_and_shows_it(session):
    assert re.match(r"#0 +alloc ", [line for line in session.said["step"].splitlines() if line.startswith("#")][0])
    assert re.search(r"^#2 ", session.said["step 2"], re.M)
    assert "the program ended before that event" in session.said["step too far"]


def test_step_and_until_start_the_program_where_none_runs(run_gdb, cpu_loop):
    gdb = run_gdb([RECORD, "gpumem until step=2", "kill", "gpumem step 3"], cpu_loop, sim=False)
    assert re.search(r"^#[0-9]+ .* step 2 ", gdb["gpumem until step=2"], re.M), gdb.out
    assert re.search(r"^#2 ", gdb["gpumem step 3"], re.M), gdb.out


@pytest.mark.long  # test_linear_loop.py and test_walk.py also use `until` with a step
def test_until_stops_where_the_iteration_begins(run_gdb):
    gdb = run_gdb(
        ["gpumem record", "tbreak Py_RunMain", "run", "gpumem until step=2", "gpumem events --json", "gpumem until step=2",
         "gpumem until step=3", "continue"],
        LOOP,
    )
    events = gdb["gpumem events --json"].json_lines()
    assert events[-1]["step"] == 2 and {event["step"] for event in events[:-2]} <= {0, 1, None}
    assert "in step 2 already" in gdb[5]
    assert re.search(r"step 3", gdb["gpumem until step=3"])
    assert "exited normally" in gdb["continue"]


FORKS = """
import os, subprocess, sys, torch
first = torch.empty(100)
if os.fork() == 0:
    child = torch.empty(200)
    os._exit(3)
print("child", os.waitstatus_to_exitcode(os.wait()[1]))
print(subprocess.run([sys.executable, "-c", "print('sub')"], capture_output=True, text=True).stdout)
last = torch.empty(300)
"""


def test_children_are_left_alone(run_gdb, tmp_path):
    program = tmp_path / "forks.py"
    program.write_text(FORKS)
    gdb = run_gdb([RECORD, "run", "gpumem events --json"], program, sim=False)
    assert "child 3" in gdb["run"] and "sub" in gdb["run"]
    sizes = [event["size"] for event in gdb["gpumem events --json"].json_lines() if event["action"] == "alloc"]
    assert sizes[0] == 400 and sizes[-1] == 1200 and 800 not in sizes


def test_a_followed_child_is_recorded_in_the_parents_place(run_gdb, tmp_path):
    program = tmp_path / "forks.py"
    program.write_text(FORKS.replace("first =", "print('imported', flush=True)\nfirst ="))
    # torch starts programs of its own while it is imported
    followed = ["tcatch syscall write", "run", "set follow-fork-mode child", "continue"]
    gdb = run_gdb([RECORD, *followed, "gpumem events --json"], program, sim=False)
    assert 800 in [event["size"] for event in gdb["gpumem events --json"].json_lines()]


def test_a_program_that_replaces_itself_is_recorded_again(run_gdb, tmp_path):
    program = tmp_path / "execs.py"
    program.write_text(
        "import os, sys, torch\n"
        "if len(sys.argv) == 1:\n"
        "    os.execv(sys.executable, [sys.executable, __file__, 'again'])\n"
        "one = torch.empty(1234)\n"
    )
    gdb = run_gdb([RECORD, "run", "gpumem events --json"], program, sim=False)
    assert gdb["run"].count("gpumem: recorded") == 2
    assert 4936 in [event["size"] for event in gdb["gpumem events --json"].json_lines()]
    assert "exited normally" in gdb["run"]


@pytest.fixture(scope="module")
def recorded_by_the_agent(run_gpumem, python, tmp_path_factory):
    log = tmp_path_factory.mktemp("agent") / "run.gpumem"
    run_gpumem("run", "--sim", "-o", log, "--", python, LOOP).check()
    return log


@pytest.mark.every_debugger
def test_each_debugger_sees_what_the_agent_sees(run_gdb, run_gpumem, recorded_by_the_agent):
    log = recorded_by_the_agent
    gdb = run_gdb(["gpumem record", "run", "gpumem events --json"], LOOP)
    theirs, ours = (
        [(event["action"], event["size"], event.get("requested"), event["step"]) for event in events]
        for events in (run_gpumem("events", log, "--json").check().json_lines(), gdb["gpumem events --json"].json_lines())
    )
    assert len(ours) > 20 and ours == theirs, gdb.out
    assert "Unwinder" not in gdb.out and "Python Exception" not in gdb.out


def test_a_debugger_is_chosen_by_path_or_by_the_environment(run_gpumem, gdb_works, tmp_path):
    debugger = tmp_path / "my gdb"
    debugger.write_text('#!/bin/sh\necho mine; exec gdb "$@"\n')
    debugger.chmod(0o755)
    wanted = {**os.environ, "GPUMEM_GDB": str(debugger)}
    for words, keys in ([["--gdb", debugger], {}], [[f"--gdb={debugger}"], {}], [[], {"env": wanted}]):
        done = run_gpumem("gdb", *words, "-batch", "-ex", "gpumem info", "--", "/bin/true", **keys)
        assert done.out.startswith("mine\n") and "gpumem record" in done.out + done.err, done.out + done.err
    assert str(debugger) in run_gpumem("doctor", env=wanted).check().out
    assert "mine" not in run_gpumem("gdb", "--gdb", "gdb", "-batch", "--", "/bin/true", env=wanted).check().out
    for words in ["--gdb", "/none/gdb"], ["--gdb", "none-gdb"]:
        assert "no such program: name a gdb with --gdb" in run_gpumem("gdb", *words).check(4).err
    run_gpumem("gdb", "--gdb").check(2)
    run_gpumem("gdb", "--gdb=", "--", "/bin/true").check(2)
    lost = {**os.environ, "GPUMEM_GDB": "/none/gdb"}
    assert "name a gdb with GPUMEM_GDB" in run_gpumem("gdb", env=lost).check(4).err
    assert "which GPUMEM_GDB names, does not exist" in run_gpumem("doctor", env=lost).check().out


@pytest.mark.every_debugger
@pytest.mark.parametrize("home", [None, "/nowhere"])
def test_the_program_has_the_python_settings_of_the_user_who_started_gdb(run_gdb, tmp_path, home):
    """A gdb that is installed as a Python package sets some of these variables for itself."""
    shown = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH", "PYTHONNOUSERSITE")}
    if home:
        shown |= {"PYTHONPATH": f"{home}/a b:{home}"}
    gdb = run_gdb(["run"], "/usr/bin/env", sim=False, env=shown)
    found = dict(line.split("=", 1) for line in gdb["run"].splitlines() if line.startswith("PYTHON"))
    assert found.pop("PYTHONPATH", None) == (f"{home}/a b:{home}" if home else None)
    assert not {"PYTHONHOME", "PYTHONNOUSERSITE"} & set(found)
