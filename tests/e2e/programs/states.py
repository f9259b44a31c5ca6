"""Random states of the allocator: for each seed that is asked for, a run of allocations and frees; for `fail`, a request that cannot be
served; then what PyTorch says of it."""

import json
import os
import random
import sys

import torch

kept = {}  # number: (tensor, stream)
streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
pools = []
if "expandable_segments:True" not in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "") and hasattr(torch.cuda, "MemPool"):
    pools = [torch.cuda.MemPool()]
SIZES = [1, 512, 4096, 200_000, 1 << 20, (1 << 20) + 1, 3 << 20, 9 << 20, 10 << 20, 33 << 20, 120 << 20]


def allocate(choose):
    size = int(choose.choice(SIZES) * choose.uniform(0.3, 1.0)) + 1
    stream = choose.choice(streams)
    with torch.cuda.stream(stream):
        if pools and choose.random() < 0.1:
            with torch.cuda.use_mem_pool(pools[0]):
                tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
        else:
            tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
    if choose.random() < 0.15:
        tensor.record_stream(choose.choice(streams))
    kept[len(kept), size] = tensor


def change(seed):
    choose = random.Random(seed)
    for _ in range(choose.randrange(5, 120)):
        if kept and choose.random() < 0.48:
            del kept[choose.choice(list(kept))]
        else:
            allocate(choose)
    if choose.random() < 0.2:
        torch.cuda.empty_cache()
    if choose.random() < 0.1:
        kept.clear()


def fail():
    """The error, as who handles it has it."""
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        return error
    raise AssertionError("the device has room for 1 TiB")


print(json.dumps({"pid": os.getpid()}), flush=True)
for line in sys.stdin:
    if line == "fail\n":
        failed = fail()
    else:
        try:
            change(int(line))
        except torch.cuda.OutOfMemoryError:
            kept.clear()
    segments = torch.cuda.memory_snapshot()
    for segment in segments:
        segment.pop("frames", None)
        for block in segment["blocks"]:
            block.pop("frames", None)
    stats = {key: value for key, value in torch.cuda.memory_stats().items() if ".all.current" in key}
    print(json.dumps({"segments": segments, "stats": stats}), flush=True)
