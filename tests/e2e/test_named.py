"""why, asked by what a user knows: a line, or the variable that kept the block."""

import json
import re

import pytest

from conftest import EXAMPLES, PYTHON


@pytest.fixture(scope="module")
def loop(run_gpumem, tmp_path_factory):
    log = tmp_path_factory.mktemp("named") / "run.gpumem"
    run_gpumem("run", "--sim", "-o", log, "--", PYTHON, EXAMPLES / "linear_loop.py").check()
    return log


def blocks_of(run_gpumem, log):
    """What `why` says of each block of the recording, by its number."""
    events = run_gpumem("events", log, "--json").check().json_lines()
    numbers = [event["n"] for event in events if event["action"] == "alloc"]
    return {number: run_gpumem("why", log, f"#{number}", "--json").check().json() for number in numbers}


def test_a_variable_and_a_line_select_their_last_released_block(run_gpumem, loop):
    everything = blocks_of(run_gpumem, loop)
    assert len(everything) > 8

    def wanted(is_meant):
        meant = {number: answer for number, answer in everything.items() if is_meant(answer)}
        by_program = {n: answer for n, answer in meant.items() if answer["freed"] and answer["cause"]["kind"] != "interpreter_exit"}
        return len(meant), max(by_program, key=lambda n: by_program[n]["freed"]["n"]) if by_program else max(meant)

    def is_of_variable(answer):
        return answer["freed"] and answer["cause"]["name"] == "outputs"

    def is_of_line(answer):
        return any(frame["file"].endswith("/linear_loop.py") and frame["line"] == 22 for frame in answer["allocated"]["python"])

    for text, is_meant in (("outputs", is_of_variable), ("linear_loop.py:22", is_of_line)):
        count, number = wanted(is_meant)
        assert count > 1
        done = run_gpumem("why", loop, text, "--json").check()
        assert done.json() == everything[number], text
        assert f"gpumem: {text} matches {count} blocks: " in done.err


def test_the_block_that_was_released_last_need_not_be_the_one_that_was_allocated_last(run_gpumem, tmp_path):
    def event(action, address, line):
        frames = [{"filename": "train.py", "line": line, "name": "f"}]
        return {"action": action, "addr": address, "size": 4096, "stream": 0, "time_us": line, "frames": frames}

    early, late = 0x10000, 0x20000
    trace = [event("alloc", early, 7), event("alloc", late, 7)]
    for address, line in ((late, 9), (early, 11)):
        trace += [event("free_requested", address, line), event("free_completed", address, line)]
    path = tmp_path / "two.json"
    path.write_text(json.dumps({"segments": [], "device_traces": [trace]}))
    assert "released last" in run_gpumem("why", path, "train.py:7").check().err
    assert run_gpumem("why", path, "train.py:7", "--json").check().json() == run_gpumem("why", path, "#0", "--json").check().json()


def test_a_word_that_selects_no_block_is_refused_with_words_that_do(run_gpumem, loop):
    said = run_gpumem("why", loop, "nobody").check(2).err
    assert "no variable or attribute of that name released one" in said
    said = run_gpumem("why", loop, "linear_loop.py:1").check(2).err
    assert "nothing was allocated at that line" in said
    for text in ("linear_loop.py:", "linear_loop.py:0", ":22", "linear_loop.py:22x"):
        assert re.search("no block '", run_gpumem("why", loop, text).check(2).err), text
