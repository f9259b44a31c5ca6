"""The peak by module: with the process or a core beside a recording modules have the paths that named_modules() gives them,
and as many bytes as their parameters, gradients and optimizer state take."""

import json
import subprocess
from pathlib import Path

import pytest

from conftest import PYTHON, Started

PROGRAM = Path(__file__).parent / "programs" / "module_paths.py"


@pytest.fixture(scope="module")
def trained(sim_env, run_gpumem, tmp_path_factory):
    """Of a process that waits: its id, snapshot and core, and the bytes that each module keeps."""
    folder = tmp_path_factory.mktemp("modules")
    snapshot, core = folder / "run.pickle", folder / "core"
    process = Started(
        [PYTHON, PROGRAM, snapshot], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pid, _, truth = process.stdout.readline().partition(" ")
    run_gpumem("core", pid, "-o", core).check()
    yield pid, snapshot, core, json.loads(truth)
    process.kill()
    process.communicate()


def by_path(groups, truth):
    return {group["key"]: group["bytes"] for group in groups if group["key"] in truth}


@pytest.mark.parametrize("beside", ["process", "core"])
def test_a_recordings_modules_have_their_paths_where_a_process_or_core_is_beside_it(beside, trained, run_gpumem):
    pid, snapshot, core, truth = trained
    where = ["--pid", pid] if beside == "process" else ["--core", core]
    answer = run_gpumem("peak", snapshot, *where, "--by", "module", "--json").check().json()
    assert by_path(answer["groups"], truth) == truth
    assert sum(group["bytes"] for group in answer["groups"]) == answer["allocated"]
    # workspaces and what was freed since are told by what was being called
    rest = {group["key"] for group in answer["groups"]} - set(truth)
    assert any(" > " in key for key in rest) and "(in no module's forward)" in rest


@pytest.mark.parametrize(
    "beside", ["process", pytest.param("core", marks=pytest.mark.long), pytest.param("process alone", marks=pytest.mark.long)]
)
def test_peak_shows_modules_by_their_paths_without_being_asked(beside, trained, run_gpumem):
    pid, snapshot, core, truth = trained
    named = {"process": [snapshot, "--pid", pid], "core": [snapshot, "--core", core], "process alone": ["--pid", pid]}
    answer = run_gpumem("peak", *named[beside], "--json").check().json()
    assert by_path(answer["by_module"], truth) == truth
    text = run_gpumem("peak", *named[beside]).check().out
    (line,) = [line for line in text.splitlines() if line.startswith("by module: ")]
    assert "layers.0.mlp.0 " in line and line.count(",") == 6 and " others " in line


def test_without_a_process_or_core_no_paths_are_reported(trained, run_gpumem):
    _, snapshot, _, truth = trained
    assert "by module" not in run_gpumem("peak", snapshot).check().out
    answer = run_gpumem("peak", snapshot, "--by", "module", "--json").check().json()
    assert answer["groups"] and not by_path(answer["groups"], truth)
