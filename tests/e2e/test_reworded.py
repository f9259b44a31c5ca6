"""Answers are data until they are rendered: with each sentence of core/render worded differently (tests/tools/reworded.h), no
field of any JSON answer differs but those that hold sentences."""

import codecs
import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import PYTHON, Started, run_process

PROGRAMS = Path(__file__).parent / "programs"
# Fields that hold sentences or names made by core/render, by the command.
SENTENCES = {
    "why": {"sentence", "held_until"},
    "oom": {"sentence", "text"},
    "steps": {"reason"},
    "phases": {"reason"},
    "blocks": {"category_reason"},
    "info": {"gaps"},
    "doctor": {"value", "advice", "reason"},
    "retained": {"text", "variable", "also", "by", "graphs"},
    "who-holds": {"text", "notes"},
}
# Of these each one has words of ours in it.
ALWAYS = {"sentence", "held_until", "reason", "category_reason", "notes"}
# Of two answers about one process: how long it took, and what other programs did meanwhile.
MOMENTARY = {"scan", "pause", "seconds"}
HELD = """
import collections, copy, os, sys
import torch
from torch import nn

class Cache:
    pass

def kept(model):
    inside = torch.zeros(1 << 18, device="cuda")
    yield inside

def fail():
    big = torch.zeros(1 << 18, device="cuda")
    raise ValueError

def train():
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.BatchNorm1d(512), nn.Linear(512, 256)).cuda()
    average = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters())
    scores, history = [], {}
    for step in range(3):
        inputs = torch.randn(64, 256, device="cuda")
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        scores.append(model(inputs).abs().mean())
        history[step] = {"output": model(inputs)}
    cache = Cache()
    cache.views = torch.zeros(1 << 18, device="cuda")[5:]
    cache.shared = history[0]
    cache.lent = (lambda tensor: lambda: tensor)(torch.zeros(1 << 18, device="cuda"))
    generator = kept(model)
    next(generator)
    autocast = torch.autocast("cuda")
    autocast.__enter__()
    model(inputs)
    try:
        fail()
    except ValueError as error:
        cache.error = error
    print(os.getpid(), flush=True)
    sys.stdin.read()

train()
"""


@pytest.fixture(scope="module")
def reworded(build_dir):
    return build_dir / "tests" / "reworded" / "gpumem"


