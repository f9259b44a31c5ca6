"""What a user meets whose disk quota is used up: tried on a file system with quotas, in a virtual machine."""

import sys

import pytest
from conftest import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests" / "tools"))
import linux_vm  # noqa: E402

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(14400),
    pytest.mark.skipif(BUILD != ROOT / "build", reason="the machine runs the build in build/"),
]
MODULES = ["crc32c_generic", "ext4", "loop", "quota_v2"]
EXCEEDED = "Disk quota exceeded: free some of your files there, or name another place\n"


@pytest.fixture(scope="module")
def trials():
    """({(kib, what): (status, said)}, what the program printed to stderr)"""
    why_not = linux_vm.why_not()
    if why_not:
        pytest.skip(why_not)
    found, errors = linux_vm.trials("quota.py", MODULES)
    return {(trial["kib"], trial["what"]): (trial["status"], trial["said"]) for trial in found}, errors


@pytest.mark.parametrize("what", ["core", "export"])
@pytest.mark.parametrize("kib", [4, 64])
def test_what_is_written_names_the_quota_and_leaves_nothing(trials, kib, what):
    status, said = trials[0][kib, what]
    assert status == 4 and said.endswith(EXCEEDED) and said.count("\n") == 1, said
    assert trials[0][kib, "files"][1] == ("attach.gpumem" if kib == 64 else "")


def test_a_recording_without_disk_space_is_refused_and_the_message_names_the_quota(trials):
    status, said = trials[0][4, "attach"]
    assert status == 4 and "cannot record to" in said
    assert "attach.gpumem: the disk or its user's quota is full" in trials[1]


def test_with_disk_space_everything_is_done(trials):
    assert [trials[0][0, what][0] for what in ("attach", "core", "export")] == [0, 0, 0]
    assert trials[0][64, "attach"][0] == 0


@pytest.mark.parametrize("kib", [4, 64, 0])
def test_the_program_runs_to_its_end_without_disk_space(trials, kib):
    assert trials[0][kib, "run"][1].startswith("begun\n")
    assert trials[0][kib, "ends"] == (0, "")
