"""`gpumem advise`: each measure is applied to the examples by hand, and PyTorch's own statistics tell what it saved."""

import json
import re

import advised
import pytest
from conftest import PYTHON, ROOT
from schemas import problems

DOCUMENT = ROOT / "docs" / "advise.md"
NEAR = 0.05

# What cannot be judged without stacks and steps, and what is advised of a loop that keeps nothing.
PLAIN = """
import torch
model = torch.nn.Linear(1024, 1024, device="cuda")
for step in range(3):
    model(torch.ones(64, 1024, device="cuda")).sum().backward()
    model.zero_grad()
"""


def chosen(config):
    return [case for case in advised.CASES if config.getoption("--long", default=False) or not case.long]


@pytest.fixture(scope="module")
def applied(request, run_gpumem, tmp_path_factory):
    """(answers by base, outcomes, the peak with several together)"""
    return advised.outcomes(run_gpumem, tmp_path_factory.mktemp("advise"), chosen(request.config))


def pytest_generate_tests(metafunc):
    if "number" in metafunc.fixturenames:
        cases = chosen(metafunc.config)
        metafunc.parametrize("number", range(len(cases)), ids=[f"{case.base}-{case.measure}" for case in cases])


def test_what_is_predicted_is_what_the_measure_saves(applied, number):
    outcome = applied[1][number]
    assert outcome.saved > 0
    if outcome.case.within:
        assert abs(outcome.predicted - outcome.saved) <= NEAR * outcome.saved
    else:
        assert outcome.advice["saved_least"] <= outcome.saved <= outcome.advice["saved_most"]
    if outcome.advice["exact"]:
        assert outcome.predicted == outcome.saved


def test_the_table_of_the_document_is_what_was_measured(applied, number):
    assert advised.row(applied[1][number]) in DOCUMENT.read_text().splitlines()


def test_the_document_has_no_row_that_was_not_measured():
    rows = re.findall(r"^\| `(\w+)` \| `\w+\.py`", DOCUMENT.read_text(), re.M)
    assert len(rows) == len(advised.CASES)
    assert len({case.measure for case in advised.CASES}) >= 16


def test_nothing_is_advised_that_does_not_lower_the_peak(applied):
    for name, answer in applied[0].items():
        assert problems("advise", answer) == []
        peak = answer["peak"]["bytes"]
        savings = [one["saved"] for one in answer["advice"]]
        assert savings == sorted(savings, reverse=True) and all(savings), name
        for one in answer["advice"]:
            assert one["verdict"] == "helps" and one["peak"]["bytes"] == peak - one["saved"]
            assert one["saved_least"] <= one["saved"] <= one["saved_most"]
            assert sum(one["peak"]["by_category"].values()) + one["peak"]["added"] == one["peak"]["bytes"]
        for one in answer["not_advised"]:
            assert one["verdict"] != "helps" and one["peak"]["bytes"] >= peak and one["saved"] == 0


def test_each_of_the_best_few_lowers_the_peak_further(applied):
    several = 0
    for answer in applied[0].values():
        peak, seen = answer["peak"]["bytes"], []
        for one in answer["together"]:
            assert one["peak"]["bytes"] == peak - one["saved"] and one["saved"] > 0
            assert one["costs"] in ("nothing", "time")
            seen.append((one["measure"], one["name"], json.dumps(one["place"])))
            peak = one["peak"]["bytes"]
        assert len(set(seen)) == len(seen)
        several += len(seen) > 1
    assert several > 1


def test_the_best_few_applied_together_give_the_predicted_peak(applied):
    base, measures, _ = advised.TOGETHER
    together = applied[0][base]["together"][: len(measures)]
    assert tuple(one["measure"] for one in together) == measures
    assert abs(together[-1]["peak"]["bytes"] - applied[2]) <= NEAR * applied[2]


