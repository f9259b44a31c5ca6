"""gpumem replay: what it says of a setting is what a run under that setting does, by PyTorch's own statistics."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import PYTHON, ROOT

PROGRAM = ROOT / "tests/e2e/programs/requests.py"
MOMENTS = ROOT / "tests/e2e/programs/moments.py"
SETTINGS = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "max_split_size_mb:512",
    "roundup_power2_divisions:4",
    "garbage_collection_threshold:0.8",
    "garbage_collection_threshold:0.6,max_split_size_mb:128",
    "expandable_segments:True,garbage_collection_threshold:0.8",
]
DEVICES = ["h100-80gb", "1600MiB", "1480MiB"]  # enough, some retries, too little for some


def recorded(run_gpumem, tmp_path, *program):
    recording = tmp_path / "run.gpumem"
    run_gpumem("run", "--sim", "-o", recording, "--", PYTHON, *program).check()
    return recording


def replayed(run_gpumem, recording, settings, *words, status=0):
    given = [word for setting in settings for word in ("--alloc-conf", setting)]
    return run_gpumem("replay", recording, *given, *words, "--json", timeout=600).check(status).json()


def ran(sim_env, device, seed, settings):
    done = subprocess.run(
        [PYTHON, PROGRAM, str(seed), *settings], env=sim_env(device), capture_output=True, text=True, timeout=600, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(seed, device, settings, recording, run_gpumem, sim_env):
    truth = ran(sim_env, device, seed, settings)
    given = [word for setting in settings for word in ("--alloc-conf", setting)]
    done = run_gpumem("replay", recording, *given, "--sim", device, "--json", timeout=600)
    assert done.status in (0, 1), done.err
    found = json.loads(done.out)
    assert len(truth) == len(settings) == len(found["settings"])
    for one, own in zip(found["settings"], truth):
        said = {
            "peak_allocated": one["peak_allocated"],
            "peak_reserved": one["peak_reserved"],
            "retries": one["retries"],
            "good": one["outcome"] == "complete",
        }
        assert said == own, (seed, device, one["setting"])
    assert done.status == int(not any(own["good"] for own in truth))
    return found


def test_each_setting_does_in_a_replay_what_it_does_in_a_run(run_gpumem, sim_env, tmp_path):
    recording = recorded(run_gpumem, tmp_path, PROGRAM, 4)
    for device in DEVICES[::2]:
        found = compare(4, device, SETTINGS[1::2], recording, run_gpumem, sim_env)
    assert found["refused"] == 0 and {one["outcome"] for one in found["settings"]} >= {"complete"}


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_random_programs_have_in_a_replay_the_peaks_of_a_run(run_gpumem, sim_env, tmp_path):
    for seed in range(20):
        recording = recorded(run_gpumem, tmp_path, PROGRAM, seed)
        for device in DEVICES:
            compare(seed, device, SETTINGS, recording, run_gpumem, sim_env)


REAL = ["mlp", "transformer_autocast", "convolutions", "side_streams", "decoding"]


def compare_with_runs(name, settings, run_gpumem, tmp_path):
    recording = recorded(run_gpumem, tmp_path, MOMENTS, tmp_path, name)
    found = replayed(run_gpumem, recording, settings)
    for one in found["settings"]:
        account = tmp_path / "account"
        account.unlink(missing_ok=True)
        env = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": one["setting"], "GPUMEM_SIM_JSON": str(account)}
        words = ("run", "--sim", "--no-record", "--", PYTHON, MOMENTS, tmp_path, name)
        run_gpumem(*words, env=env, timeout=600).check()
        own = json.loads(account.read_text())["devices"][0]
        assert (one["peak_allocated"], one["peak_reserved"]) == (own["peak_allocated"], own["peak_reserved"]), (name, one)


def test_a_real_program_has_the_peak_that_its_replay_has(run_gpumem, tmp_path):
    compare_with_runs("convolutions", SETTINGS[1:2], run_gpumem, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", REAL)
def test_five_real_programs_have_under_eight_settings_the_peaks_of_a_run(name, run_gpumem, tmp_path):
    compare_with_runs(name, SETTINGS, run_gpumem, tmp_path)


REFUSED = """
import torch

