"""Which forward passes of generate() read a prompt, and which decode a token: held against what the model counts itself."""

import collections
import json
from pathlib import Path

import pytest

from conftest import PYTHON

PROGRAM = Path(__file__).parent / "programs" / "known_generation.py"
WAYS = ["before_the_loop", "first_iteration", "branches", "functions", "in_another", "several", "several_in_another"]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))])
@pytest.mark.parametrize("way", WAYS)
def test_the_forward_pass_of_a_prompt_is_prefill_and_those_of_tokens_are_decode(run_gpumem, tmp_path, way, seed):
    log, truth = tmp_path / "run.gpumem", tmp_path / "truth.json"
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, PROGRAM, way, seed, truth).check()
    events = run_gpumem("events", log, "--json").check().json_lines()
    allocations = [event for event in events if event["action"] == "alloc"]
    wrong, count = collections.Counter(), 0
    for phase, passes in json.loads(truth.read_text()).items():
        for first, end in passes:
            count += end - first
            wrong.update((phase, event["phase"], event["at"]) for event in allocations[first:end] if event["phase"] != phase)
    assert count > 100 and not wrong
