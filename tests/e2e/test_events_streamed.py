"""`events` of a recording that is much larger as JSON than memory should be: it is written as it is read, and --from and --to read their part."""

import os
import subprocess

import pytest

EVENTS = 100_000
MOST_KB = 150_000  # ten times as much is written


@pytest.fixture(scope="module")
def recording(tmp_path_factory, build_dir):
    file = tmp_path_factory.mktemp("large") / "run.gpumem"
    subprocess.run([build_dir / "tests" / "bench_log", str(EVENTS), file, "training", "packed"], check=True, stdout=subprocess.DEVNULL)
    return file


def ask(gpumem, *words):
    """(lines, bytes, greatest resident memory in KB)"""
    process = subprocess.Popen([gpumem, "events", *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    lines = size = 0
    for line in process.stdout:
        lines, size = lines + 1, size + len(line)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return lines, size, usage.ru_maxrss


def test_all_events_as_json_take_little_memory(gpumem, recording):
    lines, size, memory = ask(gpumem, recording, "--json")
    assert lines >= EVENTS
    assert size > MOST_KB * 1024 * 1.5  # else nothing is shown by it
    assert memory < MOST_KB


def test_a_part_of_the_events_is_that_part(gpumem, recording):
    lines, _, memory = ask(gpumem, recording, "--json", f"--from={EVENTS - 100}", f"--to={EVENTS - 91}")
    assert lines == 10
    assert memory < MOST_KB
