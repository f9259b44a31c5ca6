"""leaks tells a leak from a buffer that fills and from a cache by the inputs' shapes: programs whose lines say what they are."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PYTHON
from schemas import problems

sys.path.insert(0, str(Path(__file__).parent / "programs"))
import growths  # noqa: E402


def marks(text):
    return {number: found[1] for number, line in enumerate(text.splitlines(), 1) if (found := re.search(r"# ([A-Z]+)$", line))}


def asked(run_gpumem, spawn, gpumem, tmp_path, text):
    """(marks by line, leaks of the recording, leaks with the process)"""
    program, log = tmp_path / "program.py", tmp_path / "run.gpumem"
    program.write_text(text)
    command = [str(gpumem), "run", "--sim", "-o", str(log), "--", str(PYTHON), str(program)]
    process = spawn(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    live = run_gpumem("leaks", "--pid", process.stdout.readline().strip(), "--json").json()
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.wait(600) == 0
    recorded = run_gpumem("leaks", log, "--json").json()
    return marks(text), recorded, live, log


def lines(answer, key):
    return {site["line"] for site in answer[key]}


def judge(known, recorded, live):
    """What is wrong with the answers, in words."""
    wrong = []
    for line, mark in known.items():
        said, now = line in lines(recorded, "sites"), line in lines(live, "sites")
        if said != (mark in ("LEAK", "LIMIT", "NOTED", "EITHER")):
            wrong.append(f"the recording: line {line} is {mark}, and {'a' if said else 'no'} leak is told")
        if now != (mark in ("LEAK", "NOTED", "EITHER")):
            wrong.append(f"the process: line {line} is {mark}, and {'a' if now else 'no'} leak is told")
    for answer in recorded, live:
        wrong += [f"line {line} keeps nothing" for line in (lines(answer, "sites") | lines(answer, "bounded")) - set(known)]
        wrong += [f"line {site['line']}: {site['bound']}" for site in answer["sites"] if site["bound"] and site["bound"]["kind"] != "none"]
        wrong += problems("leaks", answer)
    for site in live["sites"]:
        limited = bool(site["bound"] and site["bound"]["limit"])
        if (known.get(site["line"]) == "NOTED") != limited:
            wrong.append(f"line {site['line']}: the note about its limit is {site['bound']}")
    for site in live["bounded"]:
        if known.get(site["line"]) == "LIMIT" and site["bound"]["kind"] != "limit":
            wrong.append(f"line {site['line']} has a limit, and is told as {site['bound']['kind']}")
    return wrong


# One of each kind: a leak, a full buffer, a filling one, a cache whose lengths come again; and lengths that do not.
DAILY = [3, 13, 24]


@pytest.mark.parametrize("seed", DAILY)
def test_growth_that_ends_is_distinguished_from_a_leak(run_gpumem, spawn, gpumem, tmp_path, seed):
    known, recorded, live, log = asked(run_gpumem, spawn, gpumem, tmp_path, growths.main(seed))
    assert judge(known, recorded, live) == []
    text = run_gpumem("leaks", log).out
    if recorded["bounded"]:
        assert "Not counted as leaks, as their growth ends:\n" in text


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(100, 200, 20))
def test_growth_that_ends_is_distinguished_in_many_programs(run_gpumem, spawn, gpumem, tmp_path, first):
    wrong = {}
    for seed in range(first, first + 20):
        found = judge(*asked(run_gpumem, spawn, gpumem, tmp_path, growths.main(seed))[:3])
        if found:
            wrong[seed] = found
    assert wrong == {}
