"""Python frames of a stopped program: `frames`, `locals`, gdb's `gpumem up` and `down`, and the frames in `bt`."""

import json
import re
import subprocess

import pytest

from conftest import PYTHON, Started
from schemas import problems

PROGRAM = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 32)
    def forward(self, x):
        count, rate, text, nothing, flag = 3, 0.1, "a" * 100, None, True
        pair, named = (x, x), {"kept": x}
        half = x[:8]
        def later():
            return half, assigned
        result = self.inner(x)
        assigned = result
        return result
def train():
    data = torch.randn(16, 64, device="cuda", dtype=torch.float64).float()
    for batch in [data]:
        output = list(map(net, [batch]))[0]
    output.sum().backward()
    return output
net = Net().cuda()
train()
"""
AT_FORWARD = "gpumem until function=Net.forward and dtype=float32 and shape=[16,32]"


def local(text, name):
    """The line of a variable in `gpumem locals`, without its name."""
    found = re.search(rf"^  {name} +(.*)$", text, re.M)
    return found and found[1]


@pytest.fixture(scope="module")
def walked(run_gdb, tmp_path_factory):
    """A session of gdb that stops within forward(), goes through its Python frames, and then to backward."""
    program = tmp_path_factory.mktemp("frames") / "program.py"
    program.write_text(PROGRAM)
    commands = ["gpumem record", AT_FORWARD, "gpumem frames", "gpumem frames --json", "bt", "bt -no-filters"]
    # 0 is Linear.forward, 1 and 2 Module's calls, 3 forward(), 4 and 5 calls again, 6 train(), 7 the module
    commands += ["gpumem up 3", "gpumem locals", "gpumem blocks --json", "gpumem up 3", "gpumem locals", "gpumem down 2", "gpumem locals --frame 6"]
    commands += ["gpumem up 100", "gpumem locals", "gpumem locals --all", "gpumem up", "gpumem down 100", "gpumem down", "gpumem locals --frame 99", "gpumem up x"]
    commands += ["set gpumem python-frames off", "bt 80", "set gpumem python-frames on", "disable frame-filter global gpumem-python", "bt 79"]
    commands += ["gpumem up 3", "gpumem next-event", "gpumem down", "gpumem until phase=backward and dtype=float32 and shape=[32,64]", "gpumem locals --frame 2"]
    commands += ["gpumem at 1", "gpumem at #1 --json", "gpumem blocks --at 1 --json", "gpumem at 99999", "gpumem at", "gpumem at x", "kill", "gpumem at 1 --top 1"]
    return run_gdb(commands, program)


def test_up_selects_the_frame_that_called_and_shows_its_line(walked):
    assert re.search(r"program\.py:13 in Net\.forward\n +result = self\.inner\(x\)", walked["gpumem up 3"]), walked.out
    assert "program.py:19 in train" in walked.sections[walked.commands.index("gpumem up 3", 8)]
    assert "in Module._" in walked["gpumem down 2"]


@pytest.mark.every_debugger
def test_locals_have_types_values_and_tensors_with_their_blocks(walked):
    text = walked["gpumem locals"]
    assert local(text, "self") == "Net"
    assert re.match(r"Tensor \(16, 64\) float32 cuda:0, 4\.00 KiB at 0x[0-9a-f]+, block #\d+$", local(text, "x")), text
    assert (local(text, "count"), local(text, "rate"), local(text, "nothing"), local(text, "flag")) == ("int 3", "float 0.1", "None", "bool True")
    assert local(text, "text") == "str '" + "a" * 60 + "…'"
    assert (local(text, "pair"), local(text, "named")) == ("tuple 2 items", "dict 1 item")
    assert local(text, "assigned") == "not bound"  # a cell that has nothing yet
    half = local(text, "half")  # a cell: looked through
    assert half.startswith("Tensor (8, 64) float32 cuda:0") and "a view" in half
    number = re.search(r"block #(\d+)", local(text, "x"))[1]
    assert f"block #{number}," in half
    live = {block["allocated"]: block for block in json.loads(walked["gpumem blocks --json"])["blocks"]}
    assert live[int(number)]["shape"] == [16, 64] and live[int(number)]["address"] in local(text, "x")


def test_locals_of_a_frame_by_number_and_of_the_selected_one_are_the_same(walked):
    of_train = walked.sections[walked.commands.index("gpumem locals", 10)]
    assert local(of_train, "output") == "not bound" and "(16, 64) float32" in local(of_train, "data")
    assert walked["gpumem locals --frame 6"] == of_train


def test_a_modules_variables_leave_out_what_it_defines(walked):
    outermost, everything = walked.sections[walked.commands.index("gpumem up 100") + 1], walked["gpumem locals --all"]
    assert local(outermost, "net") == "Net" and local(outermost, "train") is None
    assert local(everything, "train") == "function" and local(everything, "torch") == "module"
    assert "more: modules, functions, classes" in outermost and "more: modules" not in everything


def test_the_ends_and_wrong_numbers_are_reported(walked):
    after = walked.commands.index("gpumem locals --all")
    up, to_innermost, down, beyond, word = walked.sections[after + 1 : after + 6]
    assert "gpumem: up: the outermost Python frame is selected already" in up
    assert "   0  " in to_innermost and "in Linear.forward" in to_innermost
    assert "gpumem: down: the innermost Python frame is selected already" in down
    assert "frame 99: thread" in beyond and "has the Python frames 0 to 7" in beyond
    assert "'x' is not a number" in word


def test_another_event_begins_at_the_innermost_frame(walked):
    assert "the innermost Python frame is selected already" in walked.sections[walked.commands.index("gpumem next-event") + 1]


def test_backwards_thread_shows_the_main_thread_which_waits(walked):
    text = walked["gpumem locals --frame 2"]
    assert re.match(r"Thread \d+ runs no Python\. The main thread, \d+:\n", text), text
    assert "backward" in text


def python_frames(text):
    return [re.sub(r" \(.*\) at .*/", " ", line.strip()) for line in text.splitlines() if "Python: " in line]


@pytest.mark.every_debugger
def test_bt_has_the_python_frames_below_the_native_ones_that_run_them(walked):
    answer = json.loads(walked["gpumem frames --json"])["frames"]
    functions = [frame["function"] for frame in answer]
    assert functions[0] == "Linear.forward" and functions[-2:] == ["train", "<module>"] and functions[3] == "Net.forward"
    lines = walked["bt"].splitlines()
    shown = [re.search(r"Python: (\S+) .*:(\d+)$", line) for line in lines]
    assert [(one[1], int(one[2])) for one in shown if one] == [(frame["function"], frame["line"]) for frame in answer], walked["bt"]
    # each below a native frame that evaluates, and as many of these as evaluations
    before = None
    for line, is_python in zip(lines, shown):
        assert not is_python or before, line
        before = bool(is_python) or "_PyEval_EvalFrame" in line
    evaluations = {frame["evaluation"] for frame in answer}
    natives = [line for line in lines if re.search(r"^#\d+.* _PyEval_EvalFrameDefault ", line)]
    assert len(natives) == len(evaluations) >= 2, walked["bt"]
    assert "Python: " not in walked["bt -no-filters"]
    assert [line for line in lines if line.startswith("#")] == walked["bt 80"].splitlines()


def test_python_frames_in_bt_can_be_switched_off(walked):
    for off in ("bt 80", "bt 79"):
        assert "_PyEval_EvalFrameDefault" in walked[off] and "Python: " not in walked[off]


def test_at_shows_a_past_state_while_the_program_is_stopped_elsewhere(walked):
    same, other = json.loads(walked["gpumem at #1 --json"]), json.loads(walked["gpumem blocks --at 1 --json"])
    assert problems("at", same) == [] and problems("at", other)
    shown = ("address", "size", "allocated", "free_requested", "phase", "shape")
    for answer in (same, other):
        answer["blocks"] = [[block[name] for name in shown] for block in answer["blocks"]]
    assert {key: value for key, value in same.items() if key in other} == other
    assert same["at"]["n"] == 1 and same["reserved"] == same["at"]["reserved"] >= same["allocated"] > 0
    text = walked["gpumem at 1"]
    assert re.match(r" *#1 ", text) and f"reserved ({same['reserved']:,} bytes) after it" in text and "after event 1" in text
    assert re.search(r"at 99999: the recording has \d+ events so far", walked["gpumem at 99999"])
    assert "EVENT is missing" in walked["gpumem at"]
    assert "'x' is no" in walked["gpumem at x"] or "x: not a" in walked["gpumem at x"], walked["gpumem at x"]
    assert f"({same['reserved']:,} bytes) after it" in walked["gpumem at 1 --top 1"]


NESTED = """
import torch

