"""`set gpumem …`, and the functions of gdb's expressions."""

import re

import pytest

PROGRAM = """
import torch
kept = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
host = torch.empty(1 << 20, dtype=torch.uint8)
for step in range(3):
    y = torch.nn.functional.relu(kept.float())
    torch.cuda.synchronize()
"""


def test_settings_are_what_record_does_without_options(run_gdb, program):
    gdb = run_gdb(
        ["show gpumem", "set gpumem devices cpu", "show gpumem devices", "gpumem record", "run", "gpumem info --json", "gpumem record stop",
         "gpumem record --devices cuda", "run", "gpumem info --json"],
        program,
    )  # fmt: skip
    assert gdb["show gpumem"].split("\n")[:3] == ["gpumem engine is breakpoint", "gpumem devices is cuda", "gpumem on-oom is none"], gdb.out
    assert gdb["show gpumem devices"].strip() == "gpumem devices is cpu"
    infos = [gdb.sections[index].json() for index, command in enumerate(gdb.commands) if command == "gpumem info --json"]
    assert {device["device_type"] for device in infos[0]["devices"]} == {"cpu"}
    assert {device["device_type"] for device in infos[1]["devices"]} == {"cuda"}


def test_the_engine_is_a_setting_too(run_gdb, program):
    gdb = run_gdb(["set gpumem engine agent", "gpumem record", "run", "gpumem info --json"], program)
    assert "gpumem-agent-" in gdb["run"] and gdb["gpumem info --json"].json()["events"] > 0


def test_a_wrong_value_is_refused_and_words_are_completed(run_gdb):
    gdb = run_gdb(["set gpumem engine fast", "complete set gpumem on-oom ", "show gpumem engine", "help set gpumem devices"], "/bin/true", sim=False)
    assert "fast" in gdb[0] and "breakpoint" in gdb["show gpumem engine"]
    assert [line.split()[-1] for line in gdb[1].splitlines() if "on-oom" in line] == ["core", "none", "stop"]
    assert "Example: set gpumem devices cuda,cpu" in gdb["help set gpumem devices"]


def test_functions_have_the_values_of_the_questions(run_gdb, program):
    ask = ["print $gpumem_allocated()", "print $gpumem_reserved(0)", "print $gpumem_events()", "print $gpumem_step()", "gpumem info --json"]
    address = "python gdb.set_convenience_variable('kept', int(re.search('0x[0-9a-f]+', gdb.execute('gpumem blocks', False, True))[0], 16))"
    gdb = run_gdb(
        ["gpumem record", "python import re", "gpumem next-event 2", address, "print $gpumem_holder($kept)", "gpumem next-event 3", *ask,
         "print $gpumem_holder($kept)", "continue", *ask, "print $gpumem_allocated(7)"],
        program,
    )  # fmt: skip
    sections = [[gdb.sections[index] for index, command in enumerate(gdb.commands) if command == one] for one in ask]
    for moment in (0, 1):
        info = sections[4][moment].json()
        values = [int(re.search(r" = (\d+)", section[moment])[1]) for section in sections[:4]]
        assert values == [info["devices"][0]["allocated"], info["devices"][0]["reserved"], info["events"], info["steps"]], gdb.out
    holder = [gdb.sections[index] for index, command in enumerate(gdb.commands) if "holder($kept)" in command]
    assert '= ""' in holder[0] and "global 'kept'" in holder[1], gdb.out
    assert "device 7: nothing was allocated on it: name one of 0" in gdb["print $gpumem_allocated(7)"]


HOST_FIRST = """
import os
import torch
host = torch.empty(3 << 20, dtype=torch.uint8)
kept = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
host = None
os._exit(0)
"""


def test_with_the_host_too_a_figure_is_of_the_device_that_is_meant(run_gdb, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(HOST_FIRST)
    functions = ["print $gpumem_allocated()", "print $gpumem_reserved()", "print $gpumem_allocated(0)"]
    gdb = run_gdb(
        ["gpumem record --devices cuda,cpu", "run", *functions, "gpumem info --json",
         "python events = map(json.loads, gdb.execute('gpumem events --json', False, True).splitlines())",
         "python at = [one['n'] for one in events if one['device_type'] == 'cpu' and one['size'] == 3 << 20]",
         "python gdb.execute(f'gpumem at {at[0]} --json')", "python gdb.execute(f'gpumem at {at[1]}')"],
        program, gdb_args=["-ex", "python import json"], symbols=False,
    )  # fmt: skip
    cuda = [one for one in gdb["gpumem info --json"].json()["devices"] if one["device_type"] == "cuda"][0]
    assert (cuda["allocated"], cuda["reserved"]) == (1 << 20, 2 << 20), gdb.out
    assert [int(re.search(r" = (\d+)", gdb[one])[1]) for one in functions] == [1 << 20, 2 << 20, 1 << 20]
    assert "Traceback" not in gdb.out, gdb.out
    answer = gdb.sections[-2].json()
    assert answer["at"]["device_type"] == "cpu" and answer["allocated"] >= 3 << 20
    assert max(block["size"] for block in answer["blocks"]) == 3 << 20
    assert "cpu" in gdb.sections[-1].splitlines()[2] and "cuda" not in gdb.sections[-1], gdb.sections[-1]


@pytest.mark.parametrize("devices", ["cuda,cpu", "cpu"])
def test_memory_of_the_host_is_no_figure_of_a_gpu_that_is_not_used_yet(run_gdb, tmp_path, devices):
    program = tmp_path / "program.py"
    program.write_text("import os, torch\nhost = torch.empty(3 << 20, dtype=torch.uint8)\nos._exit(0)\n")
    ask = "print $gpumem_allocated()"
    gdb = run_gdb([f"gpumem record --devices {devices}", "run", ask], program, symbols=False)
    if devices == "cpu":
        assert int(re.search(r" = (\d+)", gdb[ask])[1]) >= 3 << 20, gdb.out
    else:
        assert "nothing was allocated on a GPU through PyTorch yet" in gdb[ask], gdb.out


def test_a_function_without_a_recording_says_what_to_do(run_gdb):
    gdb = run_gdb(["print $gpumem_allocated()", "print $gpumem_holder(1)", "help function gpumem_holder", "print $gpumem_step(1)"], "/bin/true", sim=False)
    assert "gpumem record" in gdb[0] and "gpumem: " in gdb[1] and "Traceback" not in gdb.out
    assert "Example" in gdb[2] and "$gpumem_step: 1 arguments: see `help function gpumem_step`" in gdb[3]


def test_a_breakpoints_condition_may_call_the_functions(run_gdb, program):
    gdb = run_gdb(
        ["gpumem record", "tbreak Py_RunMain", "run", "gpumem next-event", "break mmap if $gpumem_events() > 3", "continue",
         "print $gpumem_events() > 3"],
        program,
    )  # fmt: skip
    assert "= 1" in gdb["print $gpumem_events() > 3"], gdb.out


@pytest.mark.every_debugger
def test_values_are_printed(run_gdb):
    """cuda-gdb 11.8 prints none: it takes Python's None for a pretty printer."""
    assert "= 42" in run_gdb(["print 40 + 2"], "/bin/true", sim=False)[0]
