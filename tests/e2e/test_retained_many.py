"""`retained` of memory with many holders: the program's own variables are named first, and the text names few."""

import json
import re
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "many_holders.py"
AT_MOST = 24  # holders that the JSON names


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 60))])
def test_the_programs_own_variables_are_named_first_and_the_text_names_few(sim_env, run_gpumem, spawn, python, seed):
    process = spawn([python, PROGRAM, str(seed)], env=sim_env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    truth = json.loads(process.stdout.readline())
    answer = run_gpumem("retained", "--pid", process.pid, "--json").check().json()
    (group,) = answer["shared_groups"]
    assert group["bytes"] == 3 << 22 and answer["roots"] == []
    (name,) = [one for one in group["name"] if one["form"] == "shared"]
    members = [one for one in name["members"] if one["form"] == "global"]
    own = [one["name"] for one in members if "of" not in one]
    assert own == truth["own"] and members[: len(own)] == [{"form": "global", "name": one} for one in own]
    rest = [one for one in members[len(own) :] if not one["name"].startswith("__")]
    assert [one["of"].count(".") for one in rest] == sorted(one["of"].count(".") for one in rest)
    known = {(one["of"], one["name"]) for one in members[len(own) :]}
    assert known - {tuple(one) for one in truth["modules"]}, "Python's own logging.root at least"
    if len(truth["modules"]) >= AT_MOST:
        # functions that run, which hold it only while they compute, are taken out of those that were kept
        assert AT_MOST // 2 < len(name["members"]) <= AT_MOST and name["more"]
        assert f" and at least {len(name['members']) - 3} others" in group["text"]
    assert 2 <= len(re.findall(r"global '", group["text"])) <= 4, group["text"]
    text = run_gpumem("retained", "--pid", process.pid).check().out
    assert group["text"] in text and max(map(len, text.splitlines())) < 250
