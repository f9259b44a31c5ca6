"""PyTorch in a folder that is not called site-packages (`pip install --target`, a build from source): its lines are not the program's."""

import os
import sys
from pathlib import Path

import pytest
from conftest import PYTHON

SNAPSHOT = """
import runpy, sys, torch
torch.cuda.memory._record_memory_history(stacks="python")
kept = runpy.run_path(sys.argv[1], run_name="__main__")
torch.cuda.memory._dump_snapshot(sys.argv[2])
"""


@pytest.fixture
def elsewhere(tmp_path):
    """The environment of a program whose PyTorch is in another folder."""
    folder = tmp_path / "target"
    folder.mkdir()
    installed = next(Path(sys.prefix).glob("lib/python3*/site-packages/torch"))
    (folder / "torch").symlink_to(installed)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ["PYTHONPATH"]])}


def told(run_gpumem, path):
    peak = run_gpumem("peak", path, "--json").check().json()
    steps = run_gpumem("steps", path, "--json").check().json()
    return peak["groups"], peak["by_category"], peak["by_phase"], steps["loop"], [step["bytes"] for step in steps["steps"]]


def test_a_recording_has_the_same_sites_categories_and_steps(run_gpumem, run_gdb, examples, elsewhere, tmp_path):
    program = examples / "train_mlp.py"
    for name, env in (("here", os.environ), ("there", elsewhere)):
        run_gpumem("run", "--sim", "-o", tmp_path / name, "--", PYTHON, program, env=env).check()
    events = run_gpumem("events", tmp_path / "there", "--json").check().out
    assert "/target/torch/nn/" in events and "site-packages/torch/nn/" not in events
    assert told(run_gpumem, tmp_path / "there") == told(run_gpumem, tmp_path / "here")
    run_gdb(["gpumem record", "run", f"gpumem record save {tmp_path / 'broken'}"], program, env=elsewhere)
    assert told(run_gpumem, tmp_path / "broken")[1:] == told(run_gpumem, tmp_path / "here")[1:]


def test_a_snapshot_and_a_process_have_the_same_names(run_gpumem, examples, elsewhere, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SNAPSHOT)
    for name, env in (("here", os.environ), ("there", elsewhere)):
        run_gpumem("run", "--sim", "--no-record", "--", PYTHON, program, examples / "train_mlp.py", tmp_path / name, env=env).check()
    assert told(run_gpumem, tmp_path / "there") == told(run_gpumem, tmp_path / "here")
