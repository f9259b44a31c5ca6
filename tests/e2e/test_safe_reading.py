"""Files that a target names: only regular ones are read. A FIFO in the place of one would keep gpumem waiting for ever."""

import os
import shutil
import subprocess
import sys

import pytest

HANG = 120  # seconds until a hang is told as one: nobody waits for them where there is none


@pytest.fixture
def beside_a_fifo(spawn, tmp_path):
    """A process whose program has the name of a FIFO: /proc/PID/maps shows a line's end in a name as four characters, and the
    file that has those four in its name is another one."""
    program = tmp_path / "python3.10\nprogram"
    shutil.copy(shutil.which("sleep"), program)
    process = spawn([program, "1000"], stdin=subprocess.DEVNULL)
    os.mkfifo(tmp_path / "python3.10\\012program")
    return process


@pytest.mark.parametrize("question", ["retained", "who-holds"])
def test_a_fifo_that_has_the_name_of_the_targets_program_is_not_waited_for(beside_a_fifo, wait_for, run_gpumem, question):
    wait_for(lambda: "\\012" in open(f"/proc/{beside_a_fifo.pid}/maps").read())
    block = ["0x1000"] if question == "who-holds" else []
    told = run_gpumem(question, "--pid", beside_a_fifo.pid, *block, timeout=HANG).check(4)
    assert "Python" in told.err or "PyTorch" in told.err


def test_a_fifo_in_the_place_of_pytorchs_version_is_not_waited_for(spawn, run_gpumem, tmp_path):
    library = tmp_path / "torch" / "lib" / "libc10.so"
    library.parent.mkdir(parents=True)
    shutil.copy(sys.executable, library)
    os.mkfifo(tmp_path / "torch" / "version.py")
    program = (
        "import mmap, sys\n"
        "file = open(sys.argv[1], 'rb')\n"
        "kept = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)\n"
        "print('begun', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = spawn([sys.executable, "-c", program, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    told = run_gpumem("retained", "--pid", process.pid, timeout=HANG).check(4)
    assert "version.py: it is not a regular file" in told.err


def test_a_fifo_in_the_place_of_the_list_of_recordings_is_not_waited_for(run_gpumem, tmp_path):
    replace = 'list=${GPUMEM_AGENT#*list=}; list=${list%%;*}; rm "$list" && mkfifo "$list" && echo replaced'
    told = run_gpumem("run", "-o", tmp_path / "run.gpumem", "--", "sh", "-c", replace, timeout=HANG)
    assert told.out == "replaced\n"


@pytest.mark.parametrize(
    "words",
    [["peak", "FILE"], ["info", "--core", "FILE"], ["peak", "FILE", "--layouts", "FILE"], ["retained", "--diff", "FILE", "FILE"]],
    ids=" ".join,
)
@pytest.mark.parametrize("what", ["fifo", "device"])
def test_an_argument_that_is_not_a_regular_file_is_refused(run_gpumem, tmp_path, what, words):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    named = fifo if what == "fifo" else "/dev/zero"
    told = run_gpumem(*(named if word == "FILE" else word for word in words), timeout=HANG).check(3)
    assert f"{named}: " in told.err and "it is not a regular file" in told.err
