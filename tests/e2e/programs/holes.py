"""Cuts its memory into pieces, tells what PyTorch says of it, and then serves requests: a size a line.

Prints one JSON object, then for each size where the block came to lie and whether a segment was added.
"""

import json
import os
import sys

import torch

MIB = 1 << 20
if "limit" in sys.argv:
    torch.cuda.set_per_process_memory_fraction(0.5)
torch.cuda.memory._record_memory_history()
many = [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (3, 5, 4, 30, 2, 64, 12)]
few = [torch.empty(100 * (i + 1), device="cuda") for i in range(20)]
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    elsewhere = [torch.empty(40 * MIB, dtype=torch.uint8, device="cuda") for _ in range(2)]
if "pool" in sys.argv:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        pooled = [torch.empty(50 * MIB, dtype=torch.uint8, device="cuda") for _ in range(2)]
        del pooled[0]
del many[3], many[1], few[5:9], elsewhere[0]
if "snapshot" in sys.argv:
    torch.cuda.memory._dump_snapshot(sys.argv[sys.argv.index("snapshot") + 1])
said = {"pid": os.getpid(), "stats": torch.cuda.memory_stats(), "segments": torch.cuda.memory_snapshot()}
for segment in said["segments"]:
    segment["segment_pool_id"] = list(segment["segment_pool_id"])
    for block in segment["blocks"]:
        block.pop("frames", None)
    segment.pop("frames", None)
print(json.dumps(said), flush=True)
for line in sys.stdin:
    before = torch.cuda.memory_reserved()
    block = torch.empty(int(line), dtype=torch.uint8, device="cuda")
    came = {"address": block.data_ptr(), "grew": torch.cuda.memory_reserved() > before}
    del block
    if came["grew"]:
        torch.cuda.empty_cache()
    print(json.dumps(came), flush=True)  # last: whoever reads it looks at this process next
