"""Random trees of C++ objects that hold tensors (programs/native_graph.py), among words of memory that was given back: who-holds
names the holder of each tensor. Of the objects and the static variable that lead to it, it names no wrong one."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, Started

sys.path.insert(0, str(ROOT / "gdb"))
os.environ.setdefault("GPUMEM_LIBRARY", str(BUILD / "lib" / "libgpumem.so"))

from gpumem import library  # noqa: E402

PROGRAMS = ROOT / "tests/e2e/programs"


@pytest.fixture(scope="module")
def shared_library(tmp_path_factory):
    made = tmp_path_factory.mktemp("native_graph") / "libgraph.so"
    subprocess.run(["g++", "-O1", "-g0", "-shared", "-fPIC", "-o", made, PROGRAMS / "native_graph.cpp"], check=True)
    return made


def answers(python, env, shared_library, seed, leaves, most):
    """For `most` of the tensors, evenly chosen: what is true of it, and the answer."""
    command = [python, PROGRAMS / "native_graph.py", shared_library, str(seed), str(leaves)]
    process = Started(command, stdout=subprocess.PIPE, text=True, env=env)
    session = library.Session()
    try:
        facts = json.loads(process.stdout.readline())
        library.library().gpumem_session_set_process(session._handle, facts["pid"])
        tensors = facts["tensors"]
        for tensor in tensors[:: -(-len(tensors) // most)]:
            status, out, error = session.run(["who-holds", hex(tensor["address"]), "--json"])
            assert status == 0, error
            yield tensor, json.loads(out)
    finally:
        session.close()
        process.send_signal(signal.SIGKILL)
        process.wait()


def is_part(found, of):
    """Are the items found in this order in the other list?"""
    rest = iter(of)
    return all(one in rest for one in found)


def judge(tensor, answer):
    """Returns (what is wrong, whether the static variable is named)."""
    texts = [holder["text"] for holder in answer["holders"]]
    if len(texts) != 1:
        return f"{len(texts)} holders instead of one: {texts}", False
    classes = re.findall(r"a graph::(\w+)", texts[0])
    statics = re.findall(r"static '([^']+)'", texts[0])
    if classes[:1] != tensor["classes"][:1] or not is_part(classes, tensor["classes"]):
        return f"{texts[0]}: the objects are {tensor['classes']}", False
    if statics and statics != [tensor["root"]]:
        return f"{texts[0]}: the variable is {tensor['root']}", False
    if tensor["classes"][0] != "Table" and not answer["complete"]:  # a table's node has no class, so its word is a guess
        return f"{texts[0]}: not complete: {answer['notes']}", False
    return None, bool(statics)


def check(python, env, shared_library, seed, leaves, most):
    judged = [judge(*one) for one in answers(python, env, shared_library, seed, leaves, most)]
    wrong = [reason for reason, _ in judged if reason]
    assert not wrong, "\n".join(wrong)
    return [named for _, named in judged]


def test_the_holder_in_a_tree_of_native_objects_is_named(python, sim_env, shared_library):
    named = check(python, sim_env(), shared_library, 1, 12, 12)
    assert sum(named) >= len(named) / 2


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_holders_in_twenty_trees_of_native_objects_are_named(python, sim_env, shared_library):
    named = [one for seed in range(2, 22) for one in check(python, sim_env(), shared_library, seed, 30, 1000)]
    # a variable that is more than five pieces of memory away is not named: old words may lead there
    assert sum(named) >= len(named) / 2
