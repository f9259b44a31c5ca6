"""Set-up: an interrupted or failed one is noticed and made good, two at once do not collide.

A small stand-in for Python takes the place of the 5 GB; what is under test is scripts/setup itself.
"""

import os
import shutil
import subprocess

import pytest

from conftest import ROOT, run_process

PYTHON = """#!/bin/bash
case "$*" in
-c*) echo 3.11-stand-in ;;
"-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
*"pip "*)
	echo pip >>"$CALLS"
	sleep "${PIP_SECONDS:-0}"
	[ -z "$PIP_FAILS" ] || { echo "ERROR: No matching distribution found for torch"; exit 1; }
	;;
esac
"""


@pytest.fixture
def clone(tmp_path):
    """A repository with nothing to build, its cache, and the calls of pip."""
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(none LANGUAGES NONE)\n")
    python = tmp_path / "python3"
    python.write_text(PYTHON)
    python.chmod(0o755)
    df = tmp_path / "bin/df"  # the machine's own disk may be full
    df.parent.mkdir()
    df.write_text("#!/bin/sh\necho Filesystem\necho disk 1 1 ${FREE_KB:-99999999} 1% /\n")
    df.chmod(0o755)
    return folder


def environment(clone, **more):
    places = {
        "GPUMEM_CACHE": str(clone.parent / "cache"),
        "GPUMEM_PYTHON": str(clone.parent / "python3"),
        "CALLS": str(clone.parent / "calls"),
        "PATH": f"{clone.parent / 'bin'}:{os.environ['PATH']}",
    }
    return {**os.environ, **places, **more}


def setup(clone, **more):
    return run_process([clone / "scripts" / "setup", "--no-apt"], env=environment(clone, **more))


def calls(clone):
    path = clone.parent / "calls"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_second_run_installs_nothing(clone):
    setup(clone).check()
    setup(clone).check()
    assert calls(clone) == 1
    assert (clone / ".venv" / "bin" / "python").exists()


def test_a_disk_that_is_too_full_is_refused_before_anything_is_installed(clone):
    run = setup(clone, FREE_KB=str(3 << 20))
    assert run.status == 1 and run.err.startswith("gpumem: set-up: PyTorch needs about 7 GiB and ") and " has 3: make room" in run.err
    assert calls(clone) == 0


def test_failed_install_says_what_to_do_in_one_line_and_the_next_run_tries_again(clone):
    run = setup(clone, PIP_FAILS="1").check(1)
    (line,) = run.err.splitlines()
    assert line.startswith("gpumem: set-up: pip could not install scripts/requirements.txt: ERROR: No matching distribution")
    assert "try again" in line
    assert not (clone / ".venv").exists()
    setup(clone).check()
    assert calls(clone) == 2


def test_an_incomplete_environment_is_not_used(clone):
    setup(clone).check()
    (venv,) = (clone.parent / "cache").glob("venv-????????????????")
    (venv / "gpumem-requirements.txt").unlink()
    setup(clone).check()
    assert calls(clone) == 2


def test_other_requirements_get_an_environment_of_their_own(clone):
    setup(clone).check()
    before = os.readlink(clone / ".venv")
    with open(clone / "scripts" / "requirements.txt", "a") as file:
        file.write("# another\n")
    setup(clone).check()
    assert os.readlink(clone / ".venv") != before
    assert os.path.exists(before)


def test_two_clones_at_once_install_once(clone):
    other = clone.parent / "other"
    shutil.copytree(clone, other)
    running = [
        subprocess.Popen(
            [folder / "scripts" / "setup", "--no-apt"], env=environment(clone, PIP_SECONDS="1"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for folder in (clone, other)
    ]  # fmt: skip
    assert [process.wait(timeout=600) for process in running] == [0, 0]
    assert calls(clone) == 1
    assert os.readlink(clone / ".venv") == os.readlink(other / ".venv")


def test_a_file_system_without_locks_is_told_and_used(clone):
    flock = clone.parent / "bin/flock"
    flock.write_text("#!/bin/sh\necho 'flock: 9: No locks available' >&2\nexit 71\n")
    flock.chmod(0o755)
    done = setup(clone).check()
    assert calls(clone) == 1 and (clone / "build/build.ninja").exists()
    for file in clone.parent / "cache/lock", clone / "build/.lock":
        assert f"set-up: {file} cannot be locked on its file system" in done.out


def test_a_moved_clone_is_built_again(clone):
    setup(clone).check()
    moved = clone.parent / "moved"
    clone.rename(moved)
    setup(moved).check()


def test_a_folder_named_venv_that_setup_did_not_make_is_not_changed(clone):
    (clone / ".venv").mkdir()
    run = setup(clone).check(1)
    assert "was not made by set-up" in run.err
    assert (clone / ".venv").is_dir()
