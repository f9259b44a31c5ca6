"""Tensors that native code keeps on the stacks of threads, wherever a stack lies and whatever is beside it: random stacks whose
truth is known by construction (programs/thread_stacks.py), of a process that lives and of a core of it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import truth
from conftest import BUILD, ROOT

sys.path.insert(0, str(ROOT / "gdb"))
os.environ.setdefault("GPUMEM_LIBRARY", str(BUILD / "lib" / "libgpumem.so"))

from gpumem import library  # noqa: E402

PROGRAMS = Path(__file__).parent / "programs"
ON_ITS_STACK, ON_A_FIBER, LEFT_FOR_A_FIBER, LEFT_FOR_A_HANDLER, IN_A_REGISTER = range(5)
FUNCTIONS = {ON_A_FIBER: "stand_in_fiber(int, int)", IN_A_REGISTER: "keep_in_register(holder::Beginning const*)"}


@pytest.fixture(scope="module")
def holder(tmp_path_factory):
    if not shutil.which("g++"):
        pytest.skip("no C++ compiler")
    made = tmp_path_factory.mktemp("holder") / "libholder.so"
    subprocess.run(["g++", "-O1", "-g0", "-shared", "-fPIC", "-o", made, PROGRAMS / "thread_stacks.cpp"], check=True)
    return made


def wrong(fact, answer):
    """What is not as it must be: the list that has the tensor, and the stack of its thread, unless that has ended."""
    texts = [holder["text"] for holder in answer["holders"]]
    thread = f"the native stack of thread {fact['thread']}"
    expected = {f"{thread}, in holder::{FUNCTIONS.get(fact['on'], 'stand_on(holder::Beginning*)')}"}
    if fact["on"] == LEFT_FOR_A_FIBER:
        expected = {thread}  # nothing leads from a fiber's frames to those of its thread
    stacks = [text for text in texts if "global 'kept'" not in text]
    right = answer["complete"] and len(texts) == 2 - fact["ends"] and len(stacks) == 1 - fact["ends"] and expected.issuperset(stacks)
    return "" if right else f"{fact['what']}: {'whole' if answer['complete'] else 'not whole'}: {texts}"


def ask(facts, pid=0, core=None):
    """What is wrong in the answers."""
    session = library.Session()
    library.library().gpumem_session_set_process(session._handle, pid)
    library.library().gpumem_session_set_core(session._handle, os.fsencode(core) if core else None)
    found = []
    try:
        for fact in facts:
            status, out, err = session.run(["who-holds", hex(fact["where"]), "--json"])
            found.append(wrong(fact, json.loads(out)) if status == 0 else f"{fact['what']}: {err}")
    finally:
        session.close()
    return [one for one in found if one]


def stand(holder, python, spawn, env, count, seed):
    process = spawn([python, PROGRAMS / "thread_stacks.py", holder, count, seed], env=env, stdout=subprocess.PIPE)
    line = process.stdout.readline()
    assert line, f"the program with seed {seed} ended"
    return json.loads(line)


def test_a_stack_is_known_wherever_it_lies(holder, python, spawn, sim_env, run_gpumem, tmp_path):
    said = stand(holder, python, spawn, sim_env(), 40, 3)
    assert {fact["on"] for fact in said["facts"]} == set(range(5)) and {fact["ends"] for fact in said["facts"]} == {False, True}
    assert not (found := ask(said["facts"], pid=said["pid"])), "\n".join(found)
    run_gpumem("core", said["pid"], "-o", tmp_path / "core").check()
    assert not (found := ask(said["facts"], core=tmp_path / "core")), "\n".join(found)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_random_stacks_are_known(holder, python, spawn, sim_env):
    count, found = 0, []
    for seed in range(20):
        said = stand(holder, python, spawn, sim_env(), 60, seed)
        found += [f"seed {seed}: {one}" for one in ask(said["facts"], pid=said["pid"])]
        count += len(said["facts"])
        os.kill(said["pid"], 9)
    truth.note("who-holds", "threads on stacks anywhere", "threads", count, count - len(found), 0, found)
    assert not found, "\n".join(found)
