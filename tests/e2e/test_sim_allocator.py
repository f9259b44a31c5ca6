"""PyTorch's allocator under each of its settings: random programs on one device, on two, in graphs and in a MemPool.

The program checks at every step that the device counts what PyTorch says it reserved, and at the end that PyTorch's
trace, replayed from nothing, is possible and comes to the state that PyTorch reports. A failure prints its seed;
GPUMEM_TEST_SEED=N runs one again.
"""

import os
import random
from pathlib import Path

import pytest
from conftest import PYTHON, TORCH_VERSION

PROGRAM = Path(__file__).parent / "programs" / "sim_allocator.py"
# All that PyTorch 2.11 takes for CUDA, each alone and some together.
SETTINGS = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:30",
    "max_split_size_mb:30,max_non_split_rounding_mb:25",
    "max_split_size_mb:64,garbage_collection_threshold:0.6",
    "garbage_collection_threshold:0.3",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[1:4,32:2,>:8]",
    "per_process_memory_fraction:0.4",
    "release_lock_on_cudamalloc:True",
    "pinned_use_cuda_host_register:True,pinned_num_register_threads:4",
    "pinned_use_background_threads:True",
    "pinned_reserve_segment_size_mb:64",
    "graph_capture_record_stream_reuse:True",
    "large_segment_size_mb:40",
    "expandable_segments:True,roundup_power2_divisions:8,max_split_size_mb:40",
    "expandable_segments:True,garbage_collection_threshold:0.5",
    "backend:cudaMallocAsync",
]
SHORT = {"expandable_segments:True", "max_split_size_mb:64,garbage_collection_threshold:0.6"}
DAILY = "expandable_segments:True"  # test_replay_settings.py runs programs under other settings every day
COMMON = {"alloc", "free_requested", "free_completed", "oom", "snapshot"}


def run_random(run_gpumem, setting, steps):
    seed = int(os.environ.get("GPUMEM_TEST_SEED") or random.randrange(1 << 30))
    print(f"seed {seed}, {setting or 'no settings'}")
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": setting}
    command = ["run", "--sim=1GiBx2", "--", PYTHON, "-W", "ignore", PROGRAM, seed, steps]
    return run_gpumem(*command, env=environment).check().out.json()


@pytest.mark.parametrize(
    "setting", [pytest.param(one, marks=() if one == DAILY else pytest.mark.long, id=one or "none") for one in SETTINGS]
)
def test_the_device_counts_what_pytorch_reserves(run_gpumem, setting):
    facts = run_random(run_gpumem, setting, 120 if setting in SHORT else 250)
    assert facts["reserved"] == [0, 0]
    assert facts["checks"]["counts"] > 400
    if "cudaMallocAsync" in setting:  # keeps no trace and no snapshot
        return
    assert facts["checks"]["states"] > 10 and facts["checks"]["graphs"] == 3
    has_pools = TORCH_VERSION >= (2, 5)
    assert facts["checks"]["pool_segments"] > 0 if has_pools else "pool_segments" not in facts["checks"]
    segments = {"segment_map", "segment_unmap"} if "expandable" in setting else {"segment_alloc", "segment_free"}
    others = COMMON if has_pools else {*COMMON, "segment_alloc", "segment_free"}  # of a graph's pool
    assert segments < set(facts["kinds"]) <= segments | others
    assert facts["kinds"]["alloc"] == facts["kinds"]["free_requested"] == facts["kinds"]["free_completed"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("setting", "rounded"),
    [
        ("", [1536, 700416, 3145216, 9437696, 39845888]),  # 512 bytes; 37 MiB fill a segment of 38
        ("roundup_power2_divisions:4", [1536, 786432, 3 << 20, 10 << 20, 40 << 20]),  # 3/4, 3, 10, 40 MiB
        ("roundup_power2_divisions:8", [1536, 720896, 3 << 20, 10 << 20, 40 << 20]),  # 11/16 MiB
    ],
)
def test_sizes_are_rounded_as_pytorch_documents(run_gpumem, setting, rounded):
    assert run_random(run_gpumem, setting, 20)["rounded"] == rounded


@pytest.mark.parametrize("setting", ["max_split_size_mb:1", "garbage_collection_threshold:2", "no_such_setting:1"])
@pytest.mark.long
def test_a_wrong_setting_is_pytorch_s_error(run_gpumem, setting):
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": setting}
    code = "import torch; torch.zeros(1, device='cuda')"
    run = run_gpumem("run", "--sim=1GiB", "--", PYTHON, "-W", "ignore", "-c", code, env=environment)
    assert run.status == 1 and setting[:13] in run.err
