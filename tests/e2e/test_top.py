"""`gpumem top` in a real terminal, and what `--on-oom` does without a debugger."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from terminal import Terminal

GROWS = """
import sys, torch
held = []
print("begun", flush=True)
for step in range(10 ** 6):
    held.append(torch.empty(1 << 20, dtype=torch.uint8, device="cuda"))
    if step == 20:
        sys.stdin.readline()
        break
"""

FULL = """
import torch
held = []
try:
    while True:
        held.append(torch.empty(100 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError:
    print("caught after", len(held), flush=True)
"""


def test_top_shows_a_recorded_process_in_a_terminal(spawn, run_gpumem, gpumem, python, sim_env, tmp_path):
    program = tmp_path / "grows.py"
    program.write_text(GROWS)
    process = spawn([python, program], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    assert "not recorded" in run_gpumem("top", process.pid).check(4).err
    run_gpumem("attach", "--timeout", "600", process.pid, "-o", tmp_path / "run.gpumem").check()
    terminal = Terminal([gpumem, "top", process.pid], rows=30, columns=100)
    shown = terminal.until("21.00 MiB")
    terminal.type("q")
    assert terminal.finish() == 0 and "cuda:0" in shown and f"process {process.pid}" in shown, shown
    once = run_gpumem("top", process.pid, "--once").check().out
    assert "21.00 MiB allocated of 22.00 MiB reserved" in once, once
    process.communicate("\n", timeout=600)
    assert process.returncode == 0


MANY = "\n".join(
    [
        "import torch; held = []",  # line 1; line N allocates N MiB
        *[f"held.append(torch.empty({size} << 20, dtype=torch.uint8, device='cuda'))" for size in range(2, 42)],
        "print('begun', flush=True); input()",
    ]
)


def test_the_keys_of_top_sort_filter_scroll_and_do_not_end_it_by_accident(spawn, gpumem, python, tmp_path):
    folder = Path(tempfile.mkdtemp(prefix="top-"))  # a short name, which is not cut
    program = folder / "many.py"
    program.write_text(MANY)
    run = spawn([gpumem, "run", "--sim", "-o", tmp_path / "run.gpumem", "--", python, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert run.stdout.readline() == "begun\n"
    pid = int(subprocess.run(["pgrep", "-P", str(run.pid), "-f", f"^{python}"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    terminal = Terminal([gpumem, "top", "--delay", "60", pid], rows=40, columns=100)
    assert "(lines 1 to 22 of 40)" in terminal.until("q ends") and "many.py:41 " in terminal.shown and "many.py:2 " not in terminal.shown

    def after(keys, until):
        terminal.shown = ""
        terminal.type(keys + "\x0c")  # all of the screen is written again
        return terminal.until(until)

    after("x\x1b\x1b[Cz", "sorted by size")  # what means nothing, and Escape, do not end it
    assert "(lines 19 to 40 of 40)" in after("\x1b[6~", "many.py:2 ")
    after("\x1bOA", "(lines 18 to 39 of 40)")
    after("\x1bOH", "(lines 1 to 22 of 40)")
    after("s", "sorted by blocks")
    assert "many.py:10 " in after("s", "sorted by line")  # the status line is written last
    after("s", "sorted by size")
    after("/", "filter: _")
    assert "q ends" not in after("y.py:7", "filter: y.py:7_")
    shown = after("\n", "/ filtered")
    after("\x1b", "/ filter ")
    after("h", "any key ends it")
    after("q", "sorted by size")  # that key ended the help
    assert os.waitpid(terminal.child, os.WNOHANG) == (0, 0)
    terminal.type("q")
    assert terminal.finish() == 0
    run.communicate("\n", timeout=600)
    assert run.returncode == 0


def stopped(pid):
    return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T"


def assert_told(told):
    """The verdict at the moment of the error, when only the agent knows the request."""
    assert told["top"][0]["bytes"] == 8 * (100 << 20), told
    assert (told["verdict"], told["requested"], told["allocated"]) == ("capacity", 100 << 20, 8 * (100 << 20))
    assert told["total"] == 1 << 30 and told["python"][0]["line"] == 6


def test_on_oom_stop_stops_the_program_where_it_ran_out(spawn, run_gpumem, gpumem, python, tmp_path, wait_for):
    program, log = tmp_path / "full.py", tmp_path / "run.gpumem"
    program.write_text(FULL)
    run = spawn(
        [gpumem, "run", "--sim=1GiB", "-o", log, "--on-oom", "stop", "--", python, program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    line = next(line for line in run.stderr if "ran out of GPU memory and is stopped at the error" in line)
    pid = int(re.search(r"process (\d+)", line)[1])
    wait_for(lambda: stopped(pid))
    told = run_gpumem("oom", "--pid", pid, "--json").check().json()
    assert_told(told)
    os.kill(pid, 18)  # SIGCONT
    out, _ = run.communicate(timeout=600)
    assert run.returncode == 0 and "caught after 8" in out
    assert run_gpumem("oom", log, "--json").check().json()["requested"] == 100 << 20


def test_on_oom_core_writes_a_core_and_the_program_goes_on(run, run_gpumem, gpumem, python, tmp_path):
    program = tmp_path / "full.py"
    program.write_text(FULL)
    line = [gpumem, "run", "--sim=1GiB", "-o", tmp_path / "run.gpumem", "--on-oom", "core", "--", python, program]
    finished = run(line, cwd=tmp_path).check()
    assert "caught after 8" in finished.out
    assert finished.err.splitlines()[-1] == "gpumem: next: gpumem oom run.gpumem"
    core = next(tmp_path.glob("core.*"))
    told = run_gpumem("oom", core, "--json").check().json()
    kept = run_gpumem("retained", core).check().out
    held = run_gpumem("who-holds", core, "held[0]").check().out
    peak = run_gpumem("peak", core).check().out
    doctor = run_gpumem("doctor", "--core", core).check().out
    core.unlink()
    # the recording that it was writing has changed since, and is none of its libraries
    assert "all are unchanged on this disk" in doctor, doctor
    assert_told(told)
    assert "global 'held'" in kept and "global 'held'" in held and "full.py" in peak, (kept, held, peak)


def reports(folder):
    return sorted(folder.glob("*.oom.txt"))


@pytest.mark.parametrize("way", ["option", "environment"])
def test_on_oom_report_writes_to_stderr_and_to_a_file(run, gpumem, python, tmp_path, way):
    program = tmp_path / "full.py"
    program.write_text(FULL)
    option = ["--on-oom", "report"] if way == "option" else []
    line = [gpumem, "run", "--sim=1GiB", "-o", tmp_path / "run.gpumem", *option, "--", python, program]
    finished = run(line, cwd=tmp_path, env={**os.environ, **({} if option else {"GPUMEM_ON_OOM": "report"})}).check()
    assert "caught after 8" in finished.out  # the program got its exception
    (path,) = reports(tmp_path)
    text = path.read_text()
    assert path.name == "run.oom.txt" and path.stat().st_mode & 0o777 == 0o600
    assert "100.00 MiB (104,857,600 bytes) did not fit" in text and "verdict: capacity" in text and "global 'held'" in text
    assert "next:" not in text  # the process has ended when the report is read
    assert text in finished.err and f"this report is in {path}" in finished.err


def test_a_report_never_suppresses_the_exception(run, gpumem, python, tmp_path):
    """If the report's file cannot be made or gpumem fails, there is one line, and the program continues."""
    program, elsewhere = tmp_path / "full.py", tmp_path / "elsewhere"
    program.write_text(FULL)
    elsewhere.write_text("kept\n")
    (tmp_path / "run.oom.txt").symlink_to(elsewhere)
    line = [gpumem, "run", "--sim=1GiB", "-o", tmp_path / "run.gpumem", "--on-oom", "report", "--", python, program]
    finished = run(line, cwd=tmp_path).check()
    assert "caught after 8" in finished.out and elsewhere.read_text() == "kept\n"
    assert len([one for one in finished.err.splitlines() if "no report" in one]) == 1, finished.err
    (tmp_path / "run.oom.txt").unlink()
    program.write_text("import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n" + FULL)  # the file cannot be written either


@pytest.mark.parametrize("owner", ["another user", "the same user"])
def test_a_report_is_not_written_into_another_users_file(run, gpumem, python, tmp_path, owner):
    """Whoever may create files in the folder could read it there."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a file another user's")
    program, there, other = tmp_path / "full.py", tmp_path / "run.oom.txt", tmp_path / "other"
    program.write_text(FULL)
    there.write_text("old\n")
    if owner == "another user":
        os.chown(there, 65534, 65534)
    os.link(there, other)
    line = [gpumem, "run", "--sim=1GiB", "-o", tmp_path / "run.gpumem", "--on-oom", "report", "--", python, program]
    finished = run(line, cwd=tmp_path).check()
    (path,) = [path for path in reports(tmp_path) if path != there or owner == "the same user"]
    assert "verdict: capacity" in path.read_text() and f"this report is in {path}" in finished.err
    assert other.read_text() == "old\n"


IGNORES = "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
HANDLES = "import signal\nsignal.signal(signal.SIGCHLD, lambda *_: print('a child has ended'))\n"


@pytest.mark.parametrize("before", [IGNORES, HANDLES], ids=["ignored", "handled"])
@pytest.mark.parametrize("what", ["report", "core"])
def test_the_programs_way_with_sigchld_does_not_matter_and_it_gets_none(run, gpumem, python, tmp_path, what, before):
    program = tmp_path / "full.py"
    program.write_text(before + FULL)
    line = [gpumem, "run", "--sim=1GiB", "-o", tmp_path / "run.gpumem", "--on-oom", what, "--", python, program]
    finished = run(line, cwd=tmp_path).check()
    assert "caught after 8" in finished.out and "a child has ended" not in finished.out
    made = {"report": "this report is in", "core": "a core of it is in"}
    assert made[what] in finished.err and len(list(tmp_path.glob({"report": "*.oom.txt", "core": "core.*"}[what]))) == 1


def test_each_process_has_its_own_report(run, gpumem, python, tmp_path):
    program = tmp_path / "two.py"
    program.write_text(f"import os\nif os.fork() == 0:\n    exec({FULL!r})\n    os._exit(0)\nos.wait()\n{FULL}")
    line = [gpumem, "run", "--sim=1GiB", "-o", tmp_path / "run.gpumem", "--on-oom", "report", "--", python, program]
    finished = run(line, cwd=tmp_path).check()
    assert finished.out.count("caught after 8") == 2
    assert len(reports(tmp_path)) == 2
    assert all("verdict: capacity" in path.read_text() for path in reports(tmp_path))