def empty(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")

large = empty(400)
del large
small = empty(100)
try:
    empty(600)
except torch.OutOfMemoryError:
    print("refused")
"""


def test_a_refused_request_succeeds_where_the_setting_leaves_no_holes(run_gpumem, tmp_path):
    """100 MiB lie in a segment of 400, whose rest serves no request of 600; an expandable segment's does."""
    recording = tmp_path / "run.gpumem"
    done = run_gpumem("run", "--sim=1100MiB", "-o", recording, "--", PYTHON, "-c", REFUSED).check()
    assert done.out == "refused\n"
    found = replayed(run_gpumem, recording, ["", "expandable_segments:True"])
    assert found["refused"] == 1 and found["total"] == 1100 << 20
    assert [one["refused_that_succeed"] for one in found["settings"]] == [0, 1] and found["lowest"] == 1
    text = run_gpumem("replay", recording, "--alloc-conf", "expandable_segments:True").check().out
    assert "  1 of 1 refused requests succeed\n" in text
    replayed(run_gpumem, recording, ["", "max_split_size_mb:512"], status=1)
    # with twice the memory it would have been got anyway
    larger = replayed(run_gpumem, recording, [""], "--sim", "2200MiB")
    assert larger["settings"][0]["refused_that_succeed"] == 1


def test_a_setting_that_pytorch_does_not_know_is_reported_in_pytorchs_words(run_gpumem, tmp_path):
    recording = recorded(run_gpumem, tmp_path, "-c", "import torch; torch.empty(1000, device='cuda')")
    found = replayed(run_gpumem, recording, ["no_such_setting:1", ""])
    first, second = found["settings"]
    assert first["outcome"] == "unknown_setting" and "no_such_setting" in first["error"] and first["peak_reserved"] is None
    assert second["outcome"] == "complete" and second["error"] is None and found["lowest"] == 1
    text = run_gpumem("replay", recording, "--alloc-conf", "no_such_setting:1", "--alloc-conf", "").check().out
    assert "no_such_setting:1  not a setting of this PyTorch: " in text
    assert "The run's own peak is reproduced to the byte with (defaults).\n" in text


def test_what_cannot_be_replayed_is_refused(run_gpumem, tmp_path):
    recording = recorded(run_gpumem, tmp_path, "-c", "import torch; torch.empty(1000, device='cuda')")
    assert "no such program" in run_gpumem("replay", recording, "--python", tmp_path / "none").check(4).err
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
    bare.chmod(0o755)
    assert "No module named 'torch'" in run_gpumem("replay", recording, "--python", bare).check(4).err
    assert "--device 3: the recording has no event of it" in run_gpumem("replay", recording, "--device", "3").check(2).err
    assert "one device is replayed at a time" in run_gpumem("replay", recording, "--sim", "h100-80gbx2").check(2).err
    assert "no-such" in run_gpumem("replay", recording, "--sim", "no-such").check(2).err
    assert run_gpumem("replay", tmp_path / "none").check(3).err.startswith("gpumem: ")


def test_an_interpreter_that_another_user_could_have_put_there_is_not_run(run_gpumem, tmp_path):
    folder, recording = tmp_path / "open", tmp_path / "run.gpumem"
    folder.mkdir()
    (folder / "venv").symlink_to(Path(PYTHON).parent.parent)
    python = folder / "venv" / "bin" / Path(PYTHON).name
    run_gpumem("run", "--sim", "-o", recording, "--", python, "-c", "import torch; torch.empty(1000, device='cuda')").check()
    folder.chmod(0o777)
    refused = run_gpumem("replay", recording, "--alloc-conf", "").check(2)
    assert f"names the interpreter {python}, which another user could have put there: name one with --python" in refused.err
    assert replayed(run_gpumem, recording, [""], f"--python={PYTHON}")["settings"][0]["outcome"] == "complete"
