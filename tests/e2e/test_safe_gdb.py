"""gdb's commands beside a program that means harm: its files' names are no commands, its links are not followed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, ROOT

sys.path.insert(0, str(ROOT / "gdb" / "gpumem"))
import library  # noqa: E402

NOBODY = 65534
LOADS = """
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **names)
{
	for (int i = 1; i < count; i++)
		if (!dlopen(names[i], RTLD_NOW))
			return 1;
	puts("begun");
	fflush(stdout);
	return getchar() < 0;
}
"""
# What gdb's patterns, its command line or its Python would take for more than a name.
NAMES = ["a{1,255}{1,255}.so", "b\\1(((.so", "c[.so", "d\\.so", "e*+?.so", "f$(touch pwned);g.so", "h' \".so", "i|j.so", "k\nshell touch pwned\n.so"]


def test_names_of_libraries_are_no_patterns_and_no_commands(spawn, gpumem, tmp_path):
    (tmp_path / "loads.c").write_text(LOADS)
    (tmp_path / "library.c").write_text("int number = 1;\n")
    subprocess.run(["cc", "-o", tmp_path / "loads", tmp_path / "loads.c"], check=True)
    subprocess.run(["cc", "-g", "-shared", "-fPIC", "-o", tmp_path / "library.so", tmp_path / "library.c"], check=True)
    for name in NAMES:
        (tmp_path / name).write_bytes((tmp_path / "library.so").read_bytes())
    process = spawn([str(tmp_path / "loads"), *(str(tmp_path / name) for name in NAMES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout.readline() == "begun\n"
    command = [gpumem, "gdb", "-p", str(process.pid), "-batch", "-ex", "info sharedlibrary"]
    told = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=600)
    rows = [line for line in told.stdout.splitlines() if line.startswith("0x") and str(tmp_path) in line]
    assert len(rows) == len(NAMES), told.stdout + told.stderr
    # all but that with a line's end in it, which the kernel shows otherwise than gdb: others are read all the same
    unread = [line for line in rows if " Yes " not in line]
    assert all("k" in Path(line).name or line.endswith("/k") for line in unread) and len(unread) <= 1, told.stdout
    assert not (tmp_path / "pwned").exists()


# --- a recording that is saved ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def save():
    os.environ["GPUMEM_LIBRARY"] = str(BUILD / "lib" / library.NAME)
    try:
        library.library()
    finally:
        del os.environ["GPUMEM_LIBRARY"]
    return library.save_recording


@pytest.fixture
def theirs(tmp_path):
    """A folder that was given to the user of the recorded program."""
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    if os.geteuid() != 0:
        pytest.skip("needs a file of another user: run the tests as root")
    return folder


def give(*paths):
    for path in paths:
        os.lchown(path, NOBODY, NOBODY)


def test_a_recording_is_saved_for_its_user_alone(save, tmp_path):
    recording, saved = tmp_path / "1.gpumem", tmp_path / "saved"
    recording.write_bytes(b"x" * 1_000_000)
    recording.chmod(0o644)
    before = os.umask(0)
    try:
        save(str(recording), str(saved))
    finally:
        os.umask(before)
    assert saved.read_bytes() == recording.read_bytes()
    assert saved.stat().st_mode & 0o777 == 0o600


def test_a_recording_of_another_users_program_is_saved(save, theirs, tmp_path):
    recording = theirs / "1.gpumem"
    recording.write_bytes(b"recorded")
    give(recording, theirs)
    save(str(recording), str(tmp_path / "saved"))
    assert (tmp_path / "saved").read_bytes() == b"recorded"


@pytest.mark.parametrize("kind", ["link", "hard link", "fifo", "of a third user"])
def test_what_another_user_puts_in_a_recordings_place_is_not_read(save, theirs, tmp_path, kind):
    secret, recording = tmp_path / "secret", theirs / "1.gpumem"
    secret.write_text("of root")
    secret.chmod(0o600)
    if kind == "link":
        recording.symlink_to(secret)
        give(recording)
    elif kind == "hard link":
        os.link(secret, recording)
    elif kind == "fifo":
        os.mkfifo(recording)
        give(recording)
    else:
        recording.write_text("of a third user")
        os.chown(recording, 12345, 12345)
    give(theirs)
    with pytest.raises(library.Failure, match="nothing is saved"):
        save(str(recording), str(tmp_path / "saved"))
    assert not (tmp_path / "saved").exists()


def test_a_recording_is_saved_through_no_link_of_another_user(save, theirs, tmp_path):
    recording, link, victim = tmp_path / "1.gpumem", theirs / "saved", tmp_path / "victim"
    recording.write_text("recorded")
    victim.write_text("precious")
    link.symlink_to(victim)
    give(link)
    with pytest.raises(library.Failure, match="another user's symbolic link"):
        save(str(recording), str(link))
    assert victim.read_text() == "precious"
