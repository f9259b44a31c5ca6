"""A process at the limits of its control group: `attach` does not get it killed. Version 1 or 2, whichever this machine has."""

import os
import re
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

MIB = 1 << 20
# Makes as much of its own and of a file's cache as it is told, and waits. From then on it asks for no memory itself.
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words)
{
	if (count > 9)
		dlopen(words[9], RTLD_NOW); /* `attach` refuses a program that can load nothing */
	size_t size = (size_t)atol(words[1]) << 20;
	char *own = malloc(size), bytes[4096] = "";
	memset(own, 1, size);
	FILE *file = count > 2 ? fopen(words[2], "r") : NULL;
	while (file && fread(bytes, sizeof(bytes), 1, file) == 1)
		;
	puts("begun");
	fflush(stdout);
	ssize_t got = read(0, bytes, 1);
	_exit(got == 1 && own[size / 2] == 1 ? 0 : 1);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    made = tmp_path_factory.mktemp("program") / "program"
    subprocess.run(["cc", "-o", made, "-xc", "-"], input=PROGRAM, text=True, check=True)
    return made


def groups(controller):
    """(folder of version 1's hierarchy, None), or (None, that of version 2's)"""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options = line.split()[:4]
        if kind == "cgroup" and controller in options.split(","):
            return Path(place), None
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind = line.split()[:3]
        if kind == "cgroup2" and controller in (Path(place) / "cgroup.controllers").read_text().split():
            return None, Path(place)
    pytest.skip(f"no control group with {controller} is mounted here")


class Group:
    def __init__(self, folder, second):
        self.folder, self.second = folder, second

    def write(self, name, value):
        (self.folder / name).write_text(str(value))

    def read(self, name):
        return int((self.folder / name).read_text())

    def limit(self, more):
        """To what it uses now, and more."""
        if self.second:
            self.write("memory.max", self.read("memory.current") + more)
        else:
            self.write("memory.limit_in_bytes", self.read("memory.usage_in_bytes") + more)

    def kills(self):
        said = (self.folder / ("memory.events" if self.second else "memory.oom_control")).read_text()
        return int(re.search(r"^oom_kill (\d+)", said, re.M)[1])


@contextmanager
def new_group(controller, wait_for):
    first, second = groups(controller)
    try:
        if second:
            (second / "cgroup.subtree_control").write_text(f"+{controller}")
        folder = Path(tempfile.mkdtemp(prefix="gpumem-", dir=first or second))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield Group(folder, bool(second))
    finally:
        wait_for(lambda: not (folder / "cgroup.procs").read_text())

        def removed():
            with suppress(OSError):
                folder.rmdir()
            return not folder.exists()

        wait_for(removed)


@pytest.fixture
def memory(wait_for):
    with new_group("memory", wait_for) as group:
        yield group


@pytest.fixture
def pids(wait_for):
    with new_group("pids", wait_for) as group:
        yield group


def begin(group, *words):
    process = subprocess.Popen(
        [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: group.write("cgroup.procs", os.getpid()),
    )  # fmt: skip
    assert process.stdout.readline() == "begun\n"
    return process


def goes_on(process):
    process.communicate("x\n", timeout=600)
    assert process.returncode == 0


@pytest.mark.parametrize("more", [0, MIB // 16, MIB])
def test_a_group_without_memory_left_is_refused_by_name(run_gpumem, program, memory, tmp_path, more):
    process = begin(memory, program, 16)
    memory.limit(more)
    told = run_gpumem("attach", process.pid, "-o", tmp_path / "run.gpumem", "--timeout", "600")
    goes_on(process)
    assert memory.kills() == 0
    assert re.search(rf"its control group \S*{memory.folder.name} has \S+ (B|KiB|MiB) of memory left", told.check(4).err), told.err


def test_the_limit_of_a_group_above_counts_too(run_gpumem, program, memory, tmp_path):
    below = memory.folder / "below"
    if memory.second:
        memory.write("cgroup.subtree_control", "+memory")
    below.mkdir()
    process = begin(Group(below, memory.second), program, 16)
    memory.limit(MIB // 16)
    told = run_gpumem("attach", process.pid, "-o", tmp_path / "run.gpumem", "--timeout", "600")
    goes_on(process)
    below.rmdir()
    assert re.search(rf"its control group \S*{memory.folder.name} has ", told.check(4).err), told.err


def test_a_group_that_is_full_of_files_has_memory(run_gpumem, program, memory, tmp_path):
    """The kernel gives their pages up first."""
    file = tmp_path / "file"
    file.write_bytes(os.urandom(16 * MIB))
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    process = begin(memory, program, 16, file)
    memory.limit(0)
    run_gpumem("attach", process.pid, "-o", tmp_path / "run.gpumem", "--timeout", "600").check()
    goes_on(process)
    assert memory.kills() == 0


def test_a_group_with_free_memory_is_recorded(run_gpumem, program, memory, tmp_path):
    process = begin(memory, program, 16)
    memory.limit(8 * MIB)
    run_gpumem("attach", process.pid, "-o", tmp_path / "run.gpumem", "--timeout", "600").check()
    goes_on(process)
    assert memory.kills() == 0


def test_a_group_at_its_limit_of_threads_is_reported(run_gpumem, program, pids, tmp_path):
    process = begin(pids, program, 1)
    pids.write("pids.max", pids.read("pids.current"))
    told = run_gpumem("attach", process.pid, "-o", tmp_path / "run.gpumem", "--timeout", "600")
    goes_on(process)
    assert "it cannot make a thread for the agent's start: Resource temporarily unavailable" in told.check(4).err
