"""Copies of weights, and weights computed from others, are no input; the batches beside them are. Programs made at random."""

import sqlite3
import sys
from pathlib import Path

import pytest
from conftest import PYTHON

sys.path.insert(0, str(Path(__file__).parent / "programs"))
import weight_copies  # noqa: E402


def ask(run_gpumem, folder, seed, make=weight_copies.main):
    """What is wrong with the answers about a program: (what, category, phase, size) of blocks."""
    text = make(seed)
    program, recording, database = (folder / f"{seed}.{ending}" for ending in ("py", "gpumem", "db"))
    program.write_text(text)
    run_gpumem("run", "--sim", "-o", recording, "--", PYTHON, program).check()
    run_gpumem("export", recording, "--to", "sqlite", "-o", database).check()
    with sqlite3.connect(database) as connection:
        blocks = connection.execute(
            "SELECT f.line, b.category, b.phase, b.size FROM block b JOIN stack_frame s ON s.stack = b.stack"
            " JOIN frame f ON f.id = s.frame WHERE f.file = ? GROUP BY b.id HAVING s.depth = min(s.depth)",
            (str(program),),
        ).fetchall()
    marks = {number: line.split("#")[1].strip() for number, line in enumerate(text.splitlines(), 1) if "  # " in line}
    asked = [(marks[line], *block) for line, *block in blocks if line in marks]
    assert {mark for mark, *_ in asked} == {"BATCH", "WEIGHTS"}
    return [block for block in asked if (block[0] == "BATCH") != (block[1] == "input")]


@pytest.mark.parametrize("seed", range(len(weight_copies.COPIES) + 1))
def test_copies_of_weights_are_no_input(run_gpumem, tmp_path, seed):
    assert ask(run_gpumem, tmp_path, seed) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_with_the_sizes_of_three_parameters_is_input(run_gpumem, tmp_path, seed):
    assert ask(run_gpumem, tmp_path, seed, weight_copies.by_chance) == []


@pytest.mark.long
def test_copies_of_weights_are_no_input_in_many_programs(run_gpumem, tmp_path):
    wrong = {seed: found for seed in range(100, 260) if (found := ask(run_gpumem, tmp_path, seed))}
    assert not wrong
