"""`gpumem run --names`: the names of tensors in the recording are those that the programs know."""

import csv
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import time

import pytest
from hostile import check_text, hostile
from names import names_in

from conftest import PYTHON, ROOT

PROGRAMS = ROOT / "tests" / "e2e" / "programs"
RANDOM = PROGRAMS / "named_tensors.py"


def record(run_gpumem, log, *arguments, options=("--names",)):
    return run_gpumem("run", "--sim", *options, "-o", log, "--", PYTHON, "-W", "ignore", *map(str, arguments)).check()


def check_seed(run_gpumem, folder, seed):
    log, out = folder / f"{seed}.gpumem", folder / f"{seed}.json"
    record(run_gpumem, log, RANDOM, seed, out)
    told, true = names_in(run_gpumem, log), sorted(map(tuple, json.loads(out.read_text())))
    assert true
    assert told == true, f"seed {seed}: {sorted(set(told) ^ set(true))[:6]}"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_every_parameter_gradient_buffer_and_state_has_its_name_and_none_has_another(run_gpumem, tmp_path, seed):
    check_seed(run_gpumem, tmp_path, seed)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(100, 300, 20))
def test_two_hundred_trees_of_modules_have_their_names(run_gpumem, tmp_path, first):
    for seed in range(first, first + 20):
        check_seed(run_gpumem, tmp_path, seed)


@pytest.fixture(scope="module")
def trained(run_gpumem, tmp_path_factory):
    """(log, truth) of one program."""
    folder = tmp_path_factory.mktemp("names")
    log, out = folder / "run.gpumem", folder / "truth.json"
    record(run_gpumem, log, RANDOM, 5, out)
    return log, json.loads(out.read_text())


def test_a_block_is_asked_for_by_its_name(run_gpumem, trained):
    log, true = trained
    kind, name, address, _, _ = next(row for row in true if row[0] == "parameter")
    why = run_gpumem("why", log, name, "--json").check().json()
    assert (why["block"]["name"], int(why["block"]["address"], 16)) == (name, address)
    assert [one["kind"] for one in why["block"]["names"]] == [kind]
    assert f", {name}:" in run_gpumem("why", log, name).check().out.splitlines()[0]


def test_conditions_select_blocks_by_name(run_gpumem, trained):
    log, true = trained
    live = [row for row in true if row[0] in ("parameter", "buffer", "attribute")]
    for pattern, fits in [
        ("name=first.*", lambda name: name.startswith("first.")),
        ("name=first.weight", lambda name: name == "first.weight"),
        ("name=*.bias", lambda name: name.endswith(".bias")),
        ("name~weight", lambda name: "weight" in name),
    ]:
        at = run_gpumem("blocks", log, "--json", "--where", f"{pattern} and category!=gradient").check().json()
        told = {(one["name"], int(block["address"], 16)) for block in at["blocks"] for one in block["names"] if one["kind"] in ("parameter", "buffer", "attribute")}
        assert told == {(name, address) for _, name, address, _, _ in live if fits(name)}, pattern


def test_the_peak_sums_up_what_has_names(run_gpumem, trained):
    log, true = trained
    answer = run_gpumem("peak", log, "--json").check().json()
    blocks = run_gpumem("blocks", log, "--json", "--at-peak").check().json()["blocks"]
    sums = {}
    for block in blocks:
        if block["names"]:
            kind = block["names"][0]["kind"]
            sums[kind] = sums.get(kind, 0) + block["size"]
    assert answer["by_named_kind"] == sums
    assert "parameter" in sums
    largest = max((block for block in blocks if block["names"]), key=lambda block: (block["size"], -block["allocated"]))
    assert f"  the largest: {largest['name']} " in run_gpumem("peak", log).check().out


