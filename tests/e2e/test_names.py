"""`gpumem run --names`: what tensors are called, kept in the recording, against what the programs themselves know."""

import contextlib
import json
import sqlite3

import pytest

from conftest import PYTHON, ROOT

PROGRAMS = ROOT / "tests" / "e2e" / "programs"
RANDOM = PROGRAMS / "named_tensors.py"


def record(run_gpumem, log, *arguments, options=("--names",)):
    return run_gpumem("run", "--sim", *options, "-o", log, "--", PYTHON, "-W", "ignore", *map(str, arguments)).check()


def names_in(run_gpumem, log):
    """(kind, name, address of the block, offset, bytes) of all blocks that were ever there."""
    database = log.with_suffix(".db")
    run_gpumem("export", log, "--to", "sqlite", "-o", database).check()
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT kind, name, address, offset, bytes FROM name JOIN block ON block.id = name.block")
        return sorted(map(tuple, rows))


def check_seed(run_gpumem, folder, seed):
    log, out = folder / f"{seed}.gpumem", folder / f"{seed}.json"
    record(run_gpumem, log, RANDOM, seed, out)
    told, true = names_in(run_gpumem, log), sorted(map(tuple, json.loads(out.read_text())))
    assert true
    assert told == true, f"seed {seed}: {sorted(set(told) ^ set(true))[:6]}"


@pytest.mark.parametrize("seed", range(4))
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


def test_names_exclude_what_cannot_keep_them(run_gpumem):
    for option in (["--no-record"], ["--max-size", "10MiB"]):
        refused = run_gpumem("run", "--names", *option, "--", "true")
        assert refused.status == 2
        assert "--names excludes --no-record and --max-size" in refused.err
