"""The examples: each says what it shows and how to run it."""

import ast

import pytest

from conftest import EXAMPLES

PROGRAMS = sorted(EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_example_names_the_command_that_runs_it(program):
    text = ast.get_docstring(ast.parse(program.read_text()))
    commands = [line for line in text.splitlines() if line.startswith("    ")]
    assert len(commands) == 1
    assert commands[0].split()[-1] == f"examples/{program.name}"
