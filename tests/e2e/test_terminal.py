"""What is different on a terminal: long answers are paged, and a file is not replaced without a question."""

import re
import subprocess

import pytest

from terminal import Terminal

ROUNDS = 200
EVENTS = 3 * ROUNDS + 1  # more than any of these terminals has rows


@pytest.fixture(scope="module")
def recording(tmp_path_factory, run_gpumem, python):
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "many.py").write_text(f"import torch\nfor _ in range({ROUNDS}):\n    torch.empty(1 << 20, dtype=torch.uint8, device='cuda')\n")
    run_gpumem("run", "--sim", "-o", folder / "run.gpumem", "--", python, folder / "many.py").check()
    return folder / "run.gpumem"


def test_a_long_answer_goes_through_the_pager(gpumem, recording, run_gpumem):
    terminal = Terminal([gpumem, "events", recording], columns=200, PAGER="sed s/^/paged:/")
    assert terminal.finish() == 0
    lines = terminal.shown.splitlines()
    assert len(lines) == len(run_gpumem("events", recording).check().out.splitlines()) == EVENTS
    assert all(line.startswith("paged:") for line in lines)


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (["--no-pager", "events"], {}),
        (["events", "--no-pager"], {}),
        (["events", "--to=3"], {}),  # it fits on the screen
        (["events"], {"GPUMEM_PAGER": ""}),
        (["events"], {"GPUMEM_PAGER": "cat"}),
        (["events"], {"TERM": "dumb"}),
        (["events"], {"GPUMEM_PAGER": "/no/such/pager"}),
    ],
)
def test_an_answer_is_not_paged_where_it_should_not_be(gpumem, recording, words, variables):
    terminal = Terminal([gpumem, *words, recording], **{"PAGER": "sed s/^/paged:/", **variables})
    assert terminal.finish() == 0
    assert "segment_alloc" in terminal.shown and "paged:" not in terminal.shown


def test_an_answer_into_a_pipe_is_not_paged(recording, run_gpumem):
    assert "paged" not in run_gpumem("events", recording, env={"PAGER": "echo paged"}).check().out


def test_lines_that_wrap_count_as_rows(gpumem, recording):
    """Ten lines on a screen of twelve rows fit it where it is wide, and not where they wrap."""
    for columns, paged in ((200, False), (30, True)):
        terminal = Terminal([gpumem, "events", "--to=9", recording], rows=14, columns=columns, PAGER="sed s/^/paged:/")
        assert terminal.finish() == 0 and ("paged:" in terminal.shown) == paged, terminal.shown


def joined(text):
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("question", [["info"], ["peak"], ["peak", "--by=stack"], ["events", "--stacks"], ["steps"], ["segments"], ["timeline"], ["blocks"]])
@pytest.mark.parametrize("columns", [80, 57])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_cut(gpumem, recording, run_gpumem, question, columns):
    """All of the answer is there, but for columns of a table that may be left out."""
    terminal = Terminal([gpumem, "--no-pager", *question, recording], columns=columns)
    assert terminal.finish() == 0
    for line in terminal.shown.splitlines():
        assert len(line) <= columns or " " not in line.strip(), line
    if question[0] != "timeline":  # its plot has the terminal's width
        words = set(run_gpumem(*question, recording).check().out.split())
        assert set(terminal.shown.split()) <= words
    if question[0] in ("info", "events"):  # no table
        assert joined(terminal.shown).strip() == joined(run_gpumem(*question, recording).check().out).strip()


def test_json_is_not_wrapped(gpumem, recording, run_gpumem):
    terminal = Terminal([gpumem, "--no-pager", "info", "--json", recording], columns=20)
    assert terminal.finish() == 0
    assert terminal.shown.replace("\r", "") == run_gpumem("info", "--json", recording).check().out


def test_quitting_the_pager_early_ends_the_command(gpumem, recording):
    terminal = Terminal([gpumem, "events", "--stacks", recording], PAGER="head -n 2")
    assert terminal.finish() == 0
    assert len(terminal.shown.splitlines()) == 2


def test_an_error_is_not_paged(gpumem, tmp_path):
    terminal = Terminal([gpumem, "events", tmp_path / "none"], rows=2, PAGER="sed s/^/paged:/")
    assert terminal.finish() == 3 and "cannot be opened" in terminal.shown and "paged:" not in terminal.shown


def test_quiet_is_without_notes_and_with_errors(run_gpumem, recording, python, tmp_path):
    program = [python, "-c", "import torch; torch.empty(1, device='cuda'); print('its own')"]
    noted = run_gpumem("run", "--sim", "-o", tmp_path / "a.gpumem", "--", *program).check()
    assert "gpumem: recorded " in noted.err and "gpumem sim: " in noted.err
    for words in (["--quiet", "run"], ["-q", "run"], ["run", "--quiet"]):
        quiet = run_gpumem(*words, "--sim", "-o", tmp_path / "b.gpumem", "--", *program).check()
        assert (quiet.out, quiet.err) == ("its own\n", "") and (tmp_path / "b.gpumem").exists(), words
        (tmp_path / "b.gpumem").unlink()
    assert "no/such" in run_gpumem("--quiet", "peak", "no/such").check(3).err
    cut = tmp_path / "cut.gpumem"
    cut.write_bytes(recording.read_bytes()[:-100])
    assert "truncated" in run_gpumem("--quiet", "info", cut).err  # the answer is of a part
    # behind the program's name it is the program's word
    assert run_gpumem("run", "--no-record", "echo", "--quiet").check().out == "--quiet\n"


def test_export_says_what_it_wrote_and_asks_before_it_replaces(gpumem, recording, run_gpumem, tmp_path):
    out = tmp_path / "out.csv"
    words = [gpumem, "export", recording, "--to", "csv", "-o", out]
    said = run_gpumem(*words[1:]).check().out
    assert said.startswith(f"{out}: {EVENTS} events as csv in ") and out.exists()
    out.write_text("kept\n")
    terminal = Terminal(words)
    terminal.until("replace it? [y/N]")
    terminal.type("\n")
    assert terminal.finish() == 1 and "not replaced" in terminal.shown and out.read_text() == "kept\n"
    terminal = Terminal(words)
    terminal.until(f"{out} exists (5 B): replace it? [y/N]")
    terminal.type("y\n")
    assert terminal.finish() == 0 and out.read_text() != "kept\n"
    out.write_text("kept\n")
    terminal = Terminal([*words, "--force"])
    assert terminal.finish() == 0 and "replace it?" not in terminal.shown and out.read_text() != "kept\n"
    out.write_text("kept\n")
    run_gpumem(*words[1:]).check()  # a script is not asked
    assert out.read_text() != "kept\n"
    # into a pipe only the data goes
    piped = subprocess.run([*words[:-1], "/dev/stdout"], stdout=subprocess.PIPE, check=True, text=True).stdout
    assert piped == out.read_text()


def test_gdb_begins_with_a_line_on_gpumem(gpumem):
    for words, told in (([], True), (["-q"], False), (["-batch", "-ex", "show version"], False)):
        terminal = Terminal([gpumem, "gdb", "-nx", *words], DEBUGINFOD_URLS="")
        if "-batch" not in words:
            terminal.until("(gdb)")
            terminal.type("quit\n")
        terminal.finish()
        assert ("`help gpumem` lists the questions" in terminal.shown) == told, terminal.shown
        assert told or "gpumem 0" not in terminal.shown
