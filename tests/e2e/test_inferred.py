"""Blocks from before the recording: what gradients of their size tell of them, and that it is said to be inferred."""

import collections
from pathlib import Path

from conftest import PYTHON

PROGRAM = Path(__file__).parent / "programs" / "late_start.py"


def test_categories_of_earlier_blocks_are_inferred_from_later_gradients(run, sim_env, run_gpumem, tmp_path):
    out = tmp_path / "late.pickle"
    said = run([PYTHON, PROGRAM, out], env=sim_env()).check().out.splitlines()
    parameters, states = map(int, next(line for line in said if line[:1].isdigit()).split())
    blocks = run_gpumem("blocks", out, "--json").check().json()["blocks"]
    sums, reasons = collections.Counter(), collections.defaultdict(set)
    for block in blocks:
        if block["category_reason"].startswith("inferred"):
            sums[block["category"]] += block["size"]
            reasons[block["category"]].add(block["category_reason"])
    assert sums["parameter"] == parameters, sums
    assert sums["optimizer_state"] == states, sums
    assert set(sums) == {"parameter", "optimizer_state"}, reasons
