"""The pages of the manual: one for each command, without a fault, with all that the command's help says."""

import re
import shutil

import pytest
from conftest import BUILD, run_process

MANUAL = BUILD / "man"


@pytest.fixture(scope="module")
def commands(run_gpumem):
    return re.findall(r"^  ([a-z][a-z-]+) ", run_gpumem("--help").check().out, re.M)


def words(text):
    return re.findall(r"[\w]+", text)


def test_each_command_has_a_page(commands):
    shown = run_process([BUILD / "bin" / "gpumem-ranks", "--help"]).check().out
    of_ranks = {f"gpumem-ranks-{command}.1" for command in re.findall(r"^  ([a-z][a-z-]+) ", shown, re.M)}
    pages = {"gpumem.1", "gpumem-ranks.1", *(f"gpumem-{command}.1" for command in commands), *of_ranks}
    assert len(of_ranks) >= 9 and {path.name for path in MANUAL.glob("*.1")} == pages


def test_mandoc_finds_no_fault():
    if not shutil.which("mandoc"):
        pytest.skip("no mandoc on this machine")
    answer = run_process(["mandoc", "-Tlint", "-W", "style", *MANUAL.glob("*.1")], merge=True)
    assert (answer.status, answer.out) == (0, "")


def test_a_page_has_every_word_of_the_help(commands, run_gpumem):
    if not shutil.which("mandoc"):
        pytest.skip("no mandoc on this machine")
    for command in commands:
        shown = run_process(["mandoc", "-Tutf8", MANUAL / f"gpumem-{command}.1"]).check().out
        shown = re.sub(".\b", "", shown)
        missing = set(words(run_gpumem(command, "--help").check().out)) - set(words(shown)) - {"Usage", "Example", "Options"}
        assert not missing, command
