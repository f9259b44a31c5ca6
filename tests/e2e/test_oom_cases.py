"""`oom` of programs made at random that run out of memory: figures against PyTorch's statistics, advice against its being tried.

Each is asked about in a recording, in PyTorch's snapshot and by the error's text. Advice that says yes must have worked in
the program itself, and what says no must not have.
"""

import json
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "oom_cases.py"
SEEDS = [range(5), pytest.param(range(5, 8), marks=pytest.mark.long), *(pytest.param(range(first, first + 40), marks=pytest.mark.long) for first in range(100, 900, 40))]


@pytest.fixture(scope="module", params=SEEDS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def cases(request, gpumem, run, python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    out, recording = folder / "out", folder / "run.gpumem"
    command = [gpumem, "run", "--sim=4GiB", "-o", recording, "--", python, "-W", "ignore", PROGRAM, out, *map(str, request.param)]
    run(command, timeout=3000).check()
    told = {}
    for line in out.read_text().splitlines():
        one = json.loads(line)
        told.setdefault(one["seed"], {}).update(one)
    cases = [one for one in told.values() if "text" in one]
    for one in cases:
        # the request that failed was served, whatever became of later ones
        one["expandable_segments"] = one["failed_expandable"] is None or one["failed_expandable"] > one["failed"]
        own = folder / f"run.gpumem.{one['pid']}"
        one["recording"] = own if own.exists() else recording
        one["message"] = folder / f"{one['seed']}.txt"
        one["message"].write_text(one["text"])
    assert len(cases) >= len(request.param) / 2
    return cases


@pytest.fixture(params=["recording", "snapshot", "text"])
def answers(request, cases, run_gpumem):
    def ask(one):
        if request.param == "text":
            return run_gpumem("oom", "--text", one["message"], "--json").check().json()["messages"][0]
        return run_gpumem("oom", one[request.param], "--json").check().json()

    return request.param, [(one, ask(one)) for one in cases]


def test_figures_are_those_of_the_allocator_and_the_device(answers):
    source, pairs = answers
    for one, answer in pairs:
        near = pytest.approx if source == "text" else lambda value, **_: value
        who = (one["seed"], one["kind"], answer["sentence"])
        assert answer["free"] == near(one["free"], rel=0.01), who
        assert source == "snapshot" or answer["total"] == one["total"], who
        assert answer["reserved"] == near(one["reserved"], rel=0.01), who
        if source != "text":  # which counts private pools' free pieces among what is allocated
            assert answer["allocated"] == one["allocated"], who
            assert (answer["unallocated"], answer["private_pools"]) == (one["pieces"], one["private_free"]), who
        assert answer["missing"] == answer["needed"] - answer["free"], who


def test_what_is_advised_helps_and_what_is_not_does_not(answers):
    _, pairs = answers
    for one, answer in pairs:
        advice = {row["name"]: row["sufficient"] for row in answer["enough"]}
        who = (one["seed"], one["kind"], advice, answer["sentence"])
        for name in ("empty_cache", "free_memory", "expandable_segments"):
            if name in advice and advice[name] != "maybe" and one[name] is not None:
                assert (advice[name] == "yes") == one[name], (name, *who)


def test_the_verdict_fits_the_kind_of_error(answers):
    source, pairs = answers
    for one, answer in pairs:
        who = (one["seed"], one["kind"], answer["verdict"], answer["sentence"])
        if source == "snapshot":  # it does not tell how much the device has
            assert answer["verdict"] in ("capacity", "fragmentation"), who
        elif one["kind"] == "outside":
            assert answer["verdict"] == "outside", who
        if one["kind"] in ("capacity", "mempool"):
            assert answer["verdict"] == "capacity", who
        if answer["verdict"] == "fragmentation":
            assert one["pieces"] >= answer["missing"], who
