"""docs/questions-amp-zero.md: each question of the texts about mixed precision and ZeRO has a command whose output says the answer.

The page is the list. Each of its sections is one session of gdb, in which all its commands are typed, in order. What `zero` answers is asked
every day in test_zero.py.
"""

import re
from pathlib import Path

import pytest

from conftest import ROOT, PYTHON

PAGE = ROOT / "docs" / "questions-amp-zero.md"
START = re.compile(r"^    gpumem gdb (.*) -- python (\S+)$", re.M)


def sections():
    for text in PAGE.read_text().split("\n## ")[1:]:
        start = START.search(text)
        if start:
            yield text.partition("\n")[0], start[1].split(), start[2], list(rows(text))


def rows(text):
    """(question, commands, answer) of each line of the table."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and "`" in line:
            assert len(cells) == 3, line
            yield cells[0], re.findall(r"`([^`]+)`", cells[1]), re.fullmatch(r"`([^`]+)`", cells[2])[1]


def shown(answer, output):
    """Whether a line of the output has the answer. "…" and runs of spaces stand for what is left out."""
    words = [r"\s+".join(map(re.escape, part.split())) for part in answer.split("…")]
    return re.search(".*".join(words).replace(r"\s+", " +"), output)


@pytest.mark.parametrize(
    ("options", "program", "questions"),
    [pytest.param(*section[1:], id=section[0], marks=[pytest.mark.long] * section[0].startswith("ZeRO")) for section in sections()],
)
def test_each_question_has_a_command_whose_output_says_the_answer(run_gdb, options, program, questions):
    sim, *more = options
    commands = [command for _, some, _ in questions for command in some]
    gdb = run_gdb(commands, Path(ROOT / program), sim=sim.partition("=")[2] or True, sim_options=more, interpreter=PYTHON)
    position, wrong = 0, []
    for question, some, answer in questions:
        position += len(some)
        if not shown(answer, gdb.sections[position - 1]):
            wrong.append((question, answer, gdb.sections[position - 1]))
    assert not wrong, "\n\n".join(f"{question}\nexpected: {answer}\n{output}" for question, answer, output in wrong)


def test_the_page_has_the_questions_of_both_texts():
    counts = {name: len(questions) for name, _, _, questions in sections()}
    assert len(counts) == 4 and counts["Mixed precision"] > 30 and sum(counts.values()) > 60, counts
