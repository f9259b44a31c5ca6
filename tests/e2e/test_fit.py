"""gpumem fit: the largest value with which a real program fits a simulated device."""

import os
import re
import signal
import subprocess

import pytest
from conftest import PYTHON

MIB = 1 << 20
# CUDA's own calls, found in the preloaded library: a run takes no time.
TAKES = """
import ctypes, sys
cuda, at = ctypes.CDLL(None), ctypes.c_void_p()
sys.exit(cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(int(sys.argv[1]) << 20)))
"""
FREE = """
import ctypes
free, total = ctypes.c_size_t(), ctypes.c_size_t()
ctypes.CDLL(None).cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
print(free.value >> 20)
"""


@pytest.fixture(scope="module")
def room(run_gpumem):
    """MiB that a program gets on a device of 512 MiB, in whole pages of 2 MiB."""
    return int(run_gpumem("run", "--sim=512MiB", "--", PYTHON, "-c", FREE).check().out) // 2 * 2


def test_the_largest_value_is_the_device_s_free_memory(run_gpumem, room):
    words = ["--vary", f"size=1..{room + 100}", "--json"]
    answer = run_gpumem("fit", "--sim=512MiB", *words, "--", PYTHON, "-c", TAKES, "{size}").check().json()
    assert (answer["name"], answer["largest"], answer["assumes"]) == ("size", room, "monotonic")
    runs = {run["value"]: run for run in answer["runs"]}
    assert runs[room]["fits"] and not runs[room + 1]["fits"]
    assert runs[room]["peak_reserved"] == room * MIB


def test_the_table_has_a_row_for_each_run_and_says_what_it_assumes(run_gpumem):
    finished = run_gpumem("fit", "--sim=512MiB", "--vary=n=1..2", "--", PYTHON, "-c", TAKES, "{n}").check()
    assert re.findall(r"^ +(\d+)  fits +2\.00 MiB", finished.out, re.M) == ["1", "2"]
    assert "n = 2 is the largest that fits 512MiB (512.00 MiB): it takes 2.00 MiB." in finished.out
    assert "more may fit" in finished.out


def test_pytorch_s_own_out_of_memory_error_is_what_does_not_fit(run_gpumem):
    program = "import sys, torch; torch.empty(int(sys.argv[1]) << 20, dtype=torch.uint8, device='cuda')"
    words = ["--vary=n=600..601", "--json"]
    answer = run_gpumem("fit", "--sim=512MiB", *words, "--", PYTHON, "-c", program, "{n}").check(1).json()
    assert answer["largest"] is None and [run["fits"] for run in answer["runs"]] == [False]


def test_nothing_that_fits_is_a_negative_answer(run_gpumem):
    finished = run_gpumem("fit", "--sim=512MiB", "--vary=n=600..700", "--", PYTHON, "-c", TAKES, "{n}").check(1)
    assert "Not even n = 600 fits 512MiB" in finished.out


def test_a_program_that_fails_for_another_reason_is_told_with_its_last_lines(run_gpumem):
    program = "import sys; sys.exit('no such data set ' + sys.argv[1])"
    finished = run_gpumem("fit", "--vary", "n=1..9", "--", PYTHON, "-c", program, "x{n}").check(4)
    assert "with {n} = 1 the program ended with status 1, but not because device memory ran out" in finished.err
    assert "program's last lines:\n  no such data set x1\n" in finished.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "true", "{n}"], "--vary is missing"),
        (["--vary", "n=5..1", "--", "true", "{n}"], "not NAME=A..B"),
        (["--vary", "n", "--", "true"], "not NAME=A..B"),
        (["--vary", "n=1..5", "--", "true"], "{n} is not in the program's arguments"),
        (["--vary", "n=1..5"], "no program"),
        (["--bogus", "--", "true"], "unknown option"),
    ],
)
def test_wrong_usage_says_what_to_type(run_gpumem, words, message):
    assert message in run_gpumem("fit", *words).check(2).err


def test_ctrl_c_ends_the_program_and_leaves_nothing_behind(gpumem, tmp_path, wait_for):
    seen = tmp_path / "pid"
    program = f"import os, time; open({str(seen)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    own = tmp_path / "own"
    own.mkdir()
    with subprocess.Popen(
        [str(gpumem), "fit", "--vary=n=1..9", "--", str(PYTHON), "-c", program, "{n}"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(own)},
    ) as process:
        wait_for(lambda: seen.exists() and seen.read_text())
        assert [path.name[:10] for path in own.iterdir()] == ["gpumem-fit"]
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(600) == -signal.SIGINT
    with pytest.raises(ProcessLookupError):
        os.kill(int(seen.read_text()), 0)
    assert not list(own.iterdir())
