"""Steps of real programs."""

import re
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
PROGRAM = PROGRAMS / "thin_loop.py"


def test_iterations_of_one_line_over_equal_layers_are_steps_by_the_loops_iterator(
    run_gdb, run_gpumem, tmp_path
):
    log = tmp_path / "thin.gpumem"
    gdb = run_gdb(["gpumem record", "run", f"gpumem record save {log}"], PROGRAM)
    assert log.exists(), gdb.out
    assert run_gpumem("info", log, "--json").check().json()["steps"] == 3
    events = run_gpumem("events", log, "--json").check().json_lines()
    outputs = [e for e in events if e["action"] == "alloc" and e["step"]]
    layers = [e["step"] for e in outputs if e["requested"] == 512 * 512 * 4]
    assert layers == [1] * 4 + [2] * 4 + [3] * 4


def test_a_step_within_one_called_function_is_an_iteration_each_time_it_is_called(run_gdb):
    gdb = run_gdb(["gpumem record", "run", "gpumem info --json"], PROGRAMS / "called_step.py")
    assert gdb["gpumem info --json"].json()["steps"] == 2 * 4  # two epochs of four batches


def test_what_the_next_step_replaces_is_told_from_what_is_kept(run_gpumem, python, tmp_path):
    program, log = tmp_path / "both.py", tmp_path / "run.gpumem"
    program.write_text(
        "import torch\n"
        "def new(mib):\n    return torch.empty(mib << 20, dtype=torch.uint8, device='cuda')\n"
        "held = []\n"
        "for step in range(6):\n"
        "    out = new(4)  # replaced by the next step\n"
        "    held.append(new(2))\n"
        "    if step >= 3:\n        held.pop(0)  # of three steps before\n"
    )
    run_gpumem("run", "--sim", "-o", log, "--", python, program).check()
    steps = run_gpumem("steps", log, "--json").check().json()
    assert [(one["kept"] >> 20, one["replaced"] and one["replaced"] >> 20) for one in steps["steps"]] == [(6, 4)] * 5 + [(6, None)]
    text = run_gpumem("steps", log).check().out
    assert re.search(r"^ +2 .* 6\.00 MiB  4\.00 MiB$", text, re.M) and "replaced: of these, those that the next step frees" in text, text
