"""Allocates in several ways, prints PyTorch's own snapshot of the allocator, and waits. Run by test_torch.py."""

import json
import os
import sys
import time

import torch

small = [torch.zeros(100 * (i + 1), device="cuda") for i in range(20)]
large = torch.ones(1000, 1000, device="cuda")
output = torch.nn.Linear(1000, 2000, device="cuda")(large)
del small[5:10]
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    elsewhere = torch.ones(3000, 1000, device="cuda")
if "pool" in sys.argv:
    if hasattr(torch.cuda, "MemPool"):
        pool = torch.cuda.MemPool()
        private = torch.cuda.use_mem_pool(pool)
    else:  # torch 2.4: only graphs have private pools
        graph = torch.cuda.CUDAGraph()
        private = torch.cuda.graph(graph)
    with private:
        pooled = torch.ones(5000, 100, device="cuda")
        pooled_small = torch.ones(10, device="cuda")
if "pending" in sys.argv:
    other = torch.cuda.Stream()
    used = torch.ones(2000, 2000, device="cuda")
    used.record_stream(other)
    del used
segments = torch.cuda.memory_snapshot()
stats = torch.cuda.memory_stats()
# of a free block the allocator has the size that another one was asked for, which says nothing
blocks = [
    [
        block["address"],
        block["size"],
        block["requested_size"] if block["state"] != "inactive" else 0,
        block["state"],
        segment["stream"],
        segment["device"],
    ]
    for segment in segments
    for block in segment["blocks"]
]
print(json.dumps({"pid": os.getpid(), "blocks": blocks, "stats": stats}), flush=True)
time.sleep(1000)
