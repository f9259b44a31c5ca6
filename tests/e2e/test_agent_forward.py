"""In anomaly mode PyTorch keeps where the forward pass made a node: the events of its backward say so."""

import json
import re

import pytest

PROGRAM = """
import json, sys
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Linear(256, 512, device="cuda")

    def forward(self, x):
        y = self.wide(x)
        return torch.tanh(y)  # größer


class Own(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient + torch.ones_like(gradient)


def named(node, names):
    if node is None or not hasattr(node, "metadata"):
        return
    if "traceback_" in node.metadata:
        names.setdefault(node.name(), []).append(node.metadata["traceback_"])
    for one, _ in node.next_functions:
        named(one, names)


model, nodes = Net(), {}
x = torch.randn(64, 256, device="cuda")
for mode in (False, True, False):
    with torch.autograd.set_detect_anomaly(mode, check_nan=False):
        loss = Own.apply(model(x)).sum()
        named(loss.grad_fn, nodes)
        loss.backward()
        model.zero_grad()
json.dump(nodes, open(sys.argv[1], "w"))
"""


def frames(texts):
    """The frames of traceback.format_stack(), innermost first."""
    found = [re.match(r'  File "(.*)", line (\d+), in (.*)\n', text) for text in texts]
    return [(one[1], int(one[2]), one[3]) for one in reversed(found)]


def test_backwards_events_show_the_forward_stack_that_pytorch_keeps(run_gpumem, python, tmp_path):
    program, log, told = tmp_path / "prögram.py", tmp_path / "run.gpumem", tmp_path / "told.json"
    program.write_text(PROGRAM)
    run_gpumem("run", "--sim", "-o", log, "--", python, program, told).check()
    nodes = {name: [frames(one) for one in all] for name, all in json.loads(told.read_text()).items()}
    events = run_gpumem("events", log, "--json").check().json_lines()
    said = [(event, [(f["file"], f["line"], f["function"]) for f in event["forward"]]) for event in events if "forward" in event]
    every = [stack for all in nodes.values() for stack in all]
    assert said and all(stack in every for _, stack in said)
    # the weight's gradient is of the node that made y = self.wide(x), a custom function's own of the line that applied it
    weight = [(event, stack) for event, stack in said if event["action"] == "alloc" and event["requested"] == 512 * 256 * 4]
    assert [stack for _, stack in weight] == nodes["AddmmBackward0"] and weight[0][0]["borrowed"]
    own = [stack for event, stack in said if event["python"] and event["python"][0]["function"] == "Own.backward"
           or event["python"] and event["python"][0]["function"] == "backward"]  # fmt: skip
    assert own and all(stack in nodes["OwnBackward"] for stack in own)
    # of the three passes only the second has nodes that know it
    assert {event["step"] for event, _ in said} == {2}
    assert all(event["phase"] == "backward" for event, _ in said)
    block = f"#{weight[0][0]['n']}"
    assert re.search(r"\(backward of prögram.py:12 forward\)", run_gpumem("events", log).check().out)
    text = run_gpumem("why", log, block).check().out
    assert "in the backward of a node that the forward pass made at" in text and "prögram.py:12 in forward" in text
    at = ["--at", str(weight[0][0]["n"])]
    explained = run_gpumem("blocks", log, *at, "--explain").check().out
    assert "; in the backward of prögram.py:12 in forward" in explained
    (site,) = [one["forward_site"] for one in run_gpumem("blocks", log, *at, "--json").check().json()["blocks"] if one["allocated"] == weight[0][0]["n"]]
    assert (site["line"], site["function"]) == (12, "forward")


@pytest.mark.long
def test_without_anomaly_mode_events_have_no_forward_stack(run_gpumem, python, examples, tmp_path):
    log = tmp_path / "run.gpumem"
    run_gpumem("run", "--sim", "-o", log, "--", python, examples / "train_mlp.py").check()
    events = run_gpumem("events", log, "--json").check().json_lines()
    assert any(event["phase"] == "backward" for event in events) and not any("forward" in event for event in events)
