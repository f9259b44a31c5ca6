"""Random training programs that log their own steps and know what they keep (programs/step_loops.py): `steps` and `leaks`, asked of
gpumem's recording and of PyTorch's snapshot, say the same. docs/truth.md tells how they are made."""

import collections
import os
import sys

import pytest

import truth
from conftest import PYTHON, ROOT, run_process

sys.path.insert(0, str(ROOT / "tests" / "tools"))
import judge_step_loops  # noqa: E402

PROGRAM = ROOT / "tests" / "e2e" / "programs" / "run_step_loops.py"
# A snapshot does not distinguish two threads or tasks in the same code, nor two entries into a loop by the same line.
UNKNOWABLE = {(shape, question, "snapshot") for shape in ("two_threads", "tasks", "one_line") for question in ("steps", "leaks")}


def judged(gpumem, folder, seeds):
    """Of each answer: whether it can be known, question, source, what is wrong with it."""
    env = {name: value for name, value in os.environ.items() if name != "GPUMEM_NO_RECORD"}
    run = [gpumem, "run", "--sim", "-o", folder / "run.gpumem", "--", PYTHON, PROGRAM, folder, *seeds]
    run_process(run, env=env, timeout=7200).check()
    errors = [path.read_text() for path in folder.glob("*.error")]
    assert not errors, errors[0]
    answers = list(judge_step_loops.judge(gpumem, folder))
    assert len({seed for seed, *_ in answers}) == len(seeds)
    return [((shape.split(",")[0], question, source) not in UNKNOWABLE, question, source, wrong and f"{seed} ({shape}, {leak}): {wrong}")
            for seed, shape, leak, question, source, wrong in answers]  # fmt: skip


def test_steps_and_leaks_are_those_that_the_programs_know(gpumem, tmp_path):
    wrong = [(question, source, why) for known, question, source, why in judged(gpumem, tmp_path, range(300, 312)) if known and why]
    assert not wrong, wrong


def test_steps_and_leaks_are_right_where_the_loops_are_a_library_s(gpumem, tmp_path):
    """One loop trains and evaluates; accumulation with closures; rollouts (programs/library_loops.py)."""
    wrong = [(question, source, why) for _, question, source, why in judged(gpumem, tmp_path, range(1_000_300, 1_000_312)) if why]
    assert not wrong, wrong


def test_steps_and_leaks_are_right_where_a_trainer_keeps_its_batches_and_fetches_ahead(gpumem, tmp_path):
    """The loops of fastai's Learner and of transformers' Trainer (programs/trainer_loops.py)."""
    wrong = [(question, source, why) for _, question, source, why in judged(gpumem, tmp_path, range(2_000_000, 2_000_012)) if why]
    assert not wrong, wrong


def test_steps_and_leaks_are_right_where_one_line_trains_and_validates(gpumem, tmp_path):
    """`for phase in ("train", "val"):` with nothing allocated or released between the two."""
    wrong = [(question, source, why) for known, question, source, why in judged(gpumem, tmp_path, range(2_500_000, 2_500_012)) if known and why]
    assert not wrong, wrong


# What grows by half-precision blocks that torch.cat() converts; inputs whose results get longer by as much as another result has; tasks
# of asyncio that take turns, whose loops tell their iterations by an iterator, or by nothing.
def test_a_recording_has_the_data_that_these_programs_print(gpumem, tmp_path):
    wrong = [why for _, _, source, why in judged(gpumem, tmp_path, [21128, 20605, 5, 129]) if source == "recording" and why]
    assert not wrong, wrong


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", [*range(10_000, 14_000, 100), *range(1_001_000, 1_001_400, 100), *range(2_001_000, 2_001_400, 100), 2_501_000])
def test_of_a_hundred_programs_98_percent_are_right(gpumem, tmp_path, first):
    asked, right = collections.Counter(), collections.Counter()
    told = []
    for known, question, source, why in judged(gpumem, tmp_path, range(first, first + 100)):
        if known:
            asked[question, source] += 1
            right[question, source] += not why
            told += [(question, source, why)] if why else []
    assert asked
    for one, count in asked.items():
        wrong = [why for question, source, why in told if (question, source) == one]
        truth.note(one[0], f"a {one[1]}", "programs", count, right[one], first, wrong)
    for one, count in asked.items():
        assert right[one] >= 0.98 * count, (one, right[one], count, told)


@pytest.mark.parametrize(("call", "steps"), [
    pytest.param("transformer(128, False, False, warm=1)", 1, marks=pytest.mark.long), ("transformer(128, True, False, warm=1)", 1), ("attention()", 1), ("linear_loop()", 3),
])  # fmt: skip
def test_the_programs_of_public_snapshots_have_the_steps_that_they_have(run, sim_env, run_gpumem, tmp_path, call, steps):
    """The 24 layers of a forward pass are not steps."""
    snapshot = tmp_path / "run.pickle"
    source = f"import torch, as_on_a_gpu as it; it.figures = lambda: torch.cuda.memory._dump_snapshot({str(snapshot)!r}); it.{call}"
    env = {**sim_env(), "PYTHONPATH": str(PROGRAM.parent)}
    run([PYTHON, "-W", "ignore", "-c", source], env=env).check()
    assert run_gpumem("info", snapshot, "--json").check().json()["steps"] == steps
    assert run_gpumem("leaks", snapshot, "--json").check().json()["sites"] == []
