"""What a program sees on the simulated device, as JSON: one run for many tests (importing torch takes seconds)."""

import json
import os
import sys
import threading

import torch

facts = {}
cuda = torch.device("cuda")
# Before anything else is allocated: the device is as it was made.
facts["available"] = torch.cuda.is_available()
facts["count"] = torch.cuda.device_count()
facts["name"] = torch.cuda.get_device_name()
facts["capability"] = torch.cuda.get_device_capability()
free, total = torch.cuda.mem_get_info()
facts["total"], facts["free"] = total, free
properties = torch.cuda.get_device_properties(0)
facts["properties"] = {"sms": properties.multi_processor_count, "total": properties.total_memory}

# Copies.
values = torch.randn(100_003)
on_device = values.to(cuda)
facts["round_trip"] = bool((on_device.cpu() == values).all())
facts["device_to_device"] = bool((on_device.clone().cpu() == values).all())
facts["part"] = bool((on_device[777:50_000].cpu() == values[777:50_000]).all())
matrix = torch.arange(12.0 * 17).reshape(12, 17)
other = torch.empty(12, 17, device=cuda)
other.copy_(matrix, non_blocking=True)
facts["rows"] = bool((other.cpu() == matrix).all())
pinned = torch.randn(1000).pin_memory()
facts["pinned"] = pinned.is_pinned() and not torch.randn(3).is_pinned()
back = torch.empty(1000, pin_memory=True)
back.copy_(pinned.to(cuda, non_blocking=True), non_blocking=True)
torch.cuda.synchronize()
facts["pinned_round_trip"] = bool((back == pinned).all())
facts["memset"] = torch.zeros(5000, dtype=torch.uint8, device=cuda).cpu().sum().item()

# Streams and events.
stream = torch.cuda.Stream()
first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
with torch.cuda.stream(stream):
    first.record()
    on_stream = torch.empty(1000, device=cuda)
    second.record()
second.synchronize()
facts["elapsed"] = first.elapsed_time(second)
facts["event_done"] = second.query()
facts["stream_done"] = stream.query()

# Blocks handed out again read as zero.
old = torch.ones(3_000_000).to(cuda)
address = old.data_ptr()
del old
new = torch.empty(3_000_000, device=cuda)
facts["same_block"] = new.data_ptr() == address
facts["zero_on_reuse"] = new.cpu().abs().max().item()
small = torch.ones(100).to(cuda)
neighbour = torch.full((100,), 7.0).to(cuda)
address = small.data_ptr()
del small
small = torch.empty(100, device=cuda)
facts["zero_on_reuse_small"] = [small.data_ptr() == address, small.cpu().abs().max().item()]
facts["neighbour_kept"] = bool((neighbour.cpu() == 7).all())
facts["nonzero"] = list(torch.nonzero(torch.ones(1000, device=cuda)).shape)

# An unwritten gigabyte costs nothing, copies of it included; a freed one's host memory comes back.
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


torch.cuda.empty_cache()
before = resident()
huge = torch.empty(20 << 30, dtype=torch.uint8, device=cuda)
copy = huge.clone()
facts["cost_of_40_gib"] = resident() - before
del huge, copy
torch.cuda.empty_cache()
written = torch.ones(256 << 20, dtype=torch.uint8).to(cuda)
with_it = resident()
del written
torch.cuda.empty_cache()
facts["given_back"] = with_it - resident()

# Zeros cost nothing either, on their way to the host and back; what stands between them is copied.
before = resident()
there = torch.empty(256 << 20, dtype=torch.uint8, device=cuda).cpu().to(cuda)
facts["cost_of_zeros"] = resident() - before
del there
mixed = torch.zeros(2 << 20)
mixed[1_000_000:1_000_100], mixed[-1] = 5, 6
there = torch.ones(2 << 20).to(cuda)
there.copy_(mixed)
back = torch.full((2 << 20,), 9.0)
back.copy_(there)
facts["zeros_and_others"] = torch.equal(back, mixed)
facts["sum_of_zeros_and_others"] = there.sum().item()
del there, mixed, back
torch.cuda.empty_cache()

# The allocator's figures against the device's.
torch.cuda.empty_cache()
free, total = torch.cuda.mem_get_info()
facts["used"] = facts["free"] - free
facts["reserved"] = torch.cuda.memory_reserved()

# Out of memory.
try:
    torch.empty(70 << 30, dtype=torch.uint8, device=cuda), torch.empty(30 << 30, dtype=torch.uint8, device=cuda)
except torch.OutOfMemoryError as error:
    facts["oom"] = str(error)
facts["after_oom"] = bool((values.to(cuda).cpu() == values).all())

# Refusals.
for name, call in (
    ("ipc", lambda: on_device.untyped_storage()._share_cuda_()),
    ("bad_device", lambda: torch.empty(1, device="cuda:1")),
):
    try:
        call()
        facts[name] = None
    except Exception as error:  # noqa: BLE001 - whatever torch raises is the fact
        facts[name] = str(error)

# Threads.
def work(results, index):
    data = torch.full((10_000,), float(index))
    results[index] = all(bool((data.to(cuda).cpu() == index).all()) for _ in range(50))


results = [None] * 4
threads = [threading.Thread(target=work, args=(results, index)) for index in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
facts["threads"] = results

# A forked child cannot use the device and does the parent no harm.
read, write = os.pipe()
kept = torch.arange(1000.0).to(cuda)
child = os.fork()
if child == 0:
    try:
        torch.empty(10, device=cuda)
        answer = b"used it"
    except Exception as error:  # noqa: BLE001
        answer = str(error).encode()[:200]
    os.write(write, answer)
    os._exit(0)
os.waitpid(child, 0)
facts["fork"] = os.read(read, 1000).decode()
facts["parent_after_fork"] = bool((kept.cpu() == torch.arange(1000.0)).all())

with open("/proc/self/smaps") as file:
    areas = file.read().split("VmFlags:")
facts["maps"] = [area for area in areas if "gpumem-sim-device" in area][:1] != []
facts["not_in_cores"] = [
    "dd" in after.split("\n")[0].split()
    for area, after in zip(areas, areas[1:])
    if "/memfd:gpumem-sim-device" in area
]
json.dump(facts, sys.stdout)
