"""Every question about targets that can be read only in part or not at all: cores that are cut, foreign or damaged, processes
without PyTorch, processes that end meanwhile. gpumem never crashes or hangs, prints one line, and needs little memory."""

import json
import os
import random
import subprocess
import threading
import time
from pathlib import Path

import pytest

from conftest import Started

PROGRAM = Path(__file__).parent / "programs" / "oom_held.py"
KEPT = "0x6d0021200000"  # the simulated device's first block
QUESTIONS = [
    ["info"],
    ["blocks"],
    ["segments"],
    ["segments", "--request", "64MiB"],
    ["oom"],
    ["retained"],
    ["who-holds", KEPT],
]
NAMES = [" ".join(words[:2]) for words in QUESTIONS]


@pytest.fixture(scope="module")
def whole(gpumem, run, python, sim_env, tmp_path_factory):
    """A core of a program that is stopped at its out-of-memory error."""
    core = tmp_path_factory.mktemp("damaged") / "whole.core"
    process = Started([python, "-W", "ignore", PROGRAM, "full"], env=sim_env("8GiB"), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("{")
        run([gpumem, "core", process.pid, "-o", core]).check()
    finally:
        process.kill()
        process.wait()
    yield core
    core.unlink()


@pytest.fixture(scope="module")
def copy(whole, tmp_path_factory):
    """copy() -> a copy of that core, to be damaged; it replaces the last copy."""
    path = tmp_path_factory.mktemp("damaged") / "copy.core"

    def make():
        subprocess.run(["cp", "--sparse=always", whole, path], check=True)
        return path

    yield make
    path.unlink(missing_ok=True)


def ask(run_gpumem, question, *target):
    return run_gpumem(question[0], *target, *question[1:])


def refused(run, status, *parts):
    """One line on stderr that has those parts, and nothing else."""
    run.check(status)
    assert run.out == "" and run.err.startswith("gpumem: ") and run.err.count("\n") == 1, run.err
    for part in parts:
        assert part in run.err


# --- cores -------------------------------------------------------------------------------------------------


def test_the_whole_core_answers(whole, run_gpumem):
    for question in QUESTIONS:
        ask(run_gpumem, question, "--core", whole).check()


def test_a_core_cut_at_any_byte_is_refused_as_cut(copy, run_gpumem):
    core = copy()
    size = core.stat().st_size
    chosen = random.Random(4)
    cuts = {size - 1, size // 2, 70000, 4096, 64, 63, 5, *(chosen.randrange(4, size) for _ in range(12))}
    for cut in sorted(cuts, reverse=True):
        os.truncate(core, cut)
        for question in QUESTIONS:
            refused(ask(run_gpumem, question, "--core", core), 3, f"{core}: offset 0x", "the core is truncated")


HEADERS = {
    "32-bit": (4, b"\x01", "offset 0x4: it is of a 32-bit program"),
    "big-endian": (5, b"\x02", "offset 0x5: it is of another kind of machine (big-endian)"),
    "AArch64": (18, b"\xb7\x00", "offset 0x12: it is of another kind of machine (AArch64)"),
    "i386": (18, b"\x03\x00", "offset 0x12: it is of another kind of machine"),
    "a library": (16, b"\x03\x00", "it is an ELF file but not a core dump"),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_foreign_core_is_refused_by_name(kind, copy, run_gpumem):
    offset, data, message = HEADERS[kind]
    core = copy()
    with open(core, "r+b") as file:
        file.seek(offset)
        file.write(data)
    for question in QUESTIONS:
        refused(ask(run_gpumem, question, "--core", core), 3, message, "give a core dump of an x86-64 program")


@pytest.mark.parametrize("content", [b"", b"no core\n" * 99, b"\x7fELF"])
def test_a_file_that_is_not_a_core_is_refused(content, run_gpumem, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    for question in QUESTIONS:
        refused(ask(run_gpumem, question, "--core", path), 3, f"{path}: offset 0x")
    for path in (tmp_path, Path("/bin/true")):
        for question in QUESTIONS:
            refused(ask(run_gpumem, question, "--core", path), 3, f"{path}: ")


def test_a_core_of_another_program_is_refused(spawn, run_gpumem, tmp_path):
    core = tmp_path / "sleep.core"
    run_gpumem("core", spawn(["sleep", "600"]).pid, "-o", core).check()
    for question in QUESTIONS:
        refused(ask(run_gpumem, question, "--core", core), 4, f"{core}: no Python in it")


@pytest.fixture(params=[pytest.param(1, id="1 processor", marks=pytest.mark.long), pytest.param(8, id="8 processors")])
def processors(request, build_dir):
    """The environment of a machine with this many processors: each has a thread that reads, 8 at most."""
    return {**os.environ, "LD_PRELOAD": str(build_dir / "tests" / "libmany_processors.so"), "GPUMEM_TEST_PROCESSORS": str(request.param)}


def peak_of(command, env):
    """(status, stdout, stderr, peak bytes of anonymous memory) of a command."""
    command = [str(word) for word in command]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    most = 0

    def watch():
        nonlocal most
        while process.poll() is None:
            try:
                text = Path(f"/proc/{process.pid}/status").read_text()
                most = max(most, int(text.split("RssAnon:")[1].split()[0]) << 10)
            except (OSError, IndexError):
                pass
            time.sleep(0.003)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()
        watcher.join()
    return process.returncode, out, err, most


@pytest.mark.parametrize("question", QUESTIONS, ids=NAMES)
def test_reading_a_core_takes_little_memory(question, whole, gpumem, processors):
    """At most a quarter of the bytes that are read, and 64 MB."""
    saved = os.stat(whole).st_blocks * 512
    status, _, err, most = peak_of([gpumem, question[0], "--core", whole, *question[1:]], processors)
    assert status == 0, err
    assert most <= saved // 4 + (64 << 20), f"{most >> 20} MiB"


def harm(core, seed, count):
    """Words of the core's memory are overwritten: by zeros, ones, noise, and words from elsewhere in it."""
    chosen = random.Random(seed)
    size = core.stat().st_size
    with open(core, "r+b") as file:
        for _ in range(count):
            file.seek(chosen.randrange(1 << 16, size - 8) & ~7)
            other = chosen.choice([b"\0" * 8, b"\xff" * 8, chosen.randbytes(8), None])
            if other is None:
                place = file.tell()
                file.seek(chosen.randrange(1 << 16, size - 8) & ~7)
                other = file.read(8)
                file.seek(place)
            file.write(other)


@pytest.mark.parametrize("seed, count", [pytest.param(1, 100, marks=pytest.mark.long), (2, 10000), (3, 300000)])
def test_a_damaged_core_is_answered_or_refused(seed, count, copy, gpumem, processors):
    core = copy()
    harm(core, seed, count)
    saved = os.stat(core).st_blocks * 512
    for question in QUESTIONS:
        status, out, err, most = peak_of([gpumem, question[0], "--core", core, *question[1:]], processors)
        assert status in (0, 1, 3, 4), (question, status, err)
        assert err == "" if status == 0 else err.startswith("gpumem: ") and err.count("\n") == 1, (question, err)
        assert most <= saved // 4 + (64 << 20), f"{question}: {most >> 20} MiB"


LENGTHS = """
import ctypes, sys, torch
kept = torch.ones(1 << 18, device="cuda")
held, junk, count = [], [int(word) for word in sys.argv[1].split(",")], 1 << 22
words = (ctypes.c_uint64 * count)()
for i in range(count):
    words[i] = junk[i % len(junk)] or id(held)
at, kind = ctypes.addressof(words), sys.argv[3]
made = [(kept, i) if kind == "tuple" else {kept} if kind == "set" else [kept] for i in range(int(sys.argv[2]))]
for each in made:  # as if each had other memory as its items
    if kind == "tuple":  # ob_size
        ctypes.c_uint64.from_address(id(each) + 16).value = count
    elif kind == "set":  # fill, used, mask, table
        (ctypes.c_uint64 * 4).from_address(id(each) + 16)[:] = count // 2, count // 2, count // 2 - 1, at
    else:  # ob_size, ob_item, allocated
        (ctypes.c_uint64 * 3).from_address(id(each) + 16)[:] = count, at, count
print(hex(kept.data_ptr()), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "kind, number, junk, share",
    [("list", 6, "0,0,12345", 0.25), ("list", 40, "0", 1), ("set", 40, "0", 1), ("tuple", 40, "0", 1)],
    ids=["lists, a third is no object", "lists of one object", "sets of one object", "tuples"],
)
def test_damaged_lengths_take_little_memory(kind, number, junk, share, spawn, run_gpumem, gpumem, python, sim_env, tmp_path):
    """Of containers whose items seem to be whatever lies elsewhere. References of objects are words in memory: never more than it has."""
    program, core = tmp_path / "lengths.py", tmp_path / "lengths.core"
    program.write_text(LENGTHS)
    process = spawn([python, program, junk, str(number), kind], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    kept = process.stdout.readline().strip()
    run_gpumem("core", process.pid, "-o", core).check()
    saved = os.stat(core).st_blocks * 512
    status, out, err, most = peak_of([gpumem, "who-holds", "--core", core, kept], dict(os.environ))
    core.unlink()
    assert status == 0 and "global 'kept'" in out, err
    assert most <= saved * share + (64 << 20), f"{most >> 20} MiB of {saved >> 20}"


# --- processes ---------------------------------------------------------------------------------------------


def test_a_missing_process_and_one_without_python_are_refused(spawn, run_gpumem):
    sleeping = spawn(["sleep", "600"])
    for question in QUESTIONS:
        refused(ask(run_gpumem, question, "--pid", str(1 << 22)), 4, f"process {1 << 22}: no such process")
        refused(ask(run_gpumem, question, "--pid", str(sleeping.pid)), 4, "no Python")


def test_a_python_without_pytorch_is_refused(spawn, python, run_gpumem):
    process = spawn([python, "-c", "print(1, flush=True); import time; time.sleep(600)"], stdout=subprocess.PIPE)
    process.stdout.readline()
    for question in QUESTIONS:
        refused(ask(run_gpumem, question, "--pid", str(process.pid)), 4, "torch is not loaded yet")


@pytest.fixture
def start_copies(spawn, python, sim_env):
    """start_copies(n) -> the process ids of n forked copies of a program that is stopped at its error."""

    def call(count):
        process = spawn([python, "-W", "ignore", PROGRAM, "copies", count], env=sim_env("8GiB"), stdout=subprocess.PIPE)
        return json.loads(process.stdout.readline())["copies"]

    return call


@pytest.mark.long  # test_far_targets.py has one that is killed while it is read
def test_a_process_that_ends_while_it_is_read_is_reported_as_such(start_copies, run_gpumem, build_dir):
    """The process is killed when its memory is read for the n-th time, from early to late in the question."""
    moments = [1, 2, 5, 20, 60]
    copies = start_copies(len(moments) * len(QUESTIONS))
    for question in QUESTIONS:
        ended = 0
        for moment in moments:
            pid = copies.pop()
            environment = {
                **os.environ, "LD_PRELOAD": str(build_dir / "tests" / "libkill_target.so"), "GPUMEM_TEST_KILL_AT": str(moment),
            }  # fmt: skip
            run = run_gpumem(question[0], "--pid", str(pid), *question[1:], env=environment)
            if Path(f"/proc/{pid}").exists():
                break  # the question reads less often
            refused(run, 4, f"process {pid}", "ended")
            ended += 1
        assert ended >= 3, question