def test_without_stacks_the_answer_says_what_cannot_be_judged(run_gpumem, tmp_path):
    program, path = tmp_path / "plain.py", tmp_path / "run.gpumem"
    program.write_text(PLAIN)
    run_gpumem("run", "--sim", "--stacks=none", "-o", path, "--", PYTHON, program).check()
    answer = run_gpumem("advise", path, "--json").check().json()
    unknown = [one for one in answer["not_advised"] if one["verdict"] == "unknown"]
    assert unknown and answer["advice"] == []
    assert {name for one in unknown for name in one["lacks"]} == {"steps", "stacks", "native_stacks"}
    text = run_gpumem("advise", path).check().out
    assert f"{len(unknown)} measures cannot be judged" in text and "Python stacks: `gpumem run` records them" in text


# Of eight layers with biases three are frozen.
UPDATES = """
import sys, torch
model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8))).cuda()
for layer in list(model)[:3] if "frozen" in sys.argv[2:] else (): layer.requires_grad_(False)
made = {"sgd": lambda **more: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1, maximize=True, **more),
        "adamw": lambda **more: torch.optim.AdamW(model.parameters(), amsgrad=True, **more)}
optimizer = made[sys.argv[1]](**({"fused": True} if "fused" in sys.argv else {"foreach": True}))
for step in range(4):
    model(torch.ones(4, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("kind", [("sgd",), ("adamw",), ("adamw", "frozen")])
def test_the_peak_with_a_fused_optimizer_is_the_predicted_one(run_gpumem, tmp_path, kind):
    program, peaks = tmp_path / "updates.py", {}
    program.write_text(UPDATES)
    for more in ((), ("fused",)):
        path = tmp_path / "run.gpumem"
        run_gpumem("run", "--sim", "-o", path, "--", PYTHON, program, *kind, *more).check()
        answer = run_gpumem("advise", path, "--json").check().json()
        peaks[more] = answer["peak"]["bytes"]
        if not more:
            (fused,) = [one for one in answer["advice"] + answer["not_advised"] if one["measure"] == "fused_optimizer"]
    assert fused["exact"] and fused["verdict"] != "nothing_there" and fused["peak"]["bytes"] == peaks["fused",]


@pytest.mark.parametrize("version", [pytest.param("1", marks=pytest.mark.long), "2"])
def test_what_is_sharded_already_is_not_advised_to_be_sharded(run_gpumem, tmp_path, version):
    path, program = tmp_path / "run.gpumem", ROOT / "tests" / "e2e" / "programs" / "sharded.py"
    run_gpumem("run", "--sim", "--rank", "1", "--world", "2", "-o", path, "--", PYTHON, "-W", "ignore", program, version).check()
    answer = run_gpumem("advise", path, "--json").check().json()
    assert problems("advise", answer) == []
    left_out = {one["measure"]: one["verdict"] for one in answer["not_advised"] if "whole_parameters" in one["lacks"]}
    assert left_out == dict.fromkeys(("zero1", "zero2", "zero3", "offload_parameters"), "unknown")
    assert not {one["measure"] for one in answer["advice"]} & set(left_out)
    text = run_gpumem("advise", path, "--all").check().out
    assert text.count(": is not judged, because the program shards already (FSDP, ") == 4
    assert "\n4 measures that shard or offload parameters are not judged, " in text and "The recording lacks" not in text


def test_gdb_answers_as_the_shell_does(run_gpumem, run_gdb, tmp_path):
    program, path = tmp_path / "plain.py", tmp_path / "run.gpumem"
    program.write_text(PLAIN)
    run_gpumem("run", "--sim", "-o", path, "--", PYTHON, program).check()
    shell = run_gpumem("advise", path, "--json").check().json()
    assert shell["advice"] and run_gdb([f"gpumem advise {path} --json"], sim=False)[0].json() == shell
    text = run_gpumem("advise", path, "--all").check().out
    assert all(one["text"] in text for one in shell["advice"] + shell["not_advised"])


@pytest.mark.parametrize("words", [("--parts=1",), ("--parts=x",), ("--device=9",), ("nofile",)])
def test_wrong_arguments_are_refused(run_gpumem, tmp_path, words):
    path = tmp_path / "empty.pickle"
    path.write_bytes(b"\x80\x04}.")
    done = run_gpumem("advise", path, *words)
    assert done.status in (2, 3) and done.out == ""
