"""diff, and info and peak of several files: runs whose differences are known."""

import json
from pathlib import Path

import pytest

from conftest import PYTHON

PROGRAM = Path(__file__).parent / "programs" / "side_by_side.py"
X_BYTES = 2000 * 1000 * 4
LEAK_LINE = next(n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if "# LEAK" in line)


@pytest.fixture(scope="module")
def runs(sim_env, run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    made = {}
    for name, arguments in {"a": ["400"], "same": ["400"], "wide": ["4000"], "leak": ["400", "leak"]}.items():
        path = folder / f"{name}.pickle"
        done = run([PYTHON, PROGRAM, path, *arguments], env=sim_env()).check()
        made[name] = path, json.loads(done.out)["peak"]
    return made


def groups(answer, by):
    return {group["key"]: group for table in answer["tables"] if table["by"] == by for group in table["groups"]}


def test_equal_runs_have_no_difference(runs, run_gpumem):
    done = run_gpumem("diff", runs["a"][0], runs["same"][0]).check(0)
    assert "No difference" in done.out
    assert run_gpumem("diff", runs["a"][0], runs["same"][0], "--json").json()["equal"] is True


def test_a_difference_is_shown_by_line_and_adds_up_to_pytorchs_own_peaks(runs, run_gpumem):
    answer = run_gpumem("diff", runs["a"][0], runs["wide"][0], "--json").check(1).json()
    peaks = [runs["a"][1], runs["wide"][1]]
    assert [file["allocated"] for file in answer["files"]] == peaks
    for by in "category", "line":
        rows = groups(answer, by).values()
        assert [sum(row["bytes"][i] for row in rows) for i in (0, 1)] == peaks
    text = run_gpumem("diff", runs["a"][0], runs["wide"][0]).check(1).out
    assert "side_by_side.py:" in text and "optimizer_state" in text and "B: " in text


def test_a_leak_shows_at_its_line_and_grows_with_the_steps(runs, run_gpumem):
    answer = run_gpumem("diff", runs["a"][0], runs["leak"][0], "--step", "6", "--json").check(1).json()
    (leak,) = [row for key, row in groups(answer, "line").items() if f":{LEAK_LINE} in" in key]
    assert leak["blocks"] == [0, 5]
    assert 5 * X_BYTES <= leak["bytes"][1] <= 5 * (X_BYTES + (1 << 20))
    kept = [[step["kept"] for step in file["steps"]] for file in answer["files"]]
    assert len(kept[0]) == len(kept[1]) > 0
    assert all(b - a >= X_BYTES for a, b in zip(*kept))
    text = run_gpumem("diff", runs["a"][0], runs["leak"][0]).check(1).out
    assert "(only in B)" in text


def test_the_rank_that_differs_is_named_with_its_line(runs, run_gpumem):
    files = [runs[name][0] for name in ("a", "same", "leak", "wide")]
    answer = run_gpumem("diff", *files, "--json").check(1).json()
    assert answer["odd"] == str(files[3]) and answer["median"] == runs["a"][1]
    for command in "info", "peak":
        done = run_gpumem(command, *files).check(0)
        assert f"{files[3]} differs most" in done.out
        assert all(str(path) in done.out for path in files)


def test_wrong_uses_are_refused_with_a_suggestion(runs, run_gpumem, tmp_path):
    path = runs["a"][0]
    assert "gpumem diff A B" in run_gpumem("diff", path).check(2).err
    assert "has no step 9: it has 6" in run_gpumem("diff", path, path, "--step", "9").check(2).err
    assert "nosuch" in run_gpumem("diff", path, tmp_path / "nosuch").check(3).err
    assert "line, stack, phase, category, operator, module" in run_gpumem("diff", path, path, "--by", "colour").check(2).err
    run_gpumem("info", path, path, "--pid", "1").check(2)
