"""No name acts on a terminal or forges a line: every text view, of every command, of a recording, a snapshot, a process, a core
and of what cannot be read. The names are those of hostile.py."""

import csv
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from hostile import ACTS, check_text, hostile, short  # noqa: E402

PROGRAM = Path(__file__).parent / "programs" / "hostile_names.py"
OF_A_LOG = [
    ("info",), ("events",), ("blocks",), ("blocks", "--at-peak"), *[("blocks", "--at-peak", "--by", by) for by in
    ("line", "stack", "category", "phase", "module", "label")], ("blocks", "--at-peak", "--explain"), ("timeline",), ("peak",),
    ("peak", "--tree"), ("steps",), ("steps", "--explain"), ("phases",), ("leaks",), ("segments",), ("segments", "--request=1GiB"),
    ("advise",), ("advise", "--all"), ("oom",), ("view",), ("diff",), *[("diff", "--by", by) for by in ("line", "category", "module")], ("peak", "--device", "0"),
    *[("peak", "--by", by) for by in ("line", "stack", "category", "phase", "module", "label")], ("events", "--from=0", "--to=5"),
]  # fmt: skip
OF_A_TARGET = [("info",), ("blocks",), ("segments",), ("retained",), ("retained", "--depth", "9"), ("retained", "--cpu"), ("oom",), ("doctor",),
               ("events",), ("timeline",), ("peak",), ("phases",), ("steps",), ("leaks",), ("segments", "--request=1GiB"),
               *[("blocks", "--by", by) for by in ("line", "stack", "category", "module", "label", "variable")], ("blocks", "--tree"),
               ("blocks", "--explain")]  # fmt: skip


def run_bytes(command, **keys):
    """What it prints on both streams, and its status."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, timeout=600, **keys)
    return done.stdout, done.stderr, done.returncode


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder whose own name is hostile."""
    made = tmp_path_factory.mktemp("hostile") / short("folder")
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def files(gpumem, python, folder, tmp_path_factory):
    """A recording and a snapshot of the program, with what `run` printed. The agent takes no path with a line's end."""
    recording, taken = folder / f"{short('recording')}.gpumem", folder / f"{short('snapshot')}.pickle"
    made = tmp_path_factory.mktemp("made") / "\x1b[2J\u202erecording.gpumem"
    out, err, status = run_bytes([gpumem, "run", "--sim", "-o", made, "--", python, PROGRAM, taken])
    assert status == 0, err
    made.rename(recording)
    return {"recording": recording, "snapshot": taken, "err": err, "out": out}


