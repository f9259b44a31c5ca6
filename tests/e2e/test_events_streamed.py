"""`events` of a recording that is much larger as JSON than memory should be: it is written as it is read, and --from and --to cost their part."""

import subprocess
import sys

import pytest

EVENTS = 100_000
MOST_KB = 150_000  # ten times as much is written


@pytest.fixture(scope="module")
def recording(tmp_path_factory, build_dir):
    file = tmp_path_factory.mktemp("large") / "run.gpumem"
    subprocess.run([build_dir / "tests" / "bench_log", str(EVENTS), file, "training", "packed"], check=True, stdout=subprocess.DEVNULL)
    return file


# ru_maxrss survives exec: of a child of ours it would be what this process has. So a small process is its parent.
PARENT = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
with open(sys.argv[1], "w") as out:
    out.write(f"{status} {usage.ru_maxrss} {int(1000 * usage.ru_utime)}")
"""


def ask(gpumem, tmp_path, *words):
    """(lines, bytes, greatest resident memory in KB, its processor time in ms)"""
    told = tmp_path / "told"
    command = [sys.executable, "-S", "-c", PARENT, told, gpumem, "events", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        lines = size = 0
        for line in process.stdout:
            lines, size = lines + 1, size + len(line)
    status, memory, time = map(int, told.read_text().split())
    assert status == 0
    return lines, size, memory, time


def test_all_events_as_json_take_little_memory(gpumem, recording, tmp_path):
    lines, size, memory, _ = ask(gpumem, tmp_path, recording, "--json")
    assert lines >= EVENTS
    assert size > MOST_KB * 1024 * 1.5  # else nothing is shown by it
    assert memory < MOST_KB


def test_a_part_of_the_events_is_that_part(gpumem, recording, tmp_path):
    lines, _, memory, time = ask(gpumem, tmp_path, recording, "--json", f"--from={EVENTS - 100}", f"--to={EVENTS - 91}")
    assert lines == 10
    assert memory < MOST_KB
    # all events are read, which takes little: only the part is put into words
    *_, all_time = ask(gpumem, tmp_path, recording, "--json")
    assert time < all_time / 3, f"{time} ms of {all_time} ms"
