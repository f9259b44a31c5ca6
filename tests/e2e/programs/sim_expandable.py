"""Expandable segments on the simulated device: what PyTorch does with the virtual-memory calls, as JSON."""

import json
import os
import sys

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
import torch

MIB = 1 << 20
facts = {}


def used():
    free, total = torch.cuda.mem_get_info()
    return total - free


torch.zeros(1, device="cuda")
torch.cuda.empty_cache()
before = used() - torch.cuda.memory_reserved()
torch.cuda.memory._record_memory_history(max_entries=10000)

# 32 MiB lie in two pieces of 20 MiB: a copy goes over their border.
host = torch.arange(8 * MIB, dtype=torch.int32)
tensor = host.cuda()
facts["round_trip"] = bool((tensor.cpu() == host).all())
facts["part"] = tensor[5 * MIB - 3 : 5 * MIB + 3].tolist() == host[5 * MIB - 3 : 5 * MIB + 3].tolist()
other = torch.empty_like(tensor)
other.copy_(tensor)
facts["device_to_device"] = bool((other.cpu() == host).all())
facts["copy_between_pieces"] = other[7:].cpu()[-1].item() == host[-1].item()

# The address itself shows the bytes, to a debugger too.
with open("/proc/self/mem", "rb") as memory:
    memory.seek(tensor.data_ptr() + 4 * (5 * MIB))
    facts["seen_at_the_address"] = int.from_bytes(memory.read(4), "little") == 5 * MIB
with open("/proc/self/maps") as maps:
    facts["named"] = any(
        int(line.split("-")[0], 16) <= tensor.data_ptr() < int(line.split()[0].split("-")[1], 16)
        and "gpumem-sim-device" in line
        for line in maps
    )

# The segment grows in place: one segment, however much is added.
more = [torch.empty(100 * MIB, dtype=torch.uint8, device="cuda") for _ in range(5)]
stats = torch.cuda.memory_stats()
snapshot = torch.cuda.memory._snapshot()
facts["expandable"] = [s["is_expandable"] for s in snapshot["segments"]]
facts["segments_are_reserved"] = sum(s["total_size"] for s in snapshot["segments"]) == torch.cuda.memory_reserved()
facts["device_counts_reserved"] = used() - before == torch.cuda.memory_reserved() == stats["reserved_bytes.all.current"]
facts["one_large_segment"] = sum(s["segment_type"] == "large" for s in snapshot["segments"])

del more[1], more[1], tensor, other
torch.cuda.empty_cache()
facts["after_empty_cache"] = used() - before == torch.cuda.memory_reserved()
kinds = [entry["action"] for entry in torch.cuda.memory._snapshot()["device_traces"][0]]
facts["mapped"], facts["unmapped"] = kinds.count("segment_map"), kinds.count("segment_unmap")
facts["alloced_by_segment"] = kinds.count("segment_alloc")
traced = sum(
    entry["size"] * {"segment_map": 1, "segment_unmap": -1}.get(entry["action"], 0)
    for entry in torch.cuda.memory._snapshot()["device_traces"][0]
)
facts["trace_adds_up"] = traced == torch.cuda.memory_reserved()

# Out of memory is the allocator's own; what fits afterwards is handed out.
try:
    torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    facts["oom"] = str(error)
facts["after_oom"] = torch.empty(500 * MIB, dtype=torch.uint8, device="cuda").numel()
zero = torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
facts["zero_on_reuse"] = int(zero.cpu().sum())
del more, zero
torch.cuda.empty_cache()
facts["all_given_back"] = used() - before == torch.cuda.memory_reserved()
json.dump(facts, sys.stdout)
