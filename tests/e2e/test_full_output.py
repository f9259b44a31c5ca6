"""An answer that cannot be written, as the disk behind a redirection is full, is an error: not a short answer."""

import os
import subprocess

import pytest

from conftest import PYTHON

QUESTIONS = ["advise", "amp", "blocks", "events", "info", "leaks", "peak", "phases", "segments", "steps", "timeline", "why #7"]


@pytest.fixture(scope="module")
def recording(run_gpumem, root, tmp_path_factory):
    log = tmp_path_factory.mktemp("full") / "run.gpumem"
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, root / "examples/linear_loop.py").check()
    return log


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_that_cannot_be_written_is_an_error(gpumem, recording, question, form):
    name, *operands = question.split()
    with open("/dev/full", "wb") as full:
        done = subprocess.run([gpumem, name, recording, *operands, *form], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 5
    assert done.stderr == "gpumem: cannot write the answer: No space left on device\n"
