"""An answer that cannot be written, as the disk behind a redirection is full, is an error: not a short answer."""

import os
import subprocess

import pytest

from conftest import BUILD, PYTHON

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


@pytest.fixture(scope="module")
def ranks(run, tmp_path_factory):
    """Two recordings, which differ; the second leaks."""
    folder = tmp_path_factory.mktemp("ranks")
    run([BUILD / "tests" / "rank_recordings", folder, "2", "5000", "1", "--leak", "1"]).check()
    return folder / "run.0.gpumem", folder / "run.1.gpumem"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("question", ["assert LEAKS --peak 1KiB", "diff RUN LEAKS", "leaks LEAKS", "gpumem-ranks diff RUN LEAKS"])
def test_a_negative_answer_that_cannot_be_written_is_an_error(gpumem, ranks, question, form):
    words = question.split()
    program = "gpumem-ranks" if words[0] == "gpumem-ranks" else "gpumem"
    files = dict(zip(["RUN", "LEAKS"], ranks))
    command = [gpumem.parent / program, *(files.get(word, word) for word in words if word != program), *form]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 1
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 5
    assert done.stderr.endswith(f"{program}: cannot write the answer: No space left on device\n")
