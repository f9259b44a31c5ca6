"""`retained` names the parts of a container by what they are in it: items, values, or the keys themselves."""

import json
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "containers.py"


@pytest.mark.parametrize("seed", range(3))
def test_parts_are_named_by_what_they_are_in_the_container(sim_env, run_gpumem, spawn, python, seed):
    process = spawn([python, PROGRAM, str(seed)], env=sim_env(), stdout=subprocess.PIPE)
    truth = json.loads(process.stdout.readline())
    roots = run_gpumem("retained", "--pid", process.pid, "--json").check().json()["roots"]
    found = {root["name"][0]["name"]: root for root in roots if root["name"][0]["form"] == "global"}
    assert {one["form"] for one in truth.values()} == {"items", "values", "keys", "key"}
    for variable, one in truth.items():
        root = found[variable]
        assert root["blocks"] == one["count"], (variable, one, root)
        if one["form"] == "key":
            assert {child["name"][0]["form"] for child in root["children"]} == {"key"}, (variable, one, root)
            assert len(root["children"]) == one["count"]
        else:  # one part, on the line of the variable or below it
            name = root["name"][1] if len(root["name"]) > 1 else root["children"][0]["name"][0]
            assert (name["form"], name.get("count")) == (one["form"], one["count"]), (variable, one, root)
