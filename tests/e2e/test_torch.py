"""The reader of PyTorch's allocator against what PyTorch says of itself."""

import json
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "data" / "allocator.py"


@pytest.fixture
def read_blocks(build_dir, run):
    def call(pid):
        return run([build_dir / "tests" / "torch_blocks", pid]).check().out.json()

    return call


@pytest.fixture
def start(spawn, python):
    """start(program, *args, env) -> (what its first line of JSON says, its process)."""

    def call(*words, env=None):
        process = spawn([python, "-W", "ignore", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        line = process.stdout.readline()
        if not line.startswith("{"):
            process.kill()
            pytest.fail(f"the program said {line!r}: {process.stderr.read()[-2000:]}")
        return json.loads(line)

    return call


@pytest.mark.parametrize(
    "ways",
    [
        pytest.param((), id="plain"),
        pytest.param(("pool",), id="pool", marks=pytest.mark.long),
        pytest.param(("pending",), id="pending", marks=pytest.mark.long),
        pytest.param(("pool", "pending"), id="pool+pending"),
    ],
)
def test_every_block_is_read_as_pytorch_has_it(start, read_blocks, sim_env, ways):
    said = start(PROGRAM, *ways, env=sim_env())
    ours = read_blocks(said["pid"])
    assert ours["kind"] == "native"
    assert sorted(block[:6] for block in ours["blocks"]) == sorted(said["blocks"])
    assert len(ours["blocks"]) > 20


def test_the_allocators_own_sums_are_read(start, read_blocks, sim_env):
    said = start(PROGRAM, env=sim_env())
    ours = read_blocks(said["pid"])
    for name in ("allocated", "reserved", "active", "requested"):
        assert ours[name] == said["stats"][f"{name}_bytes.all.current"]
    live = [block for block in ours["blocks"] if block[3] == "active_allocated"]
    assert sum(block[1] for block in live) == ours["allocated"]


def test_no_cuda_is_reported(start, read_blocks):
    said = start("-c", "import json, os, time, torch; print(json.dumps({'pid': os.getpid()}), flush=True); time.sleep(1000)")
    ours = read_blocks(said["pid"])
    assert ours["kind"] == "none"
    assert ours["error"].startswith("no CUDA memory: the process has not initialised CUDA")
    assert ours["version"].startswith("2.")


def test_the_asynchronous_allocator_is_refused_by_name(start, read_blocks, sim_env):
    environment = {**sim_env(), "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    code = "import json, os, time, torch, torch.cuda; torch._C._cuda_init; print(json.dumps({'pid': os.getpid()}), flush=True); time.sleep(1000)"
    said = start("-c", code, env=environment)
    ours = read_blocks(said["pid"])
    assert ours["kind"] == "cudaMallocAsync"
    assert "the allocator is cudaMallocAsync, not PyTorch's caching one" in ours["error"]


def test_a_pluggable_allocator_is_refused_by_name(start, read_blocks, sim_env):
    code = """
import json, os, time, torch
torch.cuda.memory.change_current_allocator(torch.cuda.memory.CUDAPluggableAllocator("libc.so.6", "malloc", "free"))
print(json.dumps({"pid": os.getpid()}), flush=True)
time.sleep(1000)
"""
    said = start("-c", code, env=sim_env())
    ours = read_blocks(said["pid"])
    assert ours["kind"] == "pluggable"
    assert "the allocator is pluggable, not PyTorch's caching one" in ours["error"]
