"""The last item of a large container is found, whatever the other items are: a large array is looked at for damage while it is
read (core/cpython/sweep/walk_arrays.c), and none of these may look damaged."""

import json
import subprocess
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "large_arrays.py"


def test_the_last_item_of_each_large_container_is_found(sim_env, run_gpumem, spawn, python):
    process = spawn([python, PROGRAM], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    said = json.loads(process.stdout.readline())
    answers = run_gpumem("retained", "--pid", process.pid, "--json").check().json()
    assert answers["storages_complete"] == answers["storages"] == len(said["where"])
    (held,) = answers["roots"]
    found = {child["name"][0]["name"] for child in held["children"]}
    assert found == set(said["where"])
    for kind in ("nones list", "types tuple", "ints dict", "tuples set", "one_string list"):
        answer = run_gpumem("who-holds", "--pid", process.pid, said["where"][kind], "--json").check().json()
        assert answer["complete"] and len(answer["holders"]) == 1 and kind in answer["holders"][0]["text"], kind