def descend(depth):
    x = torch.empty(1000 * (depth + 1), device="cuda")
    if depth == 2:
        only_here = x
    if depth:
        descend(depth - 1)
    else:
        torch.empty(1 << 20, device="cuda")
    return x

x = torch.empty(7000, device="cuda")
descend(2)
"""


@pytest.fixture(scope="module")
def nested(run_gdb, tmp_path_factory):
    """A session that stops in a recursion with another tensor `x` in each frame, asks about them, and kills the program."""
    program = tmp_path_factory.mktemp("nested") / "nested.py"
    program.write_text(NESTED)
    asked = ["gpumem locals --json", "gpumem who-holds x --json", "gpumem why x --json", "gpumem who-holds only_here --json"]
    commands = ["gpumem record", "gpumem until size>2MiB", *asked]
    for _ in range(3):
        commands += ["gpumem up", *asked]
    commands += ["gpumem who-holds nowhere", "gpumem down 3", *asked, "gpumem up", "gpumem next-event", *asked]
    commands += ["kill", "gpumem locals", "gpumem frames", "gpumem who-holds x", "gpumem up", "gpumem info"]
    return run_gdb(commands, program)


def answers_of_frames(run):
    """For each time that locals, who-holds x, why x and who-holds only_here were asked: their texts."""
    starts = [number for number, command in enumerate(run.commands) if command == "gpumem locals --json"]
    return [run.sections[start : start + 4] for start in starts]


def test_a_variable_is_that_of_the_selected_python_frame(nested):
    rounds = answers_of_frames(nested)
    assert len(rounds) == 6, nested.out
    seen = []
    for text, holds, why, _ in rounds:
        answer = json.loads(text)
        (x,) = [variable for variable in answer["locals"] if variable["name"] == "x"]
        address = x["tensor"]["address"]
        assert json.loads(holds)["block"]["address"] == address == json.loads(why)["block"]["address"], text
        seen.append(address)
    assert len(set(seen[:4])) == 4  # three calls and the module
    assert seen[4] == seen[5] == seen[0]  # `down` to the innermost one; the next event begins there


def test_a_name_is_looked_for_in_the_frames_that_called_the_selected_one(nested):
    texts = [only_here for _, _, _, only_here in answers_of_frames(nested)]
    for inside in [*texts[:3], *texts[4:]]:
        assert json.loads(inside)["block"]["address"] == json.loads(answers_of_frames(nested)[2][1])["block"]["address"]
    assert "only_here: no variable 'only_here' in the selected Python frame, the 0 that called it or their globals" in texts[3]
    assert "nowhere: no variable 'nowhere' in the selected Python frame" in nested["gpumem who-holds nowhere"]


def test_after_kill_there_is_no_process(nested):
    for command in ("gpumem locals", "gpumem frames", "gpumem who-holds x"):
        text = nested[command]
        assert "no process: the program is not running: start it with `run` or attach to it" in text, text
    after = nested.sections[len(nested.commands) - 2]
    assert "no process: the program is not running" in after, after
    assert "peak" in nested["gpumem info"]


WAITS = """
import sys
def inner(values):
    held = values
    print("ready", flush=True)
    sys.stdin.readline()
def outer():
    inner([1, 2, 3])
list(map(lambda one: outer(), [None]))
"""


def test_frames_and_locals_of_a_process_without_pytorch(run_gpumem, tmp_path):
    script = tmp_path / "waits.py"
    script.write_text(WAITS)
    with Started([PYTHON, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            pid = f"--pid={process.pid}"
            answer = run_gpumem("frames", pid, "--json").check().json()
            assert [frame["function"] for frame in answer["frames"]] == ["inner", "outer", "<lambda>", "<module>"]
            assert [frame["line"] for frame in answer["frames"]] == [6, 8, 9, 9]
            text = run_gpumem("locals", pid).check().out
            assert local(text, "held") == local(text, "values") == "list 3 items"
            assert "waits.py:6 in inner" in text and "sys.stdin.readline()" in text
            wrong = run_gpumem("locals", pid, "--frame=4")
            assert wrong.status == 2 and "has the Python frames 0 to 3" in wrong.err
            refused = run_gpumem("frames", pid, "--frame=x")
            assert refused.status == 2, refused
        finally:
            process.kill()