@pytest.fixture(scope="module")
def recordings(run_gpumem, examples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reworded")
    programs = {"releases": PROGRAMS / "releases.py", "leak": examples / "leak.py", "oom": examples / "oom.py", "amp": examples / "amp.py"}
    for name, program in programs.items():
        run_gpumem("run", "--sim=2GiB", "--overflow-at=1", "-o", folder / name, "--", PYTHON, program)
    return folder


@pytest.fixture(scope="module")
def held(sim_env, tmp_path_factory):
    program = tmp_path_factory.mktemp("held") / "held.py"
    program.write_text(HELD)
    process = Started(
        [PYTHON, "-W", "ignore", program], env=sim_env(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == f"{process.pid}\n"
    yield process
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def core(held, run_gpumem, tmp_path_factory):
    path = tmp_path_factory.mktemp("core") / "core"
    run_gpumem("core", held.pid, "-o", path).check()
    yield path
    path.unlink()


def documents(text):
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


class Comparison:
    """Of the answers of both builds. `worded`: which fields of sentences differed, by command."""

    def __init__(self, gpumem, reworded):
        self.builds = gpumem, reworded
        self.worded = set()

    def ask(self, *command):
        first, second = (run_process([build, *command, "--json"]) for build in self.builds)
        assert first.status == second.status, command
        assert bool(first.out) == bool(second.out), command
        if not first.out:
            return None
        answer = documents(first.out)
        self.compare(command[0], "", answer, documents(second.out))
        return answer

    def compare(self, command, field, first, second):
        assert type(first) is type(second), (command, field, first, second)
        if isinstance(first, dict) and first.get("name") == second.get("name") == "simulated device":
            return  # its library lies next to one of the two
        if isinstance(first, dict):
            assert list(first) == list(second), (command, field)
            for key in first:
                if key == "name" and command == "retained" and "native" in first:
                    # a sentence about the parts in `native`
                    assert first[key] != second[key], f"a sentence that core/render did not make: {first[key]!r}"
                    self.worded.add((command, key))
                elif key not in MOMENTARY:
                    self.compare(command, key, first[key], second[key])
        elif isinstance(first, list):
            assert len(first) == len(second), (command, field)
            for one, other in zip(first, second):
                self.compare(command, field, one, other)
        elif isinstance(first, str) and field in SENTENCES.get(command, ()):
            assert field not in ALWAYS or first != second, f"a sentence that core/render did not make: {first!r}"
            if first != second:
                self.worded.add((command, field))
        elif field == "key" and first != second:
            # what the blocks of a group lack, where they have no key: tests/tools/reworded.c words it
            assert codecs.encode(first, "rot13") == second, (command, field)
            self.worded.add((command, field))
        else:
            assert first == second, (command, field)


@pytest.fixture
def comparison(gpumem, reworded):
    return Comparison(gpumem, reworded)


QUESTIONS = [
    ("info",),
    ("events",),
    ("blocks", "--at-peak"),
    ("blocks", "--at-peak", "--explain"),
    ("blocks", "--at-peak", "--by", "line"),
    ("blocks", "--at-peak", "--by", "category"),
    ("blocks", "--at-peak", "--by", "module"),
    ("blocks", "--at-peak", "--by", "operator"),
    ("blocks", "--at-peak", "--tree"),
    ("timeline",),
    ("peak",),
    ("peak", "--by", "module"),
    ("steps",),
    ("amp",),
    ("steps", "--explain"),
    ("phases",),
    ("leaks",),
    ("segments",),
    ("segments", "--request", "1GiB"),
    ("oom",),
]


def test_answers_about_recordings_do_not_depend_on_wording(comparison, recordings):
    for recording in sorted(recordings.iterdir()):
        for question, *options in QUESTIONS:
            comparison.ask(question, recording, *options)
        allocated = [event["n"] for event in comparison.ask("events", recording) if event["action"] == "alloc"]
        for number in allocated[:: max(1, len(allocated) // 10)]:
            comparison.ask("why", recording, f"#{number}")
    comparison.ask("diff", recordings / "leak", recordings / "oom")
    assert comparison.worded == {
        ("why", "sentence"),
        ("why", "held_until"),
        ("oom", "sentence"),
        ("oom", "text"),
        ("steps", "reason"),
        ("phases", "reason"),
        ("blocks", "category_reason"),
        ("blocks", "key"),
        ("peak", "key"),
    }


def test_answers_about_a_job_do_not_depend_on_wording(gpumem, reworded, build_dir, tmp_path):
    """gpumem-ranks: no field of its JSON holds a sentence of its own. What ends a file too early the reader says."""
    planted = ["--odd", "5", "--leak", "7", "--oom", "9", "--stages", "3"]
    run_process([build_dir / "tests" / "rank_recordings", tmp_path, "24", "400", "1", *planted]).check()
    (tmp_path / "run.3.gpumem").unlink()
    whole = tmp_path / "run.11.gpumem"
    os.truncate(whole, whole.stat().st_size * 9 // 10)
    files, builds = sorted(tmp_path.glob("run.*.gpumem")), [path.parent / "gpumem-ranks" for path in (gpumem, reworded)]
    for question in ("info", "peak", "diff", "steps", "phases", "leaks", "oom", "timeline", "zero"):
        text, data = ([run_process([build, question, *files, "--no-keep", *words]) for build in builds] for words in ([], ["--json"]))
        assert data[0].out and (data[0].status, json.loads(data[0].out)) == (data[1].status, json.loads(data[1].out)), question
        assert text[0].out and text[0].out != text[1].out, question


def test_answers_about_messages_do_not_depend_on_wording(comparison, tmp_path):
    from test_oom_text import MESSAGES

    text = tmp_path / "messages"
    text.write_text("\n\n".join(message for message, _, _ in MESSAGES))
    assert len(comparison.ask("oom", "--text", text)["messages"]) > 20
    assert comparison.worded == {("oom", "sentence"), ("oom", "text")}


def ask_of_target(comparison, *target):
    assert comparison.ask("doctor", *target)["commands"][1]["works"]
    retained = comparison.ask("retained", *target)
    forms = {name["form"] for root in retained["roots"] for name in root["name"]}
    assert {"local", "attribute", "items"} <= forms, forms
    for question in (("info",), ("blocks",), ("blocks", "--by", "category"), ("blocks", "--by", "module"), ("segments",), ("zero",)):
        comparison.ask(question[0], *target, *question[1:])
    blocks = comparison.ask("blocks", *target)["blocks"]
    for block in blocks[:: max(1, len(blocks) // 4)]:
        comparison.ask("who-holds", *target, block["address"])
    assert comparison.worded - {("who-holds", "notes"), ("doctor", "advice")} == {
        ("blocks", "key"),
        ("retained", "text"),
        ("retained", "name"),
        ("retained", "variable"),
        ("retained", "by"),
        ("retained", "graphs"),
        ("who-holds", "text"),
        ("doctor", "value"),
        ("doctor", "reason"),
    }


def test_answers_about_a_process_do_not_depend_on_wording(comparison, held):
    ask_of_target(comparison, "--pid", held.pid)


@pytest.mark.long  # the same sentences as of a process
def test_answers_about_a_core_do_not_depend_on_wording(comparison, core):
    ask_of_target(comparison, "--core", core)


def test_a_comparison_of_retained_matches_by_names_and_not_by_texts(gpumem, reworded, held, tmp_path):
    """Saved by the build with other words, compared by the real one."""
    saved = tmp_path / "saved"
    run_process([reworded, "retained", "--pid", held.pid, "--save", saved]).check()
    changed = run_process([gpumem, "retained", "--pid", held.pid, "--diff", saved, "--json"]).check().json()
    assert all(device["changes"] == [] for device in changed["devices"])
