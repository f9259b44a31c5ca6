"""The timeline as a window of gdb's TUI."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import pytest

from conftest import EXAMPLES, PYTHON

PROGRAM = EXAMPLES / "linear_loop.py"

# A stand-in for the window that gdb gives, so that what is drawn can be read line by line.
STUB = """
import gdb
from gpumem import window

class Stub:
    def __init__(self, width, height):
        self.width, self.height, self.text, self.drawn = width, height, "", 0
    def is_valid(self):
        return True
    def erase(self):
        self.text = ""
    def write(self, text):
        self.text, self.drawn = self.text + text, self.drawn + 1

stub = Stub(70, 20)
shown = window.Window(stub)

def tell():
    print(f"drawn {stub.drawn}, title {stub.title}")
    print(stub.text)

def resize(width, height):
    stub.width, stub.height = width, height
    shown.render()
    tell()

def prompt():
    shown.refresh()
    tell()

def scroll(count):
    shown.vscroll(count)
    tell()

class Ascii(Stub):
    def write(self, text):
        text.encode("ascii")
        super().write(text)

def plainly():
    other = Ascii(70, 20)
    window.Window(other).render()
    print(other.text)

def broken():
    session = window.session
    window.session = lambda: 1 // 0
    shown.seen = None
    shown.render()
    window.session = session
    tell()

def broken_at_a_prompt():
    prompt()
    session = window.session
    window.session = lambda: 1 // 0
    prompt()
    prompt()
    window.session = session
    prompt()
"""


@pytest.fixture(scope="module")
def drawn(run_gdb, tmp_path_factory):
    stub = tmp_path_factory.mktemp("window") / "stub.py"
    stub.write_text(STUB)
    commands = [f"source {stub}", "python prompt()", "gpumem record", "gpumem until step=2", "python prompt()", "python prompt()"]
    commands += ["gpumem timeline", "gpumem until step=3", "python prompt()", "python resize(40, 4)", "python scroll(2)"]
    commands += ["python scroll(-9)", "python resize(70, 20)", "python plainly()", "kill", "python prompt()", "python broken()", "python broken_at_a_prompt()"]
    return run_gdb(commands, PROGRAM)


def lines_of(section):
    head, *lines = section.rstrip("\n").split("\n")
    return int(re.match(r"drawn (\d+), title gpumem timeline$", head)[1]), lines


def peak_of(lines):
    return re.search(r"allocated over (\d+) events", "\n".join(lines))[1]


def test_the_window_shows_the_timeline_of_the_events_so_far(drawn):
    prompts = [lines_of(section) for command, section in zip(drawn.commands, drawn.sections) if command == "python prompt()"]
    (before, nothing), (first, lines), (again, same), (later, further), _ = prompts
    assert nothing == ["Nothing is recorded yet: type `gpumem record`, then `run`."] and before == 1
    # drawn once for new events, and not where there are none
    assert (first, again, later) == (2, 2, 3) and same == lines
    assert int(peak_of(further)) > int(peak_of(lines)) > 0
    assert any("█" in line for line in lines) and any(line.strip().startswith("phase") for line in lines)
    said = drawn["gpumem timeline"].splitlines()
    assert lines[0] == said[0][:69] and len(lines) == min(20, len(said))


def test_lines_are_cut_to_the_window_and_scrolled(drawn):
    _, small = lines_of(drawn["python resize(40, 4)"])
    assert len(small) == 4 and all(len(line) < 40 for line in small)
    assert lines_of(drawn["python scroll(2)"])[1][:2] == small[2:]
    assert lines_of(drawn["python scroll(-9)"])[1] == small
    assert len(lines_of(drawn["python resize(70, 20)"])[1]) == 20


def test_a_terminal_without_block_characters_gets_ascii(drawn):
    text = drawn["python plainly()"]
    assert text.isascii() and "##" in text and "allocated over" in text


def test_an_error_is_shown_in_the_window(drawn):
    _, lines = lines_of(drawn["python broken()"])
    assert len(lines) == 1 and lines[0].startswith("gpumem: timeline: ")
    after = drawn.sections[len(drawn.commands) - 3]  # the program was killed: its recording is still there
    assert "allocated over" in after


def test_an_error_at_a_prompt_is_shown_in_the_window_and_only_once(drawn):
    shown = [lines_of("drawn " + part) for part in drawn["python broken_at_a_prompt()"].split("drawn ")[1:]]
    (before, _), (broken, lines), (again, same), (after, timeline) = shown
    assert (broken, again, after) == (before + 1, before + 1, before + 2)
    assert lines == same and len(lines) == 1 and lines[0].startswith("gpumem: timeline: ")
    assert "allocated over" in "\n".join(timeline)


def in_terminal(words, env, expected, end):
    """Runs a program in a terminal of 40 lines and 130 columns, and types `end` when all that is expected has been written: (exit
    status, what it wrote)."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.execvpe(words[0], list(map(str, words)), env)
        finally:
            os._exit(127)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 130, 0, 0))
    written, deadline = "", time.monotonic() + 600
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        if not select.select([terminal], [], [], max(deadline - time.monotonic(), 0))[0]:
            os.kill(pid, signal.SIGKILL)
            break
        try:
            some = os.read(terminal, 65536)
        except OSError:  # the program has ended
            break
        written += decoder.decode(some)
        if end and all(word in written for word in expected):
            os.write(terminal, end)
            end = b""
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), written


@pytest.mark.every_debugger
def test_the_layout_has_the_window_next_to_the_source(run_gdb, gpumem):
    if run_gdb.debugger == "cuda-gdb":  # a gdb 10, whose windows show one line of a text
        names = "complete layout gpumem"
        assert run_gdb([names])[names] == ""
        return
    debugger = ["--gdb", run_gdb.path] if run_gdb.debugger != "gdb" else []
    # the newest one would ask whether to fetch debug information
    asks = ["-iex", "set debuginfod enabled off"] if run_gdb.debugger == "newest-gdb" else []
    words = [gpumem, "gdb", *debugger, "--sim", "-q", *asks, "-iex", "set style enabled off"]
    for command in ["set confirm off", "set pagination off", "gpumem record", "gpumem until step=2", "layout gpumem"]:
        words += ["-ex", command]
    env = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
    expected = ["gpumem timeline", "allocated over", "phase", "█"]
    status, text = in_terminal([*words, "--", PYTHON, PROGRAM], env, expected, b"tui disable\nkill\nquit\n")
    assert status == 0 and all(word in text for word in expected), text[-6000:]
    assert "Python Exception" not in text


def test_a_gdb_without_windows_works_and_prints_no_error(run_gdb):
    names = "complete layout gpumem"
    usual = run_gdb([names])
    assert usual[names].split() == ["layout", "gpumem"]
    taken = "python import gdb; del gdb.register_window_type; from gpumem import window; window.install()"
    run = run_gdb(["gpumem record", taken, "gpumem until step=2", "gpumem timeline", "kill"], PROGRAM)
    assert run[taken] == "" and "allocated over" in run["gpumem timeline"]