@pytest.fixture(scope="module")
def targets(gpumem, python, folder, tmp_path_factory):
    """The program as a process that waits, and a core of it."""
    process = subprocess.Popen(
        [gpumem, "run", "--sim", "--no-record", "--", python, PROGRAM, folder / "of_a_process.pickle", "wait"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        for line in process.stdout:
            if line == "ready\n":
                break
        core = folder / short("core")
        out, err, status = run_bytes([gpumem, "core", process.pid, "-o", core])
        assert status == 0, err
        check_text(out)
        check_text(err)
        yield {"pid": process.pid, "core": core}
        core.unlink()
    finally:
        process.kill()
        process.wait()


def test_what_run_prints_is_safe(files):
    check_text(files["err"])


@pytest.mark.parametrize("view", OF_A_LOG, ids="-".join)
@pytest.mark.parametrize("file", ["recording", "snapshot"])
def test_views_of_a_log_are_safe(view, file, files, gpumem):
    named = [files[file]] * (2 if view[0] == "diff" else 1)
    out, err, status = run_bytes([gpumem, view[0], *named, *view[1:]])
    assert status in (0, 1, 2, 4), err  # not every view has an answer of each: a reason is a text too
    check_text(out)
    check_text(err)


def events_of(gpumem, file):
    """JSON has the names themselves."""
    out, err, status = run_bytes([gpumem, "events", file, "--json"])
    assert status == 0, err
    return [json.loads(line) for line in out.decode().split("\n") if line]


@pytest.mark.parametrize("view", [("info",), ("peak",), ("peak", "--by", "line")], ids="-".join)
def test_views_of_several_files_are_safe(view, files, gpumem):
    out, err, status = run_bytes([gpumem, view[0], files["recording"], files["snapshot"], files["recording"], *view[1:]])
    assert status in (0, 1, 2, 4), err
    check_text(out)
    check_text(err)


def test_an_errors_text_is_safe(gpumem, tmp_path):
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. "
    text += f"Process {hostile('process')} has 5.00 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch. {hostile('rest')}\n"
    file = tmp_path / short("text")
    for content in (text, hostile("nothing of PyTorch's"), text[:-200], hostile("before") + "\n" + text):
        file.write_text(content)
        out, err, status = run_bytes([gpumem, "oom", "--text", file])
        assert status in (0, 1, 2, 3), err
        check_text(out)
        check_text(err)


def test_the_names_reach_the_views(files, gpumem):
    """Else the tests here would show nothing."""
    seen = b"".join(run_bytes([gpumem, view, files["recording"]])[0] for view in ("events", "peak", "steps", "info"))
    for name in (rb"file\x1b]0;owned\x07", rb"function of steps\x1b", rb"range\x1b", rb"metadata\x1b"):
        assert name in seen, name
    assert any(ACTS in frame["file"] for event in events_of(gpumem, files["recording"]) for frame in event["python"])


def test_why_is_safe_of_every_block(files, gpumem):
    events = events_of(gpumem, files["recording"])
    blocks = sorted({event["block"] for event in events} - {None})
    assert blocks
    for block in blocks:
        for view in (("why", f"#{block}"), ("blocks", f"--history={events[block]['address']}")):
            out, err, status = run_bytes([gpumem, view[0], files["recording"], view[1]])
            assert status == 0, err
            check_text(out)


@pytest.mark.parametrize("form", ["folded", "csv"])
@pytest.mark.parametrize("file", ["recording", "snapshot"])
def test_exports_that_are_read_by_lines_are_safe(form, file, files, gpumem, tmp_path):
    out, err, status = run_bytes([gpumem, "export", files[file], "--to", form, "-o", tmp_path / "out"])
    assert status == 0, err
    check_text(err)
    exported = (tmp_path / "out").read_bytes()
    check_text(exported.replace(b"\r\n", b"\n"))
    assert b"\\x1b" in exported
    if form == "folded":
        assert all(re.search(r" [0-9]+$", line) for line in exported.decode().splitlines())


def test_no_spreadsheet_takes_a_name_for_a_formula(gpumem, tmp_path):
    formulas = ["=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM", "\t=1+1", "\r=1+1"]
    trace = [
        {"action": "alloc", "addr": 4096 * n, "size": 512, "stream": 0,
         "frames": [{"filename": name, "line": 1, "name": name}]} for n, name in enumerate(formulas, 1)
    ]  # fmt: skip
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}))
    out, err, status = run_bytes([gpumem, "export", tmp_path / "snapshot.pickle", "--to", "csv", "-o", tmp_path / "out.csv"])
    assert status == 0, err
    rows = list(csv.DictReader((tmp_path / "out.csv").open(newline="")))
    cells = [row[column] for row in rows for column in ("file", "function")]
    assert len(cells) == 2 * len(formulas)
    assert [cell[0] for cell in cells] == ["'"] * 8 + ["\\"] * 4


@pytest.mark.parametrize("view", OF_A_TARGET, ids="-".join)
@pytest.mark.parametrize("target", ["pid", "core"])
def test_views_of_a_target_are_safe(view, target, targets, gpumem):
    out, err, status = run_bytes([gpumem, *view, f"--{target}", targets[target]])
    assert status in (0, 1, 2, 4), err
    check_text(out)
    check_text(err)


def test_saved_answers_are_safe(targets, gpumem, tmp_path):
    saved = tmp_path / short("saved")
    for command in (["retained", "--pid", targets["pid"], "--save", saved], ["retained", "--diff", saved, "--pid", targets["pid"]],
                    ["retained", "--diff", saved, saved], ["retained", "--diff", saved, "--core", targets["core"]]):  # fmt: skip
        out, err, status = run_bytes([gpumem, *command])
        assert status in (0, 1, 2), err
        check_text(out)
        check_text(err)