def test_events_and_exports_by_lines_say_the_name_of_their_block(run_gpumem, trained, tmp_path):
    log, true = trained
    names = {block["allocated"]: block["name"] for block in run_gpumem("blocks", log, "--at-peak", "--json").check().json()["blocks"]}
    assert {name for name in names.values() if name} <= {name for _, name, *_ in true}
    run_gpumem("export", log, "--to", "csv", "-o", tmp_path / "run.csv").check()
    events = run_gpumem("events", log, "--json").check().json_lines()
    with open(tmp_path / "run.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for event, row in zip(events, rows, strict=True):
        assert row["name"] == (event["name"] or "")
        assert event["block"] not in names or event["name"] == names[event["block"]]
    lines = run_gpumem("events", log).check().out.splitlines()
    for event, line in zip(events, lines, strict=True):
        assert event["name"] is None or f"  {event['name']}" in line
    assert {event["name"] for event in events if event["action"] == "free_requested"} > {None}


def test_the_exports_to_viewers_have_the_name_of_a_block(run_gpumem, trained, tmp_path):
    log, _ = trained
    names = {event["n"]: event["name"] for event in run_gpumem("events", log, "--json").check().json_lines()}
    run_gpumem("export", log, "--to", "perfetto", "-o", tmp_path / "run.json").check()
    slices = [one for one in json.loads((tmp_path / "run.json").read_text())["traceEvents"] if one["ph"] == "X" and one["pid"] != 1]
    told = {one["args"]["allocated"]: one["name"] for one in slices}
    assert {number: name for number, name in names.items() if name and number in told} == {
        number: name for number, name in told.items() if names[number]
    }
    assert all("named_tensors.py:" in name or name == "unknown" for number, name in told.items() if not names[number])
    run_gpumem("export", log, "--to", "pytorch", "-o", tmp_path / "run.pickle").check()
    again = [event.get("metadata") for event in run_gpumem("events", tmp_path / "run.pickle", "--json").check().json_lines()]
    traced = [names[event["n"]] for event in run_gpumem("events", log, "--json").check().json_lines() if event["device"] >= 0]
    assert sum(name is not None for name in again) > 3
    assert again == traced


def test_timeline_says_the_name_of_the_largest_block(run_gpumem, trained):
    log, true = trained
    shapes = {shape["kind"]: shape for shape in run_gpumem("timeline", log, "--json").check().json()["shapes"]}
    largest = max((row for row in true if row[0] == "parameter"), key=lambda row: row[4])
    assert shapes["parameters"]["name"] in {row[1] for row in true if row[4] == largest[4]}
    line = next(line for line in run_gpumem("timeline", log).check().out.splitlines() if "parameters and buffers" in line)
    assert f"; the largest is {shapes['parameters']['name']}, at " in line


def test_the_program_computes_the_same_with_names_and_without(run_gpumem, tmp_path):
    outputs = set()
    for options in ((), ("--names",)):
        run = record(run_gpumem, tmp_path / "run.gpumem", RANDOM, 7, tmp_path / "truth.json", 6, options=options)
        outputs.add(next(line for line in run.out.splitlines() if line.startswith("losses")))
    assert len(outputs) == 1


def test_a_recording_without_names_says_how_to_record_them(run_gpumem, tmp_path):
    log = tmp_path / "run.gpumem"
    record(run_gpumem, log, RANDOM, 1, tmp_path / "truth.json", options=())
    asked = run_gpumem("blocks", log, "--where", "name=first.*")
    assert asked.status == 0
    assert "the recording has no names of tensors: record with `gpumem run --names`" in asked.err
    asked = run_gpumem("why", log, "first.weight")
    assert asked.status == 2
    assert "record with `gpumem run --names`" in asked.err
    assert "name" not in run_gpumem("blocks", log, "--json").check().json()["blocks"][0]


def test_names_exclude_options_that_do_not_keep_them(run_gpumem):
    for option in (["--no-record"], ["--max-size", "10MiB"]):
        refused = run_gpumem("run", "--names", *option, "--", "true")
        assert refused.status == 2
        assert "--names excludes --no-record and --max-size" in refused.err


# ---- the agent's file, and the reader's end ------------------------------------------------------

STATE, ASKED, READING, DONE = 4200, 2, 3, 4  # docs/agent-format.md
HEADER, EXTENT, NAMES = 16384, 262144, 4


def extents_of_names(log):
    """Offsets of the complete extents with names."""
    data = log.read_bytes() if log.exists() else b""
    found = range(HEADER, len(data) - EXTENT + 1, EXTENT)
    return [at for at in found if data[at : at + 4] == b"GTEX" and struct.unpack_from("<I", data, at + 28)[0] == NAMES]


def start(gpumem, log, out, waits, steps=4):
    command = [gpumem, "run", "--sim", "--names", "-o", log, "--", PYTHON, "-W", "ignore", RANDOM, 5, out, steps, waits]
    return subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish_without_gpumem(process):
    """What the program prints after gpumem was killed."""
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.wait()
    process.stdin.write("\n")
    process.stdin.close()
    text = process.stdout.read()  # to the program's end
    process.stdout.close()
    return text


def test_a_program_whose_gpumem_was_killed_before_it_asks_goes_on(gpumem, run_gpumem, tmp_path):
    text = finish_without_gpumem(start(gpumem, tmp_path / "run.gpumem", tmp_path / "truth.json", 1))
    assert text.startswith("losses"), text
    assert "name" not in run_gpumem("blocks", tmp_path / "run.gpumem", "--json").check().json()["blocks"][0]


@pytest.fixture(scope="module")
def unpacked(gpumem, tmp_path_factory):
    """(log, truth) of a program whose gpumem was killed after it had read the names: the file is in the agent's format."""
    folder = tmp_path_factory.mktemp("agent")
    log, out = folder / "run.gpumem", folder / "truth.json"
    process = start(gpumem, log, out, 2)
    assert process.stdout.readline() == "ready\n"
    while not extents_of_names(log):
        assert process.poll() is None
    process.kill()
    process.wait()
    process.stdin.close()
    assert process.stdout.read().startswith("losses")
    process.stdout.close()
    return log, json.loads(out.read_text())


def test_the_file_of_the_agent_has_the_names_too(run_gpumem, unpacked):
    log, true = unpacked
    assert log.read_bytes()[:8] == b"\x89GPMAGT\n"
    assert names_in(run_gpumem, log) == sorted(map(tuple, true))


def test_damaged_names_are_reported_or_left_out_and_never_crash(run_gpumem, unpacked, tmp_path):
    log, true = unpacked
    data, (at, *_) = log.read_bytes(), extents_of_names(log)
    size = struct.unpack_from("<I", data, at + 4)[0]
    rng = random.Random(1)
    refused = 0
    for _ in range(12):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 30)):
            broken[at + rng.choice([rng.randrange(64), 64 + rng.randrange(min(size, 4000))])] = rng.randrange(256)
        copy = tmp_path / "broken.gpumem"
        copy.write_bytes(broken)
        asked = run_gpumem("blocks", copy, "--json")
        assert asked.status in (0, 3), (asked.status, asked.err)
        refused += asked.status == 3
        if asked.status == 3:
            assert "the file is damaged" in asked.err
    assert refused


