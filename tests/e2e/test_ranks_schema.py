"""The JSON of gpumem-ranks is what docs/schema/v1/ranks.json says it is."""

import copy
import json
import os
import subprocess

import pytest
from conftest import BUILD
from schemas import SCHEMAS, fields, keys, problems, validator

RANKS = BUILD / "tests" / "ranks-one" / "gpumem-ranks"  # without MPI: each start of it costs half a second
QUESTIONS = ("info", "peak", "diff", "steps", "phases", "leaks", "oom", "timeline", "zero")
# These recordings have no collective calls, and one gpumem answers.
RARE = {"dtype", "send_bytes", "receive_bytes", "process"}


def ask(*words):
    run = subprocess.run([RANKS, *words, "--json", "--no-keep"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    assert run.returncode in (0, 1), run.stderr
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """{question: answers}: a job with a rank that leaks, one that ran out of memory, one without a file and a damaged file; a job whose
    ranks use two devices."""
    folder = tmp_path_factory.mktemp("ranks")
    kinds = {
        "whole": ["12", "2000", "1", "--odd", "5", "--leak", "3", "--oom", "1", "--stages", "2", "--set", "4", "--world", "13", "--job", "77"],
        "devices": ["4", "500", "2", "--devices", "1"],
    }
    for name, words in kinds.items():
        (folder / name).mkdir()
        subprocess.run([BUILD / "tests" / "rank_recordings", folder / name, *words], check=True)
    whole = folder / "whole"
    (whole / "run.6.gpumem").unlink()
    (whole / "run.7.gpumem").write_bytes(b"no recording\n")
    cut = whole / "run.8.gpumem"
    cut.write_bytes(cut.read_bytes()[:-2000])
    (whole / "run.9.gpumem.4711").write_bytes((whole / "run.9.gpumem").read_bytes())
    return {question: [ask(question, f"{folder / name}/run.*.gpumem*") for name in kinds] for question in QUESTIONS}


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_what_the_schema_says(answers, question):
    for answer in answers[question]:
        assert problems("ranks", answer, f"/$defs/{question}") == []


def paths(value, place=()):
    """The places of all fields, the first of a list for all."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from paths(item, (*place, number))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield (*place, name)
            yield from paths(item, (*place, name))


def renamed(answer, place):
    other = copy.deepcopy(answer)
    inner = other
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1] + "_"] = inner.pop(place[-1])
    return other


def test_a_simulated_jobs_answer_is_what_the_schema_says(tmp_path):
    words = ["sim", "--world", "2", f"--output={tmp_path}", "--json", "--", "sh", "-c", "exit 3"]
    run = subprocess.run([BUILD / "bin" / "gpumem-ranks", *words], capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    answer, checks = json.loads(run.stdout), validator("ranks", "/$defs/sim")
    checks.validate(answer)
    for place in paths(answer):
        assert not checks.is_valid(renamed(answer, place)), place


@pytest.mark.parametrize("question", QUESTIONS)
def test_renamed_field_fails(answers, question):
    checks, answer = validator("ranks", f"/$defs/{question}"), answers[question][0]
    seen = set()
    for place in paths(answer):
        kind = tuple(step for step in place if isinstance(step, str))
        # the numbers that a job has are its own; a row has one of four keys
        if kind in seen or {"numbers", "shared"} & set(kind[:-1]) or (kind[0] == "rows" and kind[-1] in ("step", "phase", "site", "kind")):
            continue
        seen.add(kind)
        assert not checks.is_valid(renamed(answer, place)), place
    assert len(seen) > 30


def test_every_field_is_in_some_answer(answers):
    definitions = SCHEMAS["ranks"]["$defs"]
    named = set().union(*(fields(schema) for name, schema in definitions.items() if name != "sim"))
    assert len(named) > 80
    assert named - keys(list(answers.values())) - RARE == set()
