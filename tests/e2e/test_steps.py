"""Steps of real programs."""

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
