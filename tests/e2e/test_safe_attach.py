"""`gpumem attach` by root to another user's process that is hostile: it gains nothing by what it says."""

import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from test_attach import signals_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the attacks are on root: run the tests as root")
pytestmark = needs_root
TIMES = 3


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, root):
    program = tmp_path_factory.mktemp("hostile") / "hostile_target"
    source = root / "tests/e2e/programs/hostile_target.c"
    subprocess.run(["cc", "-std=gnu17", "-O2", "-D_GNU_SOURCE", "-Wall", "-Werror", "-pthread", "-o", program, source], check=True)
    return program


@pytest.fixture(scope="module")
def of_root(tmp_path_factory, root, run_gpumem):
    """A recording of root's, as the agent writes it, that nobody else may read."""
    folder = tmp_path_factory.mktemp("of-root")
    subprocess.run(["cc", "-std=gnu17", "-O2", "-include", "stdbool.h", "-o", folder / "busy", root / "tests/e2e/programs/busy_program.c", "-ldl", "-pthread"], check=True)
    process = subprocess.Popen([folder / "busy", "sleep"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    file = folder / "of-root.gpumem"
    run_gpumem("attach", "--timeout", "600", "--no-pack", process.pid, "-o", file).check()
    process.kill()
    process.wait()
    file.chmod(0o600)
    return file


@pytest.fixture
def shared_folder():
    """One that all users of the machine may write to, as /tmp is."""
    folder = tempfile.mkdtemp(prefix="shared-")
    os.chmod(folder, 0o1777)
    yield Path(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def setuid(tmp_path_factory):
    """A program of root's with the setuid bit that waits."""
    folder = Path(tempfile.mkdtemp(prefix="setuid-"))
    folder.chmod(0o755)
    (folder / "waits.c").write_text("#include <dlfcn.h>\n#include <unistd.h>\nint main(int argc, char **argv) { return argc > 9 ? !dlopen(argv[9], 1) : sleep(600); }\n")
    subprocess.run(["cc", "-o", folder / "waits", folder / "waits.c"], check=True)
    (folder / "waits").chmod(0o4755)
    yield folder / "waits"
    shutil.rmtree(folder)


def begin(spawn, *command):
    process = spawn(command, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    return process


def state(path):
    about = os.stat(path)
    return stat.S_IMODE(about.st_mode), about.st_uid, about.st_gid, path.read_bytes()


def nothing_is_written_to_a_file_of_root(spawn, run_gpumem, hostile, folder, content, times):
    file = folder / "of-root"
    file.write_bytes(content)
    file.chmod(0o644)
    before = state(file)
    for number in range(times):
        process = begin(spawn, hostile, "memfd", file)
        signals = signals_of(process)
        told = run_gpumem("attach", "--timeout", "600", "--way", "thread", process.pid, "-o", folder / f"{number}.gpumem").check(4)
        assert "did not return a memfd" in told.err
        assert state(file) == before
        assert process.poll() is None
        assert signals_of(process) == signals
        process.kill()
        process.wait()


@pytest.mark.parametrize("content", [b"of root\n", b""], ids=["content", "empty"])
def test_a_descriptor_that_is_no_memfd_is_not_written_to(spawn, run_gpumem, hostile, tmp_path, content):
    nothing_is_written_to_a_file_of_root(spawn, run_gpumem, hostile, tmp_path, content, TIMES)


@pytest.fixture
def in_memory():
    """A folder of a tmpfs, whose files have seals as memfds have."""
    if not os.path.isdir("/dev/shm"):
        pytest.skip("no /dev/shm on this machine")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.parametrize("content", [b"of root\n", b""], ids=["content", "empty"])
def test_a_file_in_memory_that_is_no_memfd_is_not_written_to(spawn, run_gpumem, hostile, in_memory, content):
    nothing_is_written_to_a_file_of_root(spawn, run_gpumem, hostile, in_memory, content, TIMES)


@pytest.mark.long
@pytest.mark.parametrize("place", ["tmp_path", "in_memory"])
def test_a_descriptor_that_is_no_memfd_is_not_written_to_in_a_hundred_attaches(spawn, run_gpumem, hostile, request, place):
    nothing_is_written_to_a_file_of_root(spawn, run_gpumem, hostile, request.getfixturevalue(place), b"of root\n", 100)


def test_an_address_that_is_no_new_memory_is_not_written_to(spawn, run_gpumem, hostile, tmp_path):
    file = tmp_path / "of-root"
    file.write_bytes(b"of root\n")
    process = begin(spawn, hostile, "mmap", file)
    before = signals_of(process)
    told = run_gpumem("attach", "--timeout", "600", "--way", "thread", process.pid, "-o", tmp_path / "run.gpumem").check(4)
    assert "without new memory" in told.err
    assert process.poll() is None
    assert signals_of(process) == before


def test_a_program_that_is_executed_meanwhile_is_not_touched(spawn, run_gpumem, hostile, tmp_path):
    process = begin(spawn, hostile, "exec", hostile)
    run_gpumem("attach", "--timeout", "600", "--way", "thread", process.pid, "-o", tmp_path / "run.gpumem").check(4)
    assert process.communicate(timeout=600)[0] == "whole\n"
    assert process.returncode == 0


def the_packer_stays_the_targets(spawn, run_gpumem, wait_for, hostile, of_root, setuid, folder, times):
    before = state(of_root)
    for number in range(times):
        process = begin(spawn, hostile, "setuid", of_root, folder, setuid)
        # whether it comes to record or not: the process may be another one before it does
        run_gpumem("attach", "--timeout", "600", "--way", "thread", process.pid, "-o", folder / "recording-1.gpumem", env={**os.environ, "TMPDIR": str(folder)})
        process.kill()
        process.wait()
        wait_for(lambda: not list(folder.glob("gpumem-attach-*")))
        (folder / "recording-1.gpumem").unlink(missing_ok=True)
        assert state(of_root) == before


def test_what_a_target_names_is_packed_with_its_own_rights(spawn, run_gpumem, wait_for, hostile, of_root, setuid, shared_folder):
    the_packer_stays_the_targets(spawn, run_gpumem, wait_for, hostile, of_root, setuid, shared_folder, TIMES)


@pytest.mark.long
def test_what_a_target_names_is_packed_with_its_own_rights_in_a_hundred_attaches(spawn, run_gpumem, wait_for, hostile, of_root, setuid, shared_folder):
    the_packer_stays_the_targets(spawn, run_gpumem, wait_for, hostile, of_root, setuid, shared_folder, 100)