@pytest.mark.parametrize("target", ["pid", pytest.param("core", marks=pytest.mark.long)])
def test_holders_are_safe_and_named(target, targets, gpumem):
    out, err, status = run_bytes([gpumem, "blocks", f"--{target}", targets[target], "--json"])
    assert status == 0, err
    seen = b""
    for block in json.loads(out)["blocks"]:
        out, err, status = run_bytes([gpumem, "who-holds", block["address"], f"--{target}", targets[target]])
        assert status == 0, err
        check_text(out)
        check_text(err)
        seen += out
    for kind in ("key", "attribute", "module", "variable of main", "function attribute", "variable", "layer first"):
        assert kind.encode() + rb"\x1b]0;owned" in seen, kind


def test_recording_a_process_is_safe(targets, gpumem, tmp_path):
    pid = targets["pid"]
    recording = tmp_path / "\x1b[2J\u202eattached.gpumem"
    for command in (["attach", pid, "-o", recording], ["attach", pid, "-o", recording], ["info", "--pid", pid],
                    ["top", pid, "--once"], ["detach", pid], ["detach", pid]):  # fmt: skip
        out, err, status = run_bytes([gpumem, *command])
        assert status in (0, 4), err
        check_text(out)
        check_text(err)


def commands(gpumem):
    listed = run_bytes([gpumem, "--help"])[0].decode()
    return re.findall(r"^  ([a-z-]+) ", listed, re.M)


def test_every_command_refuses_a_hostile_word_safely(gpumem, tmp_path):
    """As file, as option, as number: what is wrong is told with its name."""
    every = commands(gpumem)
    assert len(every) >= 24
    refused = 0
    for command in [*every, hostile("command")]:
        for words in ([hostile("word")], [f"--{hostile('option')}"], ["--pid", hostile("number")], ["--core", hostile("core")],
                      ["-o", hostile("out"), hostile("word"), hostile("word")], ["--", hostile("program"), "{x}"],
                      ["--sim=" + hostile("profile"), "--", "true"]):  # fmt: skip
            if command == "gdb" and not words[0].startswith("--sim"):
                continue  # gdb itself tells what is wrong with its own arguments
            out, err, status = run_bytes([gpumem, command, *words], cwd=tmp_path)
            refused += status != 0
            check_text(out)
            check_text(err)
    assert refused > 6 * 24  # `doctor -- WORD` is no error


@pytest.mark.parametrize("called", [hostile("gpumem"), "", "/" + "x" * 5000], ids=["hostile", "empty", "long"])
def test_help_is_safe_with_any_program_name_and_argument(called, gpumem, tmp_path):
    """argp would print the name by which the program was called."""
    words = [["--help"], ["--usage"], ["--version"], ["-?"], ["--nonsense"], [], ["--help", hostile("word")], [hostile("word"), "--help"]]
    for command in commands(gpumem):
        words += [[command, "--help"]]
        if command != "gdb":
            words += [[command, "--usage"], [command, "--help", hostile("word")], [command, hostile("word"), "--help"], [command, f"--{hostile('option')}", "--help"]]
    for line in words:
        done = subprocess.run([called, *line], executable=gpumem, stdin=subprocess.DEVNULL, capture_output=True, timeout=600, cwd=tmp_path)
        assert done.returncode in (0, 1, 2, 4), line
        check_text(done.stdout)
        check_text(done.stderr)


def test_gdbs_commands_are_safe(gpumem, run_gdb, files, tmp_path):
    """Answers and refusals within gdb, one process a few commands."""
    (tmp_path / "empty").write_text("")
    script = tmp_path / "script.gdb"
    words = [f"gpumem peak '{files['recording']}'", "gpumem record save '/nowhere/\x1b[2J\u202eX'", "gpumem until '\x1b[2J\u202eX'",
             "gpumem why '\x1b[2J\u202eX'", "gpumem record '\x1b[2J\u202eX'"]  # fmt: skip
    words = [word for word in words if "\n" not in word]  # a line is a command there
    script.write_text("set width 0\n" + "".join(f"python\ntry: gdb.execute({word!r})\nexcept gdb.error as error: gdb.write(str(error) + '\\n')\nend\n" for word in words))
    link = tmp_path / "recording.gpumem"
    os.symlink(files["recording"], link)
    for command in (["-x", script], ["-ex", f"gpumem peak {link}"], ["-ex", f"gpumem info {link}"]):
        out, err, _ = run_bytes([gpumem, "gdb", "-batch", *command])
        check_text(out, tabs=True)
        check_text(err, tabs=True)
        assert b"x1b" in out + err
