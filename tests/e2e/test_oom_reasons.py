"""`oom` of programs made at random whose error has a known reason: what a loop keeps, fragmentation, or one request too large.

The truth of "fragmentation" is an experiment: the same program under expandable segments. If that makes it run
for good, or for many times as long, fragmentation was the reason; if it adds less than the program had done, it was not.
Every remedy is tried, too.
"""

import json
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "oom_reasons.py"
GROWS = [number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if line.endswith("# grows")]
SEEDS = [range(8), *(pytest.param(range(first, first + 16), marks=pytest.mark.long) for first in range(100, 196, 16))]


class Asked:
    """One program of a seed: what it told in each of its runs, and the answer."""

    def __init__(self, told, answer):
        self.base, self.answer = told, answer
        self.remedies = {one["name"]: one for one in answer["enough"]}
        self.runs = {}

    def __repr__(self):
        return f"{self.base} {self.runs} {self.answer['verdict']} {self.answer['sentence']} {self.answer['enough']} {self.answer['growth']}"

    @property
    def grows(self):
        return self.base["kind"].startswith("keeps") or self.base["kind"] == "joins"

    @property
    def more(self):
        """Iterations that expandable segments add."""
        return self.runs["expandable"]["iterations"] - self.base["iterations"]


@pytest.fixture(scope="module", params=SEEDS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def programs(request, gpumem, run_gpumem, python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reasons")
    recording = folder / "run.gpumem"
    command = [gpumem, "run", "--sim=2GiB", "-o", recording, "--", python, "-W", "ignore", PROGRAM, *map(str, request.param)]
    asked = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:

        def hear():
            line = process.stdout.readline()
            assert line, "the program ended"
            return json.loads(line)

        for _ in request.param:
            told = hear()
            own = folder / f"run.gpumem.{told['pid']}"
            answer = run_gpumem("oom", own if own.exists() else recording, "--json").check().json()
            one = Asked(told, answer)
            addresses = answer["release"]["addresses"] if answer["release"] else []
            print(json.dumps([int(address, 16) for address in addresses]), file=process.stdin)
            one.runs["base"] = hear()
            one.runs["stop"] = hear()
            print(told["iterations"], file=process.stdin)
            one.runs["expandable"] = hear()
            asked.append(one)
        process.stdin.close()
        assert process.wait() == 0
    return asked


def test_what_grew_is_found_with_its_line_its_blocks_and_its_rate(programs):
    for one in programs:
        growth = one.answer["growth"]
        if not one.grows or one.base["iterations"] < 6:  # fewer show no growth
            assert one.grows or growth is None, one
            continue
        assert growth and growth["line"] in GROWS and growth["lines"] == 1, one
        assert growth["file"].endswith(PROGRAM.name), one
        assert growth["growth"] == ("joined" if one.base["kind"] == "joins" else "piles_up"), one
        # each iteration but the one that failed has left one
        assert growth["iterations"] - one.base["iterations"] in (-1, -2), one
        assert growth["blocks"] == (1 if one.base["kind"] == "joins" else growth["iterations"]), one


def test_the_verdict_is_fragmentation_if_joining_free_memory_helps_for_long(programs):
    for one in programs:
        base, verdict = one.base["iterations"], one.answer["verdict"]
        if one.base["kind"] == "fragmented":
            assert verdict == "fragmentation" and not one.runs["expandable"]["error"], one
        elif one.base["kind"] == "too large":
            assert verdict == "capacity", one
        elif one.answer["growth"]:
            if verdict == "fragmentation":
                assert one.more > base / 2, one
            else:
                assert one.more <= base, one


def test_no_remedy_asks_for_more_than_there_is(programs):
    for one in programs:
        for name in ("free_memory", "stop_growth"):
            assert name not in one.remedies or one.remedies[name]["bytes"] <= one.base["allocated"], one
        release = one.answer["release"]
        assert not release or release["bytes"] == one.remedies["free_memory"]["bytes"], one
        assert not release or len(release["addresses"]) == release["blocks"] > 0, one


def test_each_remedy_that_says_yes_helps_when_it_is_tried_and_what_says_no_does_not(programs):
    for one in programs:
        assert one.runs["stop"]["request"] == one.base["request"], one
        tried = {"stop_growth": not one.runs["stop"]["fails_now"], "expandable_segments": one.more > 0 or not one.runs["expandable"]["error"]}
        if one.answer["release"]:  # what to release is known
            tried["free_memory"] = not one.runs["base"]["fails_now"]
        for name, helped in tried.items():
            said = one.remedies.get(name, {"sufficient": "maybe"})["sufficient"]
            assert said == "maybe" or (said == "yes") == helped, (name, one)
        if one.base["kind"] == "too large":
            assert one.remedies["smaller_request"]["sufficient"] == "yes", one
            assert one.remedies.get("free_memory", {"sufficient": "no"})["sufficient"] == "no", one


def test_a_remedy_that_only_delays_says_so_and_by_how_much(programs):
    for one in programs:
        remedy = one.remedies.get("expandable_segments")
        if not remedy or remedy["sufficient"] == "no":
            continue
        assert (remedy["delays_iterations"] is not None) == (one.answer["growth"] is not None), one
        if one.answer["growth"] and one.runs["expandable"]["error"]:
            assert one.more <= remedy["delays_iterations"] + 1, one


def test_the_text_marks_what_only_delays(programs, run_gpumem, tmp_path):
    assert any(one.answer["growth"] for one in programs) and any(one.answer["verdict"] == "fragmentation" for one in programs)
    for one in programs:
        for remedy in one.answer["enough"]:
            assert ("only delays" in remedy["text"]) == (remedy["delays_iterations"] is not None), one
