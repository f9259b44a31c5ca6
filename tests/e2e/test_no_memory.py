"""gpumem itself runs out of memory: each of its allocations fails once, and each answer is right or an error.

`build/tests/libfail_allocation.so` makes the N-th allocation fail, or it and all after it. By the ways to an allocation (its
innermost callers) it tells which N are worth a test: with --long all of them, for each question.
"""

import json
import os
import random
import subprocess

import pytest
from conftest import BUILD, ROOT, Started

PROGRAM = ROOT / "tests" / "e2e" / "programs" / "small_training.py"
EVERY_DAY = 2  # ways, of each question
QUESTIONS = {
    "process": [["info"], ["retained"], ["blocks"], ["segments"], ["oom"], ["zero"], ["who-holds", "BLOCK"]],
    "core": [["info"], ["retained"], ["zero"], ["blocks"], ["segments"], ["who-holds", "BLOCK"]],
    "recording": [[name] for name in ("info", "peak", "steps", "amp", "leaks", "blocks", "segments", "phases", "oom")]
    + [["why", "#5"], ["diff", "FILE"], ["view"], ["view", "--svg=/dev/null"]],
    "snapshot": [[name] for name in ("info", "peak", "steps", "leaks", "blocks", "segments", "phases", "oom")]
    + [["diff", "FILE"]],
}
CASES = [(target, question) for target, questions in QUESTIONS.items() for question in questions]


@pytest.fixture(scope="module")
def targets(gpumem, python, sim_env, tmp_path_factory):
    """The ends of a command line that ask a process, a core, a recording and a snapshot."""
    folder = tmp_path_factory.mktemp("no_memory")
    program = [python, PROGRAM, folder / "snapshot.pickle"]
    record = [gpumem, "run", "--sim", "-o", folder / "run.gpumem", "--"]
    subprocess.run([*record, *program], stdin=subprocess.DEVNULL, check=True, capture_output=True)
    process = Started(program, env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    block = process.stdout.readline().strip()
    subprocess.run([gpumem, "core", str(process.pid), "-o", folder / "core"], check=True, capture_output=True)
    yield {
        "process": (["--pid", str(process.pid)], block),
        "core": (["--core", str(folder / "core")], block),
        "recording": ([str(folder / "run.gpumem")], block),
        "snapshot": ([str(folder / "snapshot.pickle")], block),
    }
    process.kill()
    process.wait()


def without_times(value):
    """An answer without what differs each time."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if "seconds" not in key}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def answer(run):
    """What is the same each time: not how many pages the process has by now, which its own threads and PyTorch's may add to."""
    if not run.stdout:
        return run.stderr
    told = without_times(json.loads(run.stdout))
    told.get("pause", {}).pop("copied", None)
    told.get("scan", {}).pop("bytes", None)
    return told


def ask(gpumem, command, **keys):
    environment = dict(os.environ, LD_PRELOAD=str(BUILD / "tests" / "libfail_allocation.so"))
    environment.update({f"GPUMEM_TEST_{key}": str(value) for key, value in keys.items()})
    return subprocess.run([gpumem, *command, "--json"], env=environment, capture_output=True, text=True, timeout=600)


def check(gpumem, targets, folder, target, question, choose):
    where, block = targets[target]
    name, *rest = [{"BLOCK": block, "FILE": where[0]}.get(word, word) for word in question]
    command = [name, *where, *rest]
    good = ask(gpumem, command, ALLOCATIONS=folder / "ways")
    assert good.returncode in (0, 1), good.stderr
    ways = sorted(int(line) for line in (folder / "ways").read_text().split())
    assert len(ways) > 50
    for number, on in choose(ways):
        run = ask(gpumem, command, FAIL_AT=number, **({"FAIL_ON": 1} if on else {}))
        case = f"{command} with allocation {number} {'and all after it' if on else ''} failing"
        if run.returncode == good.returncode:
            assert answer(run) == answer(good), case
        else:
            assert run.returncode in (3, 4, 5), f"{case}: {run}"
            assert run.stdout == "" and run.stderr.startswith("gpumem: ") and run.stderr.count("\n") == 1, (case, run)


@pytest.mark.parametrize(("target", "question"), CASES)
def test_without_memory_an_answer_is_right_or_an_error(gpumem, targets, tmp_path, target, question):
    some = random.Random(f"{target} {question}")

    def choose(ways):
        return [(one, some.random() < 0.3) for one in some.sample(ways, EVERY_DAY)]

    check(gpumem, targets, tmp_path, target, question, choose)


@pytest.mark.long
@pytest.mark.parametrize(("target", "question"), CASES)
def test_each_way_to_an_allocation_may_fail(gpumem, targets, tmp_path, target, question):
    def choose(ways):
        return [(one, on) for one in ways for on in (False, True)]

    check(gpumem, targets, tmp_path, target, question, choose)
