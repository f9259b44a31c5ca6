"""`retained` names what an autograd.Function keeps in its context by the node's class and the attribute, and what a generator holds
by its variable."""

import json
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "contexts.py"


def walk(node, above=()):
    names = [*above, *node["name"]]
    yield names, node
    for child in node["children"]:
        yield from walk(child, names)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 60))])
def test_contexts_and_generators_name_what_they_keep(sim_env, run_gpumem, spawn, python, seed):
    process = spawn([python, PROGRAM, str(seed)], env=sim_env(), stdout=subprocess.PIPE)
    truth = json.loads(process.stdout.readline())
    answer = run_gpumem("retained", "--pid", process.pid, "--depth", 30, "--min", 0, "--json").check().json()
    found = {}
    for root in answer["roots"]:
        for names, node in walk(root):
            forms = [one["form"] for one in names]
            assert "graph_leaves" not in forms or node["bytes"] <= 512, (names, truth)
            assert all(one.get("name") != "?" for one in names), names
            if not node["children"]:
                found[node["bytes"]] = names
    for owner, attribute, size in truth["saved"]:
        names = found[(size + 511) // 512 * 512]
        assert names[0] == {"form": "global", "name": "out"}
        at = [one["form"] for one in names].index("saved")
        assert names[at + 1]["name"] == owner, (names, owner)
        rest = [(one["form"], one.get("name")) for one in names[at + 2 :] if one["form"] != "itself"]
        assert rest == ([] if attribute is None else [("attribute", attribute)]), (names, attribute)
    for function, variable, size in truth["held"]:
        names = found[(size + 511) // 512 * 512]
        assert names[0] == {"form": "global", "name": "generator"}
        assert [(one["form"], one["name"]) for one in names[-1:]] == [("kept_local", variable)], names
        assert names[-1]["of"].rstrip("()") == function, names
