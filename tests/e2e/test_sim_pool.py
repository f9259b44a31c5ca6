"""cudaMallocAsync on the simulated device: PyTorch's backend of that name runs on the default memory pool."""

import os

import pytest
from conftest import PYTHON, TORCH_VERSION

PROGRAM = """
import json, torch
host = torch.arange(1 << 20)
facts = {"backend": torch.cuda.memory.get_allocator_backend()}
t = host.cuda()
facts["round_trip"] = bool((t.cpu() == host).all())
facts["part"] = t[5000:5003].cpu().tolist()
more = [torch.empty(10 << 20, dtype=torch.uint8, device="cuda") for _ in range(8)]
facts["allocated"], facts["reserved"] = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
free, total = torch.cuda.mem_get_info()
del more, t
facts["after"] = torch.cuda.memory_allocated()
torch.cuda.empty_cache()
facts["given_back"] = torch.cuda.mem_get_info()[0] - free
try:
    torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    facts["oom"] = str(error)
facts["fits"] = torch.empty(700 << 20, dtype=torch.uint8, device="cuda").numel()
facts["zero"] = int(torch.empty(1 << 20, dtype=torch.uint8, device="cuda").cpu().sum())
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def facts(run_gpumem):
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    found = run_gpumem("run", "--sim=1GiB", "--", PYTHON, "-c", PROGRAM, env=environment).check().out.json()
    found["oom"] = ("out of memory" if TORCH_VERSION >= (2, 10) else "Allocation on device") in found["oom"]
    return found


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("backend", "cudaMallocAsync"),
        ("round_trip", True),
        ("part", [5000, 5001, 5002]),
        ("allocated", 88 << 20),
        ("reserved", 96 << 20),
        ("after", 0),
        ("given_back", 96 << 20),
        ("oom", True),
        ("fits", 700 << 20),
        ("zero", 0),
    ],
)
def test_the_asynchronous_allocator(facts, fact, expected):
    assert facts[fact] == expected
