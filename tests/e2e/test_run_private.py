"""What `gpumem run` leaves is its user's alone, and the folder for temporary files sets nothing."""

import os
import stat

import pytest

from conftest import PYTHON

BLOCK = "import torch; kept = torch.zeros(1 << 20, device='cuda')"


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "with a limit"])
def test_only_its_user_can_read_a_recording(run_gpumem, tmp_path, packed):
    """Command line, paths and names are in it, whatever the umask."""
    log = tmp_path / "run.gpumem"
    words = [] if packed else ["--max-size", "64MiB"]
    run_gpumem("run", "--sim", "-o", log, *words, "--", PYTHON, "-c", BLOCK, umask=0).check()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_no_setting_is_read_from_the_folder_for_temporary_files(run_gpumem, tmp_path):
    folder = tmp_path / f"a;devices=cpu;on_oom=stop;out={tmp_path}"
    folder.mkdir(parents=True)
    log = tmp_path / "run.gpumem"
    done = run_gpumem("run", "--sim", "-o", log, "--", PYTHON, "-c", BLOCK, env={**os.environ, "TMPDIR": str(folder)})
    assert done.status == 2 and "TMPDIR" in done.err and not log.exists()


def test_a_packed_recording_does_not_take_the_mode_of_the_file_that_it_replaces(run_gpumem, tmp_path):
    log = tmp_path / "run.gpumem"
    program = f"import os, torch; a = torch.empty(1, device='cuda'); os.chmod({str(log)!r}, 0o6755)"
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, "-c", program).check()
    assert log.read_bytes()[:7] == b"\x89GPUMEM"
    assert stat.S_IMODE(log.stat().st_mode) == 0o755
