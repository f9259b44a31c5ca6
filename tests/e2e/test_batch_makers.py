"""Programs whose batches are made by threads, executors and tasks: their steps, their leaks, and the phase of the batches."""

import json
import sys
from pathlib import Path

import pytest
from conftest import PYTHON

sys.path.insert(0, str(Path(__file__).parent / "programs"))
import batch_makers  # noqa: E402


def ask(run_gpumem, folder, seed):
    """What is wrong with the answers about a program."""
    text, steps = batch_makers.main(seed)
    program, recording = folder / f"{seed}.py", folder / f"{seed}.gpumem"
    program.write_text(text)
    run_gpumem("run", "--sim", "-o", recording, "--", PYTHON, program).check()
    marks = {number: line.split("#")[1] for number, line in enumerate(text.splitlines(), 1) if "  # " in line}
    told = run_gpumem("steps", recording, "--json").check().json()["training_steps"]
    wrong = [] if told == steps else [f"{told} steps of {steps}"]
    leaks = {site["line"] for site in run_gpumem("leaks", recording, "--json").json()["sites"]}
    kept = {line for line, mark in marks.items() if "LEAK" in mark}
    wrong += [f"lines {sorted(leaks)} leak, not {sorted(kept)}"] if leaks != kept else []
    batches = {line for line, mark in marks.items() if "BATCH" in mark}
    for event in map(json.loads, run_gpumem("events", recording, "--json").check().out.splitlines()):
        made = event["action"] == "alloc" and event["python"] and event["python"][0]["line"] in batches
        if made and (event["phase"] not in ("init", "data") or (event["phase"] == "init" and event["step"])):
            wrong.append(f"event {event['n']}: a batch in {event['phase']}")
    return wrong


@pytest.mark.parametrize("seed", range(len(batch_makers.MAKERS)))
def test_whoever_makes_the_batches_steps_and_leaks_are_the_same(run_gpumem, tmp_path, seed):
    assert ask(run_gpumem, tmp_path, seed) == []


@pytest.mark.long
def test_whoever_makes_the_batches_steps_and_leaks_are_the_same_in_many_programs(run_gpumem, tmp_path):
    wrong = {seed: found for seed in range(100, 220) if (found := ask(run_gpumem, tmp_path, seed))}
    assert not wrong
