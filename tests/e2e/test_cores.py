"""Core dumps as a user meets them: written by us, by gcore and by the kernel; with libraries missing; compressed. The
program holds one tensor in a module's variable."""

import lzma
import os
import re
import resource
import shutil
import signal
import subprocess
import time
import sys
from pathlib import Path

import packed
import pytest

from conftest import ROOT, Started, ask_python, run_process, site_packages

PROGRAM = ROOT / "tests" / "e2e" / "programs" / "held.py"
HELD = "global 'kept' of module __main__ (held.py)"


def start_held(command, env=None, **keys):
    process = Started(
        [*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, **keys
    )
    pid, process.address = process.stdout.readline().split()
    return process


def stop(process):
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def resident(pid):
    """KiB of the process: (resident, of these anonymous). The kernel loads and drops pages of files as it needs memory."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        sizes = dict(re.findall(r"^(\w+): +(\d+) kB", rollup.read(), re.M))
    return int(sizes["Rss"]), int(sizes["Anonymous"])


def settled(pid):
    """resident(), once it stays the same: a process that has printed its line still runs until it waits."""
    before = None
    while before != (now := resident(pid)):
        before = now
        time.sleep(0.2)
    return now


@pytest.fixture(scope="module")
def written(python, run_gpumem, sim_env, tmp_path_factory):
    """A core by `gpumem core` of a program on the simulated device, what the command printed, and what was observed meanwhile."""
    process = start_held([python, PROGRAM, "cuda"], env={**os.environ, **sim_env()})
    process.core = tmp_path_factory.mktemp("written") / "core"
    process.before = settled(process.pid)
    process.said = run_gpumem("core", process.pid, "-o", process.core, "--json").check().json()
    process.after = resident(process.pid)
    yield process
    stop(process)
    process.core.unlink()


def test_a_core_by_gpumem_names_the_same_holder_as_the_process(written, run_gpumem):
    live = run_gpumem("who-holds", "--pid", written.pid, written.address, "--json").check().json()
    core = run_gpumem("who-holds", "--core", written.core, written.address, "--json").check().json()
    assert [holder["text"] for holder in core["holders"]] == [HELD]
    assert core["holders"] == live["holders"] and core["complete"] is True


def test_a_variable_is_found_in_a_core_by_gpumem(written, run_gpumem):
    assert HELD in run_gpumem("who-holds", "--core", written.core, "kept").check().out


def test_the_process_did_not_grow_and_continued(written):
    assert written.after[1] <= written.before[1]
    with open(f"/proc/{written.pid}/status") as status:
        assert "TracerPid:\t0\n" in status.read()


def test_a_core_has_neither_device_memory_nor_untouched_pages(written):
    said, size = written.said, os.stat(written.core)
    assert said["left_out"]["device"] > 10 << 30
    # the file system adds blocks for its own tables when it writes the file: up to one for every few extents
    with open(written.core, "rb") as core:
        data = packed.data_bytes(core, 0, size.st_size)
    assert data <= said["disk"] <= data * 1.02 + (1 << 20)
    assert data <= written.before[0] * 1024
    assert said["length"] == size.st_size < 4 << 30
    assert said["unread"] == 0 and said["threads"] >= 1


def test_pystack_reads_the_core(written, python):
    pystack = shutil.which("pystack", path=f"{python.parent}:{os.environ['PATH']}")
    if not pystack:
        pytest.skip("pystack is not installed")
    run = run_process([pystack, "core", written.core, os.path.realpath(python)], merge=True)
    assert "held.py" in run.out and "sys.stdin.read()" in run.out, run.out


def test_elfutils_reads_the_core(written):
    if not shutil.which("eu-readelf"):
        pytest.skip("no eu-readelf on this machine")
    run = run_process(["eu-readelf", "-n", written.core], merge=True).check()
    for note in ("PRSTATUS", "PRPSINFO", "SIGINFO", "AUXV", "FILE", "FPREGSET"):
        assert note in run.out


def test_a_compressed_core_gives_the_same_answers(written, run_gpumem, tmp_path):
    core = tmp_path / "core.zst"
    run_gpumem("core", written.pid, "-o", core, "--compress").check()
    assert core.stat().st_size < os.stat(written.core).st_blocks * 512 / 2
    assert HELD in run_gpumem("who-holds", "--core", core, "kept").check().out


def test_an_xz_core_gives_the_same_answers(spawn, run_gpumem, tmp_path):
    program = spawn([sys.executable, "-c", "input('here')"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout.read(4) == "here"
    plain, archive = tmp_path / "core", tmp_path / "core.xz"
    run_gpumem("core", program.pid, "-o", plain).check()
    with open(plain, "rb") as data, lzma.open(archive, "wb", preset=0) as compressed:
        shutil.copyfileobj(data, compressed, 1 << 20)
    answers = [run_gpumem("doctor", "--core", core, "--json").out.replace(str(core), "CORE") for core in (plain, archive)]
    assert "CPython" in answers[0] and answers[0] == answers[1]
    # recognized by its first bytes, also as a positional argument
    refused = run_gpumem("info", archive)
    assert refused.status == 4 and f"{archive}: no PyTorch in it" in refused.err


def test_reading_it_takes_little_memory(written, gpumem):
    """Its anonymous memory is at most a quarter of the saved bytes, and 64 MB."""
    saved = os.stat(written.core).st_blocks * 512
    limit = saved // 4 + (64 << 20)
    script = (
        "import os, sys, subprocess, time\n"
        "p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "most = 0\n"
        "while p.poll() is None:\n"
        "    try:\n"
        "        text = open(f'/proc/{p.pid}/status').read()\n"
        "        most = max(most, int(text.split('RssAnon:')[1].split()[0]))\n"
        "    except (OSError, IndexError): pass\n"
        "    time.sleep(0.002)\n"
        "print(p.returncode, most)\n"
    )
    run = run_process([sys.executable, "-c", script, gpumem, "who-holds", "--core", written.core, "kept"]).check()
    status, most = map(int, run.out.split())
    assert status == 0
    assert 0 < most * 1024 <= limit, f"{most} KiB of anonymous memory, {limit >> 10} allowed"


def test_a_core_of_no_process_is_wrong_usage(run_gpumem):
    run_gpumem("core").check(2)
    assert "core: no process given" in run_gpumem("core").err
    assert "no such process" in run_gpumem("core", 1 << 22).check(4).err


@pytest.mark.parametrize("reads", [2, 20, 200])
def test_an_interrupt_leaves_no_file_and_the_process_continues(written, gpumem, build_dir, tmp_path, reads):
    """The command gets SIGINT when it reads the process's memory for the n-th time."""
    environment = {**os.environ, "LD_PRELOAD": str(build_dir / "tests" / "libkill_target.so"), "GPUMEM_TEST_INTERRUPT_AT": str(reads)}
    command = [gpumem, "core", str(written.pid), "-o", tmp_path / "core"]
    asked = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    _, err = asked.communicate(timeout=600)
    assert asked.returncode == 4 and "cancelled" in err, (asked.returncode, err)
    assert not list(tmp_path.iterdir())
    with open(f"/proc/{written.pid}/status") as status:
        assert "TracerPid:\t0\n" in status.read()


# --- the kernel's ------------------------------------------------------------------------------------------


def test_the_kernels_core_of_an_abort_answers(python, run_gpumem, tmp_path):
    with open("/proc/sys/kernel/core_pattern") as pattern:
        pattern = pattern.read().strip()
    if "/" in pattern or pattern.startswith("|"):
        pytest.skip(f"the kernel writes no core into the program's folder here (core_pattern is {pattern})")

    def allow():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    process = start_held([python, PROGRAM], cwd=tmp_path, preexec_fn=allow)
    os.kill(process.pid, signal.SIGABRT)
    process.wait()
    cores = list(tmp_path.glob("core*"))
    if not cores:
        pytest.skip("the kernel wrote no core, though it was allowed to")
    answer = run_gpumem("who-holds", "--core", cores[0], process.address, "--json").check().json()
    cores[0].unlink()
    assert [holder["text"] for holder in answer["holders"]] == [HELD]
    assert answer["complete"] is True


# --- missing libraries -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moved(python, run_gpumem, tmp_path_factory):
    """A core of a program whose interpreter was a file that no longer exists; a copy is in another folder."""
    folder = tmp_path_factory.mktemp("moved")
    interpreter = folder / "python3.11-of-elsewhere"
    shutil.copy(os.path.realpath(python), interpreter)
    process = start_held([interpreter, "-S", PROGRAM], env={**os.environ, "PYTHONPATH": str(site_packages()), "PYTHONHOME": ask_python("sys.base_prefix")})
    if "/libpython" in Path(f"/proc/{process.pid}/maps").read_text():
        stop(process)
        pytest.skip("this Python's interpreter is in a library, which stays where it is")
    core = folder / "core"
    run_gpumem("core", process.pid, "-o", core).check()
    stop(process)
    (folder / "kept").mkdir()
    shutil.move(interpreter, folder / "kept" / interpreter.name)
    return core, interpreter, folder / "kept"


def test_a_missing_interpreter_is_named_with_what_to_do(moved, run_gpumem):
    core, interpreter, _ = moved
    err = run_gpumem("who-holds", "--core", core, "kept").check(4).err
    assert f"{core}: {interpreter} is not on this disk: name the folder" in err and "--sysroot DIR" in err
    assert "ask again" not in err


def test_doctor_names_what_is_missing(moved, run_gpumem):
    core, interpreter, _ = moved
    out = run_gpumem("doctor", "--core", core).check().out
    assert f"{interpreter} (not on this disk)" in out and "to do: name the folder that contains them with --sysroot DIR" in out


def test_a_library_of_another_build_is_not_used(moved, run_gpumem):
    core, interpreter, _ = moved
    shutil.copy("/bin/true", interpreter)
    try:
        err = run_gpumem("who-holds", "--core", core, "kept").check(4).err
        assert f"{interpreter} differs from the file that the program ran with" in err
        assert f"{interpreter} (another build on this disk)" in run_gpumem("doctor", "--core", core).out
    finally:
        interpreter.unlink()


def test_with_the_folder_of_libraries_the_core_answers(moved, run_gpumem):
    core, _, kept = moved
    assert HELD in run_gpumem("who-holds", "--core", core, "--sysroot", kept, "kept").check().out


def test_a_sysroot_that_is_not_there_is_wrong_usage(run_gpumem, tmp_path):
    run = run_gpumem("doctor", "--core", "core", "--sysroot", tmp_path / "none").check(2)
    assert "no such folder" in run.err


def test_a_core_without_python_gets_no_advice_to_wait(spawn, run_gpumem, tmp_path):
    sleeper = spawn(["sleep", "600"])
    run_gpumem("core", sleeper.pid, "-o", tmp_path / "core").check()
    err = run_gpumem("who-holds", "--core", tmp_path / "core", "0x1000").check(4).err
    assert "no Python in it" in err and "ask again" not in err
