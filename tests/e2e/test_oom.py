"""`oom` of processes and cores in which PyTorch ran out of memory with nothing recorded, against PyTorch's own words."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import Started, needs
from pages import entry, snapshot

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
    """start(way) -> what the program prints when it is stopped at its error."""

    def call(way, env=None):
        process = spawn(
            [python, "-W", "ignore", PROGRAMS / "oom_held.py", way],
            env={**sim_env("8GiB"), **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        line = process.stdout.readline()
        while line.startswith("[W"):  # PyTorch warns that the device is full
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
    """The answer's figures are those of PyTorch's text, if both are from the same moment."""
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


def test_free_blocks_that_cannot_be_merged_are_fragmentation(start, oom, run_gpumem):
    said = start("fragments")
    answer = oom(said)
    check_figures(answer, said["message"])
    assert answer["verdict"] == "fragmentation"
    assert answer["unallocated"] + answer["free"] > answer["needed"] > answer["largest_free"]
    enough = {one["name"]: one["sufficient"] for one in answer["enough"]}
    assert enough["expandable_segments"] == "yes" and enough["empty_cache"] == "no"
    assert "next: gpumem segments" in run_gpumem("oom", "--pid", str(said["pid"])).check().out


def test_the_advice_about_expandable_segments_is_right(start):
    """The same program with expandable segments, which the test above says would be enough."""
    said = start("fragments", env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    assert said["message"] is None


def test_a_request_larger_than_the_device_is_reported(start, oom):
    answer = oom(start("huge"))
    assert answer["verdict"] == "capacity"
    assert "The request alone, 8.79 GiB, is more than the whole device has: 8.00 GiB" in answer["sentence"]


def test_a_limit_of_the_process_is_reported(start, oom):
    said = start("limit")
    answer = oom(said)
    assert "2.00 GiB allowed" in said["message"]
    assert answer["limit"] == 2048 * MIB and answer["verdict"] == "capacity"
    assert "The limit set for this process" in answer["sentence"]
    assert {one["name"]: one["sufficient"] for one in answer["enough"]}["limit"] == "yes"


@pytest.mark.parametrize("way", ["graph", "pool"])
def test_frees_that_wait_for_a_stream_are_pending(way, start, oom, run_gpumem):
    said = start(way)
    answer = oom(said)
    if way == "pool" and said["stats"]["num_alloc_retries"]:
        # from 2.13 on PyTorch waits for the stream and tries once more: then nothing is pending
        assert answer["pending"] == said["stats"]["active_bytes.all.current"] - answer["allocated"] == 0
        assert answer["verdict"] != "pending" and answer["alloc_retries"] == 1
        return
    assert answer["verdict"] == "pending" and answer["alloc_retries"] == 0
    assert f"Tried to allocate {in_words(answer['needed'])}" in said["message"]
    # PyTorch's text counts blocks that wait for a stream and free blocks as unallocated
    assert answer["pending"] == 1200 * MIB
    assert answer["pending"] + answer["allocated"] == said["stats"]["active_bytes.all.current"]
    assert f"{in_words(answer['pending'] + answer['unallocated'])} is reserved by PyTorch but unallocated" in said["message"]
    assert answer["free"] < answer["needed"] <= answer["free"] + answer["pending"]
    assert answer["arithmetic"][2]["text"] == "released, waiting for a stream"
    assert {one["name"]: one["sufficient"] for one in answer["enough"]}["wait_for_stream"] == "maybe"
    text = run_gpumem("oom", "--pid", str(said["pid"])).check().out
    assert "The program has released 1.17 GiB that still waits for another stream (record_stream)" in text
    segments = run_gpumem("segments", "--pid", str(said["pid"]), "--json").check().json()
    assert segments["pending"] == answer["pending"]


def test_memory_that_a_library_took_from_cuda_is_outside(start, oom):
    said = start("outside")
    answer = oom(said)
    assert answer["verdict"] == "outside" and answer["processes"] == []
    assert answer["outside"] == answer["total"] - answer["free"] - said["stats"]["reserved_bytes.all.current"]
    assert answer["outside"] > 4 << 30
    assert "by this process: by other libraries or calls of CUDA" in answer["sentence"]
    lines = {line["text"]: line["bytes"] for line in answer["arithmetic"]}
    assert lines["outside PyTorch in this process: CUDA's context, other libraries"] == answer["outside"]


def test_another_process_on_the_device_is_outside_and_named(spawn, gpumem, python, oom):
    process = spawn(
        [gpumem, "run", "--sim=8GiB", "--no-record", "--", python, "-W", "ignore", PROGRAMS / "oom_held.py", "neighbour"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    said = json.loads(process.stdout.readline())
    answer = oom(said)
    check_figures(answer, said["message"])
    (other,) = answer["processes"]
    assert answer["verdict"] == "outside" and 4000 * MIB < other["bytes"] < 5000 * MIB
    assert Path(f"/proc/{other['pid']}/stat").read_text().split()[3] == str(said["pid"])
    assert answer["sentence"].startswith("Other processes hold ")
    parts = [line["bytes"] * (-1 if line["sign"] == "-" else 1) for line in answer["arithmetic"][:-2]]
    assert sum(parts) == answer["free"]


@pytest.fixture
def driver_says(run_gpumem, build_dir):
    """driver_says(said, processes) -> oom's answer if NVIDIA's library lists these processes: {pid: bytes}."""

    def call(said, processes, uuid=None):
        free = int(float(re.search(r"of which ([\d.]+) MiB is free", said["message"])[1]) * MIB)
        told = " ".join(f"{pid}:{size}" for pid, size in processes.items())
        environment = {
            **os.environ, "LD_LIBRARY_PATH": str(build_dir / "tests" / "nvml"),
            "GPUMEM_TEST_NVML": f"{uuid or 'GPU-' + said['uuid']} {8 << 30} {free} {told}",
        }  # fmt: skip
        return run_gpumem("oom", "--pid", str(said["pid"]), "--json", env=environment).check().json()

    return call


def test_the_drivers_list_of_processes_shows_who_holds_the_device(start, oom, driver_says):
    said = start("driver")
    unknown = oom(said)
    assert unknown["verdict"] == "outside" and unknown["processes"] == []
    other = os.getpid()
    own = said["stats"]["reserved_bytes.all.current"] + 500 * MIB
    answer = driver_says(said, {said["pid"]: own, other: 4 << 30})
    assert answer["verdict"] == "outside" and answer["process"] == own
    assert answer["processes"] == [{"pid": other, "bytes": 4 << 30, "name": Path("/proc/self/comm").read_text().strip()}]
    assert answer["sentence"].startswith("Other processes hold 4.00 GiB of the device's 8.00 GiB")
    alone = driver_says(said, {said["pid"]: own + (4 << 30)})
    assert alone["verdict"] == "outside" and "by this process: by other libraries or calls of CUDA" in alone["sentence"]


def test_processes_of_a_driver_that_does_not_list_ours_are_not_taken_for_others(start, driver_says):
    said = start("driver")
    assert driver_says(said, {4242: 4 << 30})["processes"] == []
    assert driver_says(said, {said["pid"]: 1 << 30, 4242: 4 << 30}, uuid="GPU-of-another")["processes"] == []


def test_a_caught_error_is_distinguished(start, oom, run_gpumem):
    said = start("caught")
    answer = oom(said)
    assert answer["state"] == "kept" and answer["ooms"] == 1
    assert answer["message"] == said["message"]
    assert answer["memory"]["same_moment"] is False
    assert answer["memory"]["allocated"] == said["stats"]["allocated_bytes.all.current"] == 30 * MIB
    assert f"{in_words(answer['allocated'])} is allocated by PyTorch" in said["message"]
    text = run_gpumem("oom", "--pid", str(said["pid"])).check().out
    assert "handled: the program continued" in text
    assert "30.00 MiB is now" in text


def test_an_error_that_left_no_trace_is_counted(start, run_gpumem):
    said = start("retried")
    run = run_gpumem("oom", "--pid", str(said["pid"])).check()
    assert "PyTorch counts 1 out-of-memory error" in run.out
    assert f"and {said['stats']['num_alloc_retries']} times cudaMalloc failed" in run.out


def test_no_error_is_a_negative_answer(start, run_gpumem):
    run = run_gpumem("oom", "--pid", str(start("none")["pid"])).check(1)
    assert run.err.startswith("gpumem: no out-of-memory error: PyTorch's allocator has raised none")


def test_of_a_device_without_errors_the_answer_is_negative_and_of_no_device_a_mistake(run_gpumem, tmp_path):
    """As the other questions have it."""
    path = snapshot(tmp_path / "two.pickle", *([entry("alloc", 1 << 12, 1 << 20, ("train.py", 1, "main"))] for _ in range(2)))
    for device in (0, 1):
        none = run_gpumem("oom", path, "--device", device).check(1)
        assert none.err.startswith("gpumem: no out-of-memory error: ") and f"`gpumem peak --device {device}`" in none.err
    for question in ("oom", "peak", "leaks", "steps"):
        assert "--device 7: the recording has no such device" in run_gpumem(question, path, "--device", 7).check(2).err


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
    assert re.match(r"local 'self'.*\.history", answer["top"][0]["text"])
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


# --- recordings -------------------------------------------------------------------------------------------


def test_in_gdb_the_program_stops_where_it_runs_out(run_gdb, run_gpumem, root, tmp_path):
    saved = tmp_path / "run.gpumem"
    commands = ["gpumem record --on-oom stop", "run", "gpumem oom --json", "continue", "gpumem oom --json", f"gpumem record save {saved}"]
    gdb = run_gdb(commands, root / "examples" / "oom.py", sim="8GiB")
    assert "out of memory: 67,108,864 bytes did not fit, at" in gdb["run"]
    assert "verdict: capacity. There is too little memory" in gdb["run"]
    stands = gdb[2].json()
    message = re.search(r"OutOfMemoryError: (CUDA out of memory.*)", gdb["continue"])[1]
    stands["message"] = message
    check_figures(stands, message)
    assert stands["state"] == "reporting" and stands["python"][0]["function"].endswith("run")
    for recorded in (gdb[4].json(), run_gpumem("oom", saved, "--json").check().json()):
        assert recorded["state"] == "recorded" and recorded["verdict"] == "capacity"
        for key in ("requested", "total", "free", "allocated", "reserved", "largest_free", "missing"):
            assert recorded[key] == stands[key], key
        assert sum(one["bytes"] for one in recorded["top"]) == recorded["allocated"]
        assert recorded["python"] == stands["python"]


def test_a_snapshot_with_an_error_in_it_is_judged(run_gpumem, run, python, sim_env, tmp_path):
    path, program = tmp_path / "run.pickle", tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "torch.cuda.memory._record_memory_history()\n"
        "kept = []\n"
        "try:\n"
        "    while True:\n"
        "        kept.append(torch.empty(100 << 20, dtype=torch.uint8, device='cuda'))\n"
        "except torch.OutOfMemoryError as error:\n"
        f"    torch.cuda.memory._dump_snapshot({str(path)!r})\n"
        "    print(error)\n"
    )
    message = run([python, "-W", "ignore", program], env=sim_env("8GiB")).check().out
    answer = run_gpumem("oom", path, "--json").check().json()
    assert f"of which {in_words(answer['free'])} is free" in message
    assert f"{in_words(answer['allocated'])} is allocated by PyTorch" in message
    assert f"Tried to allocate {in_words(answer['needed'])}" in message
    assert answer["verdict"] == "capacity" and answer["python"][0]["line"] == 6
    text = run_gpumem("oom", path).check().out
    assert f"at {program}:6 in <module>" in text
    other = run_gpumem("oom", path, "--at", "0").check(2)
    assert "event 0: not an oom event" in other.err


# --- a transformer of 1.5 billion parameters ---------------------------------------------------------------


@pytest.fixture(scope="module")
def transformer_core(gpumem, run, python, tmp_path_factory, sim_env):
    """A core of the program while it is stopped at its error, and what the program printed about itself."""
    needs("transformers")  # the model is built from its classes
    core = tmp_path_factory.mktemp("core") / "transformer.core"
    process = Started(
        [python, "-W", "ignore", PROGRAMS / "oom_transformer.py"],
        env={**sim_env("34GiB"), "HF_HUB_OFFLINE": "1"}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        said = json.loads(process.stdout.readline())
        run([gpumem, "core", process.pid, "-o", core]).check()
    finally:
        process.kill()
        process.wait()
    yield core, said
    core.unlink()


def parts(nodes, path=()):
    """Every node of the tree with the texts that lead to it."""
    for node in nodes:
        here = (*path, node["text"])
        yield here, node
        yield from parts(node["children"], here)


@pytest.mark.long  # gigabytes; of examples/oom.py the same is asked above
def test_a_core_of_a_large_model_gives_pytorchs_figures(transformer_core, run_gpumem):
    core, said = transformer_core
    assert 1.5e9 < said["parameters"] < 1.6e9
    answer = run_gpumem("oom", core, "--json").check().json()
    check_figures(answer, said["message"])
    assert answer["verdict"] in ("capacity", "fragmentation")
    assert answer["memory"]["allocated"] == said["stats"]["allocated_bytes.all.current"]
    assert (answer["ooms"], answer["alloc_retries"]) == (said["stats"]["num_ooms"], said["stats"]["num_alloc_retries"])
    assert answer["python"] and any(frame["function"] == "train" for frame in answer["python"])
    assert core.stat().st_blocks * 512 < 1 << 30


@pytest.mark.long
def test_what_fills_the_device_is_named_with_its_bytes(transformer_core, run_gpumem):
    core, said = transformer_core
    retained = run_gpumem("retained", "--core", core, "--json").check().json()
    assert retained["allocated"] == said["stats"]["allocated_bytes.all.current"]
    nodes = list(parts([*retained["roots"], *retained["shared_groups"]]))

    def largest(match):
        return max((node for path, node in nodes if match(path)), key=lambda node: node["bytes"])

    # a block of more than 1 MiB may keep a rest of up to 1 MiB: retained counts blocks, the program tensors
    def about(node, size):
        assert size <= node["bytes"] < size + node["blocks"] * MIB + 1, (node["bytes"], size)

    about(largest(lambda path: path[-1] == "parameters"), said["parameter_bytes"])
    about(largest(lambda path: path[-1].startswith(".samples")), said["leak_bytes"])
    about(largest(lambda path: "'optimizer'" in path[0] and "'state'" in path[0]), said["optimizer_bytes"])
    if said["gradient_bytes"]:
        about(largest(lambda path: path[-1] == ".grad"), said["gradient_bytes"])
    assert said["leaked"] > 0
    leak = largest(lambda path: path[-1].startswith(".samples"))
    assert f"{said['leaked']} item" in leak["text"] and leak["blocks"] == said["leaked"]
    assert any("saved" in path[-1] or "output" in path[-1] for path, _ in nodes)
