"""`retained`: a group's line names whose graphs hold its tensors as well, because they are freed with the last of all."""

import json
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "graph_holders.py"


def names(members):
    return sorted(member["name"] for member in members)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 8))])
def test_tensors_of_lists_and_of_graphs(sim_env, run_gpumem, spawn, python, seed):
    process = spawn([python, PROGRAM, str(seed)], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    said = json.loads(process.stdout.readline())

    def clear(*lists):
        process.stdin.write(" ".join(lists) + "\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    wanted = {}
    for tensor in said["truth"]:
        group = wanted.setdefault(tuple(tensor["by"]), {"bytes": 0, "graphs": set()})
        group["bytes"] += tensor["bytes"]
        group["graphs"] |= set(tensor["graphs"])
    answer = run_gpumem("retained", "--pid", process.pid, "--json").check().json()
    found = {tuple(names(group["name"][0]["members"])): group for group in answer["shared_groups"]}
    assert set(found) == set(wanted)
    for by, group in found.items():
        assert group["bytes"] == wanted[by]["bytes"], by
        assert set(names(group["name"][0].get("graphs", []))) == wanted[by]["graphs"], by
        assert set(group.get("graphs", [])) == {f"global '{name}'" for name in wanted[by]["graphs"]}
        graphs = group["text"].partition(", and the graph")[2]
        assert bool(graphs) == bool(wanted[by]["graphs"]) and all(f"'{name}'" in graphs for name in wanted[by]["graphs"])
    # the truth, once more: without the lists the graphs still hold theirs, without both nothing is left
    held = sum(tensor["bytes"] for tensor in said["truth"] if tensor["graphs"])
    scores = 512 * sum(len(tensor["graphs"]) for tensor in said["truth"])
    assert clear(*(f"held_{i}" for i in range(4))) == held + scores
    assert clear(*(f"scores_{i}" for i in range(4))) == 0
