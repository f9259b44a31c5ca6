"""The commands as a user meets them: help, wrong words, exit status."""

import re

import pytest


@pytest.fixture(scope="module")
def names(run_gpumem):
    names = re.findall(r"^  ([a-z-]+) ", run_gpumem("--help").check().out, re.M)
    assert len(names) > 20
    return names


def test_help_lists_the_commands(names):
    assert {"gdb", "run", "info", "events", "blocks", "peak", "why", "who-holds", "doctor"} <= set(names)


def test_every_command_has_help_with_an_example(names, run_gpumem):
    for name in names:
        run = run_gpumem(name, "--help").check()
        assert f"gpumem {name}" in run.out, name
        assert "example" in run.out.lower(), name
        assert run.err == "", name


def test_every_command_refuses_an_unknown_option_with_one_line(names, run_gpumem):
    for name in names:
        if name == "gdb":
            continue  # what it does not know is gdb's
        run = run_gpumem(name, "--no-such-option")
        assert run.status == 2, f"{name}: {run.out}{run.err}"
        assert re.match(r"gpumem: .+: .+: .+\n\Z", run.err), f"{name}: {run.err!r}"


def test_unknown_command_names_the_nearest(run_gpumem):
    run = run_gpumem("who-hold")
    assert run.status == 2
    assert "who-holds" in run.err


def test_missing_file_is_named(run_gpumem, tmp_path):
    run = run_gpumem("info", tmp_path / "none.gpumem")
    assert run.status in (3, 4)
    assert re.match(rf"gpumem: .*{re.escape(str(tmp_path))}/none\.gpumem.*\n\Z", run.err)


def test_file_of_another_kind_is_refused(run_gpumem, tmp_path):
    path = tmp_path / "text"
    path.write_text("not a recording\n" * 100)
    run = run_gpumem("events", path)
    assert run.status == 3
    assert str(path) in run.err


def test_help_as_json_has_the_words_of_the_help(run_gpumem):
    commands = run_gpumem("--help", "--json").check().json()["commands"]
    assert {one["name"] for one in commands} == set(re.findall(r"^  ([a-z][a-z-]*)  ", run_gpumem("--help").check().out, re.M))
    for one in commands:
        if one["name"] in ("run", "gdb", "fit"):  # theirs are another program's words too
            continue
        text = run_gpumem(one["name"], "--help").check().out
        said = run_gpumem(one["name"], "--help", "--json").check().json()
        assert said["text"] in text and all(line in text for line in said["usage"]), one["name"]
        listed = re.findall(r"^  --([a-z-]+)(?:=(\S+))? ", text.partition("\nOptions:\n")[2], re.M)
        assert [(option["name"], option["value"] or "") for option in said["options"]] == listed, one["name"]
        assert said["effect"] == one["effect"] in ("none", "files", "processes", "programs")
