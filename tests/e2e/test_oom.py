"""`oom` of processes and cores in which PyTorch ran out of memory with nothing recorded, against PyTorch's own words."""

import json
import re
import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
MIB = 1 << 20


def in_words(size):
    """As PyTorch writes sizes."""
    if size < 1024:
        return f"{size} bytes"
    for unit, factor in (("GiB", 1 << 30), ("MiB", MIB), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.2f} {unit}"


@pytest.fixture
def start(spawn, python, sim_env):
    """start(way) -> what the program says once it stands in its error."""

    def call(way, env=None):
        process = spawn(
            [python, "-W", "ignore", PROGRAMS / "oom_held.py", way],
            env={**sim_env("8GiB"), **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        line = process.stdout.readline()
        assert line.startswith("{"), line + process.stdout.read()
        return json.loads(line)

    return call


@pytest.fixture
def oom(run_gpumem):
    def call(said):
        return run_gpumem("oom", "--pid", str(said["pid"]), "--json").check().json()

    return call


def check_figures(answer, message):
    """The answer's figures are those of PyTorch's text, where they are of the same moment."""
    assert f"Tried to allocate {in_words(answer['needed'])}" in message
    assert f"total capacity of {in_words(answer['total'])} of which {in_words(answer['free'])} is free" in message
    assert f"{in_words(answer['allocated'])} is allocated by PyTorch" in message
    assert f"{in_words(answer['unallocated'])} is reserved by PyTorch but unallocated" in message
    assert answer["message"] == message


def test_a_full_device_is_a_matter_of_capacity(start, oom):
    said = start("full")
    answer = oom(said)
    check_figures(answer, said["message"])
    assert answer["verdict"] == "capacity" and answer["state"] == "raised"
    assert answer["allocated"] == said["stats"]["allocated_bytes.all.current"]
    assert answer["reserved"] == said["stats"]["reserved_bytes.all.current"]
    assert answer["memory"]["same_moment"] is True
    assert sum(one["bytes"] for one in answer["top"]) == answer["allocated"]
    assert "global 'kept'" in answer["top"][0]["text"] and answer["top"][0]["bytes"] == answer["allocated"]
    assert [(frame["function"], Path(frame["file"]).name) for frame in answer["python"]][0] == ("take", "oom_held.py")
    assert (answer["ooms"], answer["alloc_retries"]) == (1, 1)


def test_pieces_that_do_not_join_are_fragmentation(start, oom, run_gpumem):
    said = start("fragments")
    answer = oom(said)
    check_figures(answer, said["message"])
    assert answer["verdict"] == "fragmentation"
    assert answer["unallocated"] + answer["free"] > answer["needed"] > answer["largest_free"]
    enough = {one["name"]: one["sufficient"] for one in answer["enough"]}
    assert enough["expandable_segments"] == "yes" and enough["empty_cache"] == "no"
    assert "next: gpumem segments" in run_gpumem("oom", "--pid", str(said["pid"])).check().out


def test_what_was_promised_of_expandable_segments_holds(start, oom):
    answer = oom(start("fragments"))
    assert {one["name"]: one["sufficient"] for one in answer["enough"]}["expandable_segments"] == "yes"
    said = start("fragments", env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    assert said["message"] is None


def test_a_request_larger_than_the_device_is_said(start, oom):
    answer = oom(start("huge"))
    assert answer["verdict"] == "capacity"
    assert "The request alone, 8.79 GiB, is more than the whole device has: 8.00 GiB" in answer["sentence"]


def test_a_limit_of_the_process_is_said(start, oom):
    said = start("limit")
    answer = oom(said)
    assert "2.00 GiB allowed" in said["message"]
    assert answer["limit"] == 2048 * MIB and answer["verdict"] == "capacity"
    assert "The limit set for this process" in answer["sentence"]
    assert {one["name"]: one["sufficient"] for one in answer["enough"]}["limit"] == "yes"


def test_an_error_that_was_caught_is_told_apart(start, oom, run_gpumem):
    said = start("caught")
    answer = oom(said)
    assert answer["state"] == "kept" and answer["ooms"] == 1
    assert answer["message"] == said["message"]
    assert answer["memory"]["same_moment"] is False
    assert answer["memory"]["allocated"] == said["stats"]["allocated_bytes.all.current"] == 30 * MIB
    assert f"{in_words(answer['allocated'])} is allocated by PyTorch" in said["message"]
    text = run_gpumem("oom", "--pid", str(said["pid"])).check().out
    assert "handled: the program went on" in text
    assert "now it is 30.00 MiB" in text


def test_an_error_of_which_nothing_is_left_is_counted(start, run_gpumem):
    said = start("retried")
    run = run_gpumem("oom", "--pid", str(said["pid"])).check()
    assert "PyTorch counts 1 out-of-memory error" in run.out
    assert f"and {said['stats']['num_alloc_retries']} times that cudaMalloc refused" in run.out


def test_no_error_is_a_negative_answer(start, run_gpumem):
    run = run_gpumem("oom", "--pid", str(start("none")["pid"])).check(1)
    assert run.err.startswith("gpumem: no out-of-memory error: PyTorch's allocator has raised none")


# --- cores: how a user gets one ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example_core(gpumem, run, root, python, tmp_path_factory, sim_env):
    """examples/oom.py, unchanged, with a sys.excepthook that has gpumem write a core; what it printed, and the core."""
    folder = tmp_path_factory.mktemp("core")
    core = folder / "oom.core"
    (folder / "sitecustomize.py").write_text(
        "import os, subprocess, sys\n"
        "def hook(kind, value, traceback):\n"
        "    sys.__excepthook__(kind, value, traceback)\n"
        f"    subprocess.run([{str(gpumem)!r}, 'core', str(os.getpid()), '-o', {str(core)!r}], check=True)\n"
        "sys.excepthook = hook\n"
    )
    environment = {**sim_env("8GiB"), "PYTHONPATH": str(folder)}
    ended = run([python, root / "examples" / "oom.py"], env=environment, cwd=root)
    assert ended.status == 1 and core.exists(), ended.err
    yield core, ended.err
    core.unlink()


def test_a_core_of_the_example_gives_the_verdict(example_core, run_gpumem, root):
    core, printed = example_core
    answer = run_gpumem("oom", core, "--json").check().json()
    message = re.search(r"OutOfMemoryError: (CUDA out of memory.*)", printed)[1]
    check_figures(answer, message)
    assert answer["verdict"] == "capacity" and answer["memory"]["same_moment"] is True
    assert sum(one["bytes"] for one in answer["top"]) == answer["allocated"]
    assert "local 'self'.history" in answer["top"][0]["text"]
    text = run_gpumem("oom", core, cwd=root).check().out
    line = next(i for i, line in enumerate((root / "examples/oom.py").read_text().splitlines(), 1) if "self.model(batch)" in line)
    assert re.match(rf"cuda:0 ran out of memory: [\d.]+ MiB did not fit, at examples/oom.py:({line}|{line - 1}) in ", text)
    assert f"next: gpumem retained --core {core}" in text


def test_the_other_questions_answer_on_that_core(example_core, run_gpumem):
    core, printed = example_core
    device = run_gpumem("info", core, "--json").check().json()["devices"][0]
    assert f"{in_words(device['allocated'])} is allocated by PyTorch" in printed
    assert device["ooms"] == 1
    segments = run_gpumem("segments", core, "--json").check().json()
    assert segments["reserved"] == device["reserved"]
    blocks = run_gpumem("blocks", core, "--json").check().json()
    assert sum(one["size"] for one in blocks["blocks"]) == device["allocated"]
    retained = run_gpumem("retained", "--core", core, "--json").check().json()
    assert retained["allocated"] == device["allocated"]


def test_the_core_has_no_device_memory_in_it(example_core):
    core, _ = example_core
    assert core.stat().st_blocks * 512 < 1 << 30
