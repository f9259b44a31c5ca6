"""What the probe learns of a CPython is what its headers say (core/cpython/versions/layout_3*.c, made from them)."""

import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
import pythons  # noqa: E402

PROBE = ROOT / "core/learn/python/probe.py"

# Why a field of the struct is not learned, or not as the headers have it. docs/learning-python.md tells the same.
NOT_LEARNED = {
    "interpreter_gc": "only a base for what is published by the binary; nothing is read there",
    "thread_size": "how much is read: up to the last field learned",
    "chunk_size": "no code reads it",
    "chunk_top": "no code reads it",
    "code_framesize": "no code reads it",
    "code_locals_count": "no code reads it",
    "exception_dict": "no code reads it: the type says where the dict is",
    "exception_notes": "CPython leaves it empty: notes are in the dict",
    "float_value": "no code reads it",
    "frame_is_entry": "no code reads it",
    "object_head": "no code reads it",
    "set_used": "no code reads it",
    "type_cache": "CPython leaves it empty",
    "wrapper_dict": "no code reads it: the type says where the dict is",
}


def probe(program):
    done = subprocess.run([program, "-I", "-S", "-B", PROBE, "1"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=600)  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "gpumem-python-probe 1" and lines[-1] == "end", done.stdout[-500:]
    return lines


def fields_of(lines):
    told = (line.split(" ") for line in lines if line.startswith("field "))
    return {name: int(value) for _, name, value in told}


def shipped(version):
    text = (ROOT / f"core/cpython/versions/layout_3{version[1]:02}.c").read_text()
    text = text[text.index("const struct gm_python_layout ") :].split("\n};", 1)[0]
    rows = dict(re.findall(r"^\t\.(\w+) = (-?\d+|GM_NO_FIELD),", text, re.M))
    assert len(rows) > 100
    return {name: int(value) for name, value in rows.items() if value != "GM_NO_FIELD"}


def known():
    return [(v, p) for v, p in pythons.pythons() if (ROOT / f"core/cpython/versions/layout_3{v[1]:02}.c").exists()]


# The first has frames of another kind than all others; from 3.11 on they lie in a stack of their own; the last tells of itself.
DAILY = ["3.9", "3.11", "3.14"]


def named(entry):
    return "%d.%d" % entry[0]


def most_long():
    """The versions, of which the everyday tests take three: for what takes seconds of each."""
    return [pytest.param(entry, marks=[] if named(entry) in DAILY else [pytest.mark.long], id=named(entry)) for entry in known()]


@pytest.mark.parametrize("entry", known(), ids=named)
def test_each_field_is_learned_as_the_headers_have_it(entry):
    version, program = entry
    lines = probe(program)
    learned, truth = fields_of(lines), shipped(version)
    assert learned["thread_size"] <= truth["thread_size"]
    for name in NOT_LEARNED:
        learned.pop(name, None)
        truth.pop(name, None)
    assert learned == truth, [li for li in lines if li.startswith("missing ")]


@pytest.mark.parametrize("entry", known(), ids=named)
def test_the_opcodes_are_those_of_the_shipped_table(entry):
    version, program = entry
    text = (ROOT / f"core/cpython/versions/opcodes_3{version[1]:02}.c").read_text()
    row = re.compile(r'\[(\d+)\] = \{"(\w+)", GM_OP_(\w+), GM_OP_(\w+), GM_ARGUMENT_(\w+), (\d+), (\d+), ([^,]+), '
                     r"\{GM_EFFECT_(\w+), (-?\d+), (-?\d+)\}, \{GM_EFFECT_(\w+), (-?\d+), (-?\d+)\}\}")  # fmt: skip
    expected = []
    for match in row.finditer(text):
        facts = list(match.groups())
        facts[7] = facts[7].replace("GM_OPCODE_", "").replace(" ", "") if facts[7] != "0" else "-"
        expected.append("opcode " + " ".join(facts))
    assert len(expected) > 100
    assert [li for li in probe(program) if li.startswith("opcode ")] == expected


LEARN = ROOT / "build/tests/learn_python"
# Where a reader that looks eight bytes beside sees no difference in a process that stands still. The probe itself does:
# it finds them with a child process that changes, or raises, what is looked at.
UNSEEN = {
    "runtime_initialized": "the number before it is 1 too once Python runs",
    "thread_raised": "no exception is on its way, and beside it is nothing either",
    "thread_size": "how much is read; more is harmless",
}


@pytest.mark.parametrize("entry", most_long())
def test_a_row_with_any_field_moved_is_rejected(entry):
    _, program = entry
    done = subprocess.run([LEARN, "--moved", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("end\n")
    believed = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("believed ")}
    assert believed <= set(UNSEEN), done.stdout


# As on a busy machine: whoever waits for the answer runs before the probe does, which is not done yet.
LATE = """
import os, runpy, sys, time
class Late:
    def __init__(self, file):
        self.file = file
    def __enter__(self):
        return self.file
    def __exit__(self, *_):
        self.file.close()
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            changing = [[n] for n in range(2000)]
            del changing[::2]
opened = os.fdopen
os.fdopen = lambda *a, **k: Late(opened(*a, **k))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("entry", most_long())
def test_gpumem_waits_for_a_probe_that_has_answered_and_still_runs(entry, tmp_path):
    _, program = entry
    (tmp_path / "late.py").write_text(LATE)
    python = tmp_path / "python"  # called with -I -S -B
    python.write_text(f'#!/bin/sh\nexec {program} "$1" "$2" "$3" {tmp_path}/late.py "$4" "$5"\n')
    python.chmod(0o755)
    done = subprocess.run([LEARN, python], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


HOLDING = """
import sys, threading
class Kept:
    __slots__ = ("a", "b")
kept = Kept()
kept.a, kept.b = {"k": [1]}, (n for n in [[1], [2]])
next(kept.b)
def wait(x, y=[3]):
    z = lambda: x
    print(0, flush=True)
    sys.stdin.read()
wait({"x": kept})
"""


@pytest.mark.parametrize("entry", most_long())
def test_a_hidden_version_is_learned_once_and_then_read_as_with_the_shipped_row(entry, tmp_path):
    _, program = entry
    read = ROOT / "build/tests/read_python"
    cache = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    hidden = {**cache, "GPUMEM_HIDE_ROWS": "1"}
    process = subprocess.Popen([program, "-c", HOLDING], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()

        def ask(environment):
            return subprocess.run([ROOT / "build/bin/gpumem", "info", "--pid", str(process.pid)], env=environment,
                                  capture_output=True, text=True, timeout=600)  # fmt: skip

        refused = ask({**hidden, "GPUMEM_NO_LEARN": "1"})
        assert "its struct layouts are not known here" in refused.stderr
        first, second = ask(hidden), ask(hidden)
        assert "gpumem: learned CPython " in first.stderr, first.stderr
        assert "learned" not in second.stderr and "torch is not loaded yet" in second.stderr
        (kept,) = (tmp_path / "gpumem/layouts").glob("python-*.layouts")
        for what in ("threads", "tracked-references", "modules"):
            shipped, learned = (
                subprocess.run([read, str(process.pid), what], env=env, capture_output=True, text=True, timeout=600)
                for env in (cache, hidden)
            )
            assert shipped.returncode == learned.returncode == 0, learned.stderr
            assert learned.stdout == shipped.stdout and len(learned.stdout) > 20
        # what a gpumem kept that looked for fewer fields is learned again
        text = kept.read_text()
        older = re.sub(r"field frame_code .*\n", "", re.sub(r"fields \d+\n", "fields 60\n", text[: text.rindex("end ")]))
        kept.write_text(older + f"end {zlib.crc32(older.encode()):08x}\n")
        assert "gpumem: learned CPython " in ask(hidden).stderr and kept.read_text() == text
        # a kept file that was edited is refused, with what to do
        kept.write_text(kept.read_text().replace("field frame_code ", "field frame_code 8", 1))
        assert f"{kept}: line " in ask(hidden).stderr
    finally:
        process.kill()
        process.wait()


def test_there_is_a_python_to_learn_from():
    assert (sys.version_info[0], sys.version_info[1]) in dict(pythons.pythons())
