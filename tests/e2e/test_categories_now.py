"""What lives in a process or core, by category: as its own objects say, with nothing recorded."""

import json
import subprocess

import pytest

from conftest import KEEP_WORKSPACES, PYTHON

# Prints the bytes of the blocks of each category by walking its own modules and optimizers, then waits.
PROGRAM = """
import collections, json, torch
net = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.BatchNorm1d(512), torch.nn.Linear(512, 2048)).cuda()
adam = torch.optim.Adam(net.parameters(), 0.1)
weight = torch.nn.Parameter(torch.zeros(1024, 512, device="cuda"))
lists = torch.optim.SGD([weight], 0.1)
lists.state[weight]["history"] = [torch.zeros(1024, 512, device="cuda") for _ in range(3)]
for _ in range(2):
    adam.zero_grad()
    net(torch.randn(64, 512, device="cuda")).sum().backward()
    adam.step()
weight.grad = torch.zeros_like(weight)
mine = torch.zeros(1 << 20, device="cuda")  # of no category
also = {"state": {weight: {"exp_avg": torch.zeros(1 << 18, device="cuda")}}}  # no optimizer's

told = collections.Counter()
def count(category, tensors):
    for tensor in tensors:
        if tensor is not None and tensor.is_cuda:
            told[category] += -(-tensor.untyped_storage().nbytes() // 512) * 512

parameters = [*net.parameters(), weight]
count("parameter", parameters)
count("gradient", (parameter.grad for parameter in parameters))
count("buffer", net.buffers())
count("optimizer_state", (value for state in adam.state.values() for value in state.values()))
count("optimizer_state", lists.state[weight]["history"])
count("unknown", [mine, also["state"][weight]["exp_avg"]])
told["all"] = torch.cuda.memory_allocated()
print(json.dumps(told), flush=True)
input()
"""


@pytest.fixture
def waiting(spawn, sim_env, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [PYTHON, "-W", "ignore", tmp_path / "program.py"]
    process = spawn(command, env={**sim_env(), **KEEP_WORKSPACES}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return process, json.loads(process.stdout.readline())


@pytest.mark.parametrize("where", ["live", "core"])
def test_categories_of_live_blocks_are_those_of_the_programs_objects(waiting, run_gpumem, tmp_path, where):
    process, told = waiting
    target = ["--pid", process.pid]
    if where == "core":
        run_gpumem("core", process.pid, "-o", tmp_path / "core").check()
        target = ["--core", tmp_path / "core"]
    groups = run_gpumem("blocks", *target, "--by", "category", "--json").check().json()["groups"]
    found = {group["key"]: group["bytes"] for group in groups}
    everything = told.pop("all")
    assert sum(found.values()) == everything
    # what is left is cuBLAS's
    workspace = found.pop("workspace")
    assert workspace == everything - sum(told.values()) > 0
    assert found == told
