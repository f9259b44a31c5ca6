"""Mistakes in typing: each is answered by a line that says what was meant. Every command and option, mistyped at random."""

import random
import re
import string

import pytest

from mistakes import wrong_answers


def answer_of(run_gpumem, *words):
    answer = run_gpumem(*words)
    assert answer.status == 2 and answer.out == "" and answer.err.count("\n") == 1, answer.err
    return answer.err


def commands(run_gpumem):
    return re.findall(r"^  ([a-z][a-z-]+) ", run_gpumem("--help").check().out, re.M)


def mistyped(random, word):
    """With one mistake: a letter more, less, other, or two exchanged."""
    at = random.randrange(1, len(word))
    letter = random.choice(string.ascii_lowercase)
    return random.choice(
        [word[:at] + letter + word[at:], word[:at] + word[at + 1 :], word[:at] + letter + word[at + 1 :], word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]]
    )


def test_a_mistyped_command_is_answered_with_one_that_is_as_near(run_gpumem):
    names = commands(run_gpumem)
    assert len(names) > 25
    chance = random.Random(20)
    for name in names:
        wrong = mistyped(chance, name)
        if wrong in names or len(wrong) < 4:
            continue
        meant = re.search(r"did you mean `gpumem ([a-z-]+)`\?", answer_of(run_gpumem, wrong))
        assert meant and meant[1] in names, (name, wrong)


@pytest.mark.parametrize(("typed", "meant"), [("whohas", "who-holds"), ("who_holds", "who-holds"), ("WHY", "why"), ("bl", "blocks"), ("snapsegments", None)])
def test_the_nearest_command_is_suggested(run_gpumem, typed, meant):
    line = answer_of(run_gpumem, typed)
    assert f"did you mean `gpumem {meant}`?" in line if meant else "did you mean" not in line


def test_a_mistyped_option_is_answered_with_the_option(run_gpumem):
    chance = random.Random(21)
    for command in ("peak", "blocks", "who-holds", "diff", "oom", "view"):
        options = re.findall(r"^  --([a-z-]+)(=?)", run_gpumem(command, "--help").check().out, re.M)
        assert len(options) > 3
        for option, _ in options:
            wrong = mistyped(chance, option)
            if len(wrong) < 4 or any(other.startswith(wrong) for other, _ in options):  # a beginning is taken as the option
                continue
            meant = re.search(r"unknown option '--[^']*': did you mean --([a-z-]+)[^?]*\? see `gpumem", answer_of(run_gpumem, command, f"--{wrong}"))
            assert meant and meant[1] in dict(options), (command, option, wrong)


@pytest.mark.parametrize(("typed", "meant"), [("--by-line", "--by=WHAT"), ("--JSON", "--json"), ("--devices", "--device=N")])
def test_the_nearest_option_is_suggested(run_gpumem, typed, meant):
    assert f"did you mean {meant}?" in answer_of(run_gpumem, "peak", typed)


def test_a_mistyped_device_is_answered_with_the_profile(run_gpumem):
    answer = run_gpumem("run", "--sim=a100-40g", "--", "true")
    assert answer.status == 2 and "did you mean a100-40gb?" in answer.err
    assert "did you mean" not in run_gpumem("run", "--sim=cray-1", "--", "true").err


@pytest.mark.parametrize("words", [("-h",), ("peak", "-h"), ("run", "-h"), ("fit", "-h"), ("who-holds", "-h")])
def test_h_is_help(run_gpumem, words):
    assert run_gpumem(*words).check().out == run_gpumem(*words[:-1], "--help").check().out


def test_v_is_version(run_gpumem):
    assert run_gpumem("-V").check().out == run_gpumem("--version").check().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["peak", "x", "--by", "lines"], "--by: unknown word 'lines': did you mean line? see `gpumem peak --help`"),
        (["peak", "x", "--by", "colour"], "use line, stack, phase, category, operator, module, label, shape or dtype: see"),
        (["blocks", "x", "--sort=sise"], "did you mean size?"),
        (["export", "x", "--to", "pytroch", "-o", "y"], "--to: unknown word 'pytroch': did you mean pytorch?"),
        (["estimate", "x", "--dtype", "float61"], "--dtype: unknown word 'float61': did you mean float32?"),
        (["estimate", "x", "--optimizer", "adam-w"], "did you mean adamw?"),
        (["mcp", "--allow", "files,program"], "unknown word 'program': did you mean programs?"),
        (["detach", "1", "--way", "pyton"], "did you mean python?"),
        (["sim", "lst"], "unknown word 'lst': type `gpumem sim list`"),
        (["run", "--devces", "cuda", "--", "true"], "unknown option '--devces': did you mean --devices? see `gpumem run --help`"),
        (["fit", "--vray", "b=1", "--", "true"], "unknown option '--vray': did you mean --vary?"),
        (["run", "--keep=newest", "--", "true"], "--keep newest: needs --max-size"),
        (["attach", "1", "--keep=newest"], "--keep newest: needs --max-size"),
    ],
)
def test_a_mistyped_word_is_answered_with_one_that_is_known(run_gpumem, words, said):
    assert said in answer_of(run_gpumem, *words)


@pytest.mark.parametrize("command", [["run"], ["attach", "1"]])
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--on-oom=repotr", "--on-oom: unknown word 'repotr': did you mean report?"),
        ("--on-oom=core,stop", "--on-oom: unknown word 'core,stop': use report, core, stop or none"),
        ("--devices=cud,cpu", "--devices: unknown word 'cud': did you mean cuda?"),
        ("--stacks=pyton", "--stacks: unknown word 'pyton': did you mean python?"),
        ("--stacks=none,python", "none excludes the others"),
        ("--max-size=1QiB", "--max-size: '1QiB' is not a size: write it like 64MiB or 4096"),
        ("--max-size=0", "--max-size 0: nothing could be recorded"),
    ],
)
def test_run_and_attach_refuse_the_same_words(run_gpumem, command, option, said):
    line = answer_of(run_gpumem, *command, option, *(["--", "true"] if command == ["run"] else []))
    assert said in line and line.count("--help`") == 1


def test_thirty_mistakes_of_a_beginner_are_answered_with_what_to_do(run_gpumem, python, tmp_path):
    recording = tmp_path / "run.gpumem"
    run_gpumem("run", "--sim", "-o", recording, "--", python, "-c", "import torch; torch.empty(1, device='cuda')").check()
    assert wrong_answers(lambda *words: run_gpumem(*words, cwd=tmp_path), recording, tmp_path) == []
    for words in (["help"], ["help", "peak"], ["help", "run"]):
        assert run_gpumem(*words).check().out == run_gpumem(*words[1:], "--help").check().out
