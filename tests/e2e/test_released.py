"""What released a block, for ways that leave little on the stack: each line of the program says what `why` has to tell."""

import re
import subprocess
from pathlib import Path

import pytest

from conftest import PYTHON, PYTHON_VERSION

PROGRAM = Path(__file__).parent / "programs" / "releases.py"
EXPECTED = {
    number: match[1]
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
    if (match := re.search(r"# -> (\w+)$", line))
}


@pytest.fixture(scope="module")
def told(run_gpumem, tmp_path_factory):
    out = tmp_path_factory.mktemp("released") / "run.gpumem"
    run_gpumem("run", "--sim", "-o", out, "--", PYTHON, PROGRAM).check()
    told = {}
    for event in run_gpumem("events", out, "--json").check().json_lines():
        if event["action"] != "alloc" or event["size"] != 1 << 20:
            continue
        answer = run_gpumem("why", out, f"#{event['n']}", "--json").check().json()
        if answer["cause"] and answer["cause"]["line"]:
            told.setdefault(answer["cause"]["line"], []).append(answer)
    return told


CLOSES = """
import weakref
class Held: pass
def generator():
    held = Held()
    seen.append(weakref.ref(held))
    yield
seen = []
begun = generator()
next(begun)
begun.close()
raise SystemExit(seen[0]() is not None)
"""


@pytest.mark.parametrize("line", EXPECTED)
def test_what_released_it(told, line):
    text = PROGRAM.read_text().splitlines()[line - 1]
    if ".close()" in text and subprocess.run([PYTHON, "-c", CLOSES]).returncode:
        pytest.skip("close() of this CPython keeps the generator's locals, as 3.12.3's does (gh-118272)")
    # before 3.10 leaving a `with` has the line of the body's last statement
    ends_at = line + 1 if PYTHON_VERSION < (3, 10) and text.lstrip().startswith("with ") else line
    kinds = [answer["cause"]["kind"] for answer in told.get(ends_at, [])]
    assert kinds == [EXPECTED[line]], text


def test_a_sentence_names_no_iteration_that_did_not_run(told):
    sentences = {answer["cause"]["line"]: answer["sentence"] for answers in told.values() for answer in answers}
    by_text = {PROGRAM.read_text().splitlines()[line - 1].strip(): text for line, text in sentences.items()}
    assert "when awaited() ended" in by_text["await awaited()  # -> generator_end"]
    assert "the result of gives()" in by_text["gives()  # -> result_dropped"]
    assert "as a leaf" in by_text["loss = None  # -> autograd_release"]
    assert not any("backward pass" in text or "SumBackward" in text for text in sentences.values())
