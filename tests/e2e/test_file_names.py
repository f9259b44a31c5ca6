"""Whose a line is does not hang on how its file is named: a program from the command line, from a prompt or a notebook, with
PyTorch installed in a wheel's own folder, on Windows. The names in one snapshot are changed, and all answers stay the same."""

import json
import os
import pickle
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from conftest import PYTHON, ROOT, run_process

MAKER = ROOT / "tests" / "e2e" / "programs" / "make_training.py"
SEED = 4  # a function, loops, a thread
OWN, SITE, STANDARD = "/home/u/train.py", "/opt/python/lib/python3.11/site-packages/", "/opt/python/lib/python3.11/"
HASH = "0123456789ab"


def named(own=OWN, site=SITE, standard=STANDARD):
    return SimpleNamespace(own=own, site=site, standard=standard)


WAYS = {
    "python -c": named("<string>"),
    "standard input": named("<stdin>"),
    "prompt": named("<python-input-3>"),
    "IPython": named("<ipython-input-5-0123456789ab>"),
    "Jupyter": named("/tmp/ipykernel_1234/567890123.py"),
    "Databricks": named("<command-1234567890>"),
    "folder of packages of one's own": named("/home/u/work-packages/train.py"),
    "folder that begins as Python's": named("/home/u/lib/python3-trials/train.py"),
    "folder that ends as PyTorch's": named("/home/u/mytorch/optim/train.py"),
    "folder called torch": named("/home/u/torch/utils/data/train.py"),
    "names of PyTorch's own modules": named("/home/u/pytorch-lab/mytorch/nn/modules/module.py"),
    "Debian": named(site="/usr/lib/python3/dist-packages/", standard="/usr/lib/python3.11/"),
    "free-threaded": named(site="/opt/lib/python3.15t/site-packages/", standard="/opt/lib/python3.15t/"),
    "PEX": named(site=f"/home/u/.pex/installed_wheels/{HASH}/PACKAGE-1.0-py3-none-any.whl/"),
    "folder of no special name": named(site="/opt/target/"),
    "Windows": named(r"D:\exp\train.py", r"C:\Users\u\Python311\Lib\site-packages" + "\\", r"C:\Users\u\Python311\Lib" + "\\"),
    "conda on Windows": named(r"c:\u\lib\train.py", r"C:\conda\envs\x\lib\site-packages" + "\\", r"C:\conda\envs\x\lib" + "\\"),
    "share of Windows": named(r"\\server\share\train.py", r"D:\venv\Lib\site-packages" + "\\", r"C:\Python311\Lib" + "\\"),
    "target on Windows": named(r"D:\exp\train.py", "E:\\target\\", r"C:\Python311\Lib" + "\\"),
}
QUESTIONS = {
    "peak": ["peak"],
    "peak by module": ["peak", "--by", "module"],
    "tree": ["peak", "--tree"],
    "phases": ["phases"],
    "timeline": ["timeline"],
    "blocks": ["blocks", "--at-peak"],
    "tensors": ["blocks"],
    "leaks": ["leaks"],
    "info": ["info"],
}


def renamed(value, rename):
    """A snapshot's data with the names of frames' files changed."""
    if isinstance(value, list):
        return [renamed(one, rename) for one in value]
    if isinstance(value, dict):
        return {key: rename(one) if key == "filename" else renamed(one, rename) for key, one in value.items()}
    return value


def renaming(own, way):
    """The function that gives a file of this machine its name in this way."""

    def rename(file):
        slash = "\\" if "\\" in way.site else "/"
        if file == own:
            return way.own
        before, packages, part = file.partition("/site-packages/")
        if packages:
            return way.site.replace("PACKAGE", part.partition("/")[0]) + part.replace("/", slash)
        before, standard, part = file.partition("/lib/python3")
        return way.standard + part.partition("/")[2].replace("/", slash) if standard else file

    return rename


def with_plain_names(text, way):
    """An answer with the names put back."""
    slashed = [name.replace("\\", "/") for name in (way.own, way.site, way.standard)]
    # where a module has no class's name, its file's last part stands for it
    text = text.replace(f"> {slashed[0].rpartition('/')[2]}:", "> train.py:").replace(slashed[0], OWN)
    site = re.escape(slashed[1]).replace("PACKAGE", "[a-z_]+")
    text = re.sub(site, SITE, text)
    return text if slashed[2] == STANDARD else text.replace(slashed[2], STANDARD)


@pytest.fixture(scope="module")
def run(gpumem, tmp_path_factory):
    """A program of `python -c`, as gpumem recorded it and as PyTorch did."""
    folder = tmp_path_factory.mktemp("names")
    source = subprocess.run([sys.executable, MAKER, str(SEED)], capture_output=True, text=True, check=True).stdout
    ours, theirs = folder / "run.gpumem", folder / "run.pickle"
    env = {name: value for name, value in os.environ.items() if name != "GPUMEM_NO_RECORD"}
    command = [gpumem, "run", "--sim", "-o", ours, "--", PYTHON, "-c", source, theirs, "python"]
    run_process(command, env=env, timeout=600).check()
    return SimpleNamespace(folder=folder, ours=ours, snapshot=pickle.loads(theirs.read_bytes()))


def answers(run_gpumem, run, way):
    snapshot = run.folder / "renamed.pickle"  # answers name the file
    snapshot.write_bytes(pickle.dumps(renamed(run.snapshot, renaming("<string>", way))))
    said = {}
    for question, (command, *options) in QUESTIONS.items():
        run_of_it = run_gpumem(command, snapshot, *options, "--json")
        assert run_of_it.status in (0, 1), run_of_it.err  # leaks ends with 1 where it finds any
        said[question] = json.loads(with_plain_names(run_of_it.out, way))
    return said


@pytest.fixture(scope="module")
def plain(run, gpumem):
    def call(*arguments):
        return run_process([gpumem, *arguments])

    return answers(call, run, named())


def test_the_plain_names_answer(plain):
    assert plain["info"]["steps"] >= 3
    assert all(one["key"].startswith(OWN) for one in plain["peak"]["groups"]), plain["peak"]["groups"]


@pytest.mark.parametrize("name", WAYS)
def test_every_answer_is_the_same_with_other_names(name, run, plain, run_gpumem):
    said = answers(run_gpumem, run, WAYS[name])
    for question in QUESTIONS:
        assert said[question] == plain[question], question


def test_our_recording_of_it_has_the_programs_own_lines(run, run_gpumem, plain):
    ours = run_gpumem("peak", run.ours, "--json").check().json()
    assert all(one["key"].startswith("<string>:") for one in ours["groups"]), ours["groups"]
    assert ours["allocated"] == plain["peak"]["allocated"]
