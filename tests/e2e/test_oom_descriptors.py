"""What is done at an out-of-memory error in a program that has closed some of its standard descriptors."""

import itertools
import json

from conftest import PYTHON

# For each choice of descriptors, a child that closes them runs out of memory. Afterwards they are closed as before.
PROGRAM = """
import json, os, sys
import torch

def ends(closed):
    torch.empty(1, device="cuda")  # what CUDA opens would take their numbers
    for number in closed:
        os.close(number)
    try:
        held = []
        while True:
            held.append(torch.empty(100 << 20, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        return [number for number in range(3) if not os.path.exists(f"/proc/self/fd/{number}")] == closed

children = []
for closed in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        os._exit(0 if ends(closed) else 1)
    children.append([child, closed, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])])
with open(sys.argv[2], "w") as file:
    json.dump(children, file)
"""


def run_out_of_memory(run, gpumem, folder, what, choices):
    """(process, what it had closed) of each, and what was on stderr."""
    program, told = folder / "program.py", folder / "told"
    program.write_text(PROGRAM)
    line = [gpumem, "run", "--sim=1GiB", "-o", folder / "run.gpumem", "--on-oom", what, "--", PYTHON, program, json.dumps(choices), told]
    finished = run(line, cwd=folder).check()
    children = json.loads(told.read_text())
    assert [status for _, _, status in children] == [0] * len(choices), (children, finished.err)
    return [(child, closed) for child, closed, _ in children], finished.err


def test_a_report_is_made_and_holds_itself_once_whatever_is_closed(run, gpumem, tmp_path):
    choices = [closed for count in range(4) for closed in itertools.combinations(range(3), count)]
    children, err = run_out_of_memory(run, gpumem, tmp_path, "report", choices)
    for number, (child, closed) in enumerate(children):
        path = tmp_path / (f"run.gpumem.{child}.oom.txt" if number else "run.oom.txt")
        text = path.read_text()
        assert text.count("did not fit") == 1 and text.count("verdict: capacity") == 1, (closed, text)
        assert "gpumem: " not in text, (closed, text)
        assert (f"this report is in {path}\n" in err) == (2 not in closed), err
    assert err.count("did not fit") == len([closed for closed in choices if 2 not in closed])


def test_a_core_is_whole_whatever_is_closed(run, run_gpumem, gpumem, tmp_path):
    for child, closed in run_out_of_memory(run, gpumem, tmp_path, "core", [(2,), (0, 1, 2)])[0]:
        core = tmp_path / f"core.{child}"
        answer = run_gpumem("oom", core, "--json").check().json()
        assert answer["verdict"] == "capacity" and answer["gaps"] == [], closed
        core.unlink()
