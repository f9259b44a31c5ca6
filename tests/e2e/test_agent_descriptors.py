"""A program that has no descriptors left for a while, closes the agent's, or becomes another user, is recorded to its end."""

import os

import pytest

from conftest import PYTHON

PROGRAM = """
import os, resource, sys, torch
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
def allocate():
    for _ in range(150_000):
        torch.empty(16)
allocate()
held = []
if "closes, then exhausts" in sys.argv:
    os.closerange(3, 256)
if "exhausts" in sys.argv[-1]:
    while True:
        try:
            held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            break
if "closes" in sys.argv:
    os.closerange(3, 256)
if "removes" in sys.argv:
    os.unlink(sys.argv[1])
if "becomes nobody" in sys.argv:
    os.setgid(65534)
    os.setuid(65534)
allocate()
for file in held:
    os.close(file)
allocate()
os._exit(0)
"""


def record(run_gpumem, tmp_path, what):
    folder = tmp_path / "only_its_owners"
    folder.mkdir(mode=0o700)
    (tmp_path / "program.py").write_text(PROGRAM)
    log = folder / "run.gpumem"
    run_gpumem("run", "--devices", "cpu", "--stacks", "none", "-o", log, "--", PYTHON, tmp_path / "program.py", log, what).check()
    return log


@pytest.mark.parametrize("what", [pytest.param("nothing", marks=pytest.mark.long), "exhausts", "closes", "becomes nobody"])
def test_all_events_are_recorded_whatever_the_program_does_with_descriptors(run_gpumem, tmp_path, what):
    if what == "becomes nobody" and os.geteuid() != 0:
        pytest.skip("another user can be become by root only")
    log = record(run_gpumem, tmp_path, what)
    info = run_gpumem("info", log, "--json").check().json()
    assert sum(device["events"] for device in info["devices"]) >= 2 * 450_000
    assert not [gap for gap in info["gaps"] if "unrecorded" in gap]


def test_a_file_that_cannot_be_opened_again_says_so(run_gpumem, tmp_path):
    """The program closes the agent's descriptor and takes all others, so nothing is left to open the file with."""
    log = record(run_gpumem, tmp_path, "closes, then exhausts")
    info = run_gpumem("info", log, "--json").check().json()
    gaps = [gap for gap in info["gaps"] if "unrecorded" in gap]
    assert len(gaps) == 1 and "could not be opened again (too many open files" in gaps[0], info["gaps"]
    assert sum(device["events"] for device in info["devices"]) >= 2 * 150_000


def test_a_file_that_is_removed_ends_the_recording(run_gpumem, tmp_path):
    """Nobody could read it, and it would fill the disk."""
    log = record(run_gpumem, tmp_path, "removes")
    assert not log.exists()