@pytest.mark.parametrize("begins, late", [pytest.param(False, 0, marks=pytest.mark.long), (True, 0), pytest.param(True, 7, marks=pytest.mark.long)])
def test_a_reader_that_ends_does_not_keep_the_program(sim_env, build_dir, tmp_path, begins, late):
    """`begins`: while the program waits for it, else before; `late`: the seconds after which it does (a busy machine)."""
    log = tmp_path / "run.gpumem"
    env = sim_env()
    env["LD_PRELOAD"] = f"{build_dir}/lib/libgpumem-agent.so:{env['LD_PRELOAD']}"
    env["GPUMEM_AGENT"] = f"out={log};devices=cuda;stacks=none;names=1"
    program = [PYTHON, "-W", "ignore", RANDOM, "5", tmp_path / "truth.json", "4", "1"]
    with subprocess.Popen(list(map(str, program)), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        reader = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
        with open(log, "r+b") as file, mmap.mmap(file.fileno(), HEADER) as header:
            header[STATE : STATE + 8] = struct.pack("<II", 1, reader.pid)
            if not begins:
                reader.kill()
            process.stdin.write("\n")
            process.stdin.flush()
            while begins and header[STATE] != ASKED:
                assert process.poll() is None
            if begins:
                time.sleep(late)
                assert header[STATE] == ASKED
                header[STATE : STATE + 4] = struct.pack("<I", READING)
                os.kill(reader.pid, signal.SIGKILL)
            text = process.stdout.read()
            reader.wait()
            reader.stdin.close()
            assert header[STATE] == DONE
    assert text.startswith("losses"), text


def test_names_that_would_act_on_a_terminal_are_escaped(run_gpumem, tmp_path):
    bad = hostile("p").replace(".", "")
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "model = torch.nn.Module()\n"
        f"for name in ({bad!r}, 'x' * 5000, 'good'):\n"
        "    model.register_parameter(name, torch.nn.Parameter(torch.zeros(64, device='cuda')))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for step in range(2):\n"
        "    sum(parameter.sum() for parameter in model.parameters()).backward()\n"
        "    optimizer.step()\n"
    )
    log = tmp_path / "run.gpumem"
    record(run_gpumem, log, program)
    names = [name for kind, name, *_ in names_in(run_gpumem, log) if kind == "parameter"]
    # a tensor whose name is too long is named by its place in the optimizer
    assert sorted(names) == sorted(["good", bad, "SGD.param_groups[0]['params'][1]"])
    for command in (["blocks", log], ["why", log, "good.grad"], ["peak", log]):
        check_text(run_gpumem(*command).check().out.encode())
    check_text(run_gpumem("why", log, f"{bad}.grad").check().out.encode())
