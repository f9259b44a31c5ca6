"""Where the fields of the caching allocator's private structs lie (c10/cuda/CUDACachingAllocator.cpp: Block, BlockPool,
PrivatePool, DeviceCachingAllocator, NativeCachingAllocator): the source of the tables in core/torch/layout*.c.

    gpumem run --sim=8GiBx3 -- PYTHON tests/tools/torch_allocator.py

No header has them, so they are found: the program makes blocks of every kind, asks PyTorch what each is
(torch.cuda.memory_snapshot, memory_stats), and looks in its own memory for the offset at which all of them
agree. A field that fits at no place, or at two, is printed as such and nothing is guessed.
"""

import ctypes
import gc
import os
import struct
import sys
from pathlib import Path

import torch

MEMORY = os.open("/proc/self/mem", os.O_RDONLY)
DEVICES = torch.cuda.device_count()
assert DEVICES == 3, "run it on three devices: their number tells the vector of devices from others"
expandable = "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")


def read(address, size):
    try:
        return os.pread(MEMORY, size, address)
    except (OSError, OverflowError):
        return b""


def words(address, count):
    data = read(address, 8 * count)
    return struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])


def show(name, offsets):
    offsets = sorted(set(offsets))
    text = " ".join(f"{o:#x}" for o in offsets) if offsets else "NOT FOUND"
    print(f"{name} {text}{'   AMBIGUOUS' if len(offsets) > 1 else ''}", flush=True)
    return offsets[0] if offsets else None


# --- blocks of every kind -----------------------------------------------------------------------------------

keep = [torch.empty(100 * (i + 1), device="cuda:0") for i in range(20)]
keep += [torch.empty(700_001 + 3_000 * i, device="cuda:0") for i in range(9)]
keep += [torch.empty(123_457, device="cuda:1"), torch.empty(5_000_001, device="cuda:1")]
peak = torch.empty(40_000_003, device="cuda:0")
del peak
del keep[5:9], keep[3], keep[-4]
side, other = torch.cuda.Stream(0), torch.cuda.Stream(0)
with torch.cuda.stream(side):
    keep.append(torch.empty(3_000_017, device="cuda:0"))
    keep.append(torch.empty(311, device="cuda:0"))
used = torch.empty(2_000_003, device="cuda:0")
used.record_stream(other)
if expandable:  # pools of a program's own do not go with it in every version
    pooled = []
elif hasattr(torch.cuda, "MemPool"):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        pooled = [torch.empty(500_009, device="cuda:0"), torch.empty(13, device="cuda:0")]
else:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        pooled = [torch.empty(500_009, device="cuda:0"), torch.empty(13, device="cuda:0")]
gc.collect()
fraction = 0.71
torch.cuda.set_per_process_memory_fraction(fraction, 0)
torch.cuda.memory._record_memory_history(max_entries=12_345)
keep.append(torch.empty(4_000_037, device="cuda:0"))
pending = torch.empty(2_500_003, device="cuda:0")
pending.record_stream(other)
del pending  # the last: the next allocation would find its stream done

segments = torch.cuda.memory_snapshot()
stats = torch.cuda.memory_stats(0)
known = {}
for segment in segments:
    address = segment["address"]
    for block in segment["blocks"]:
        known[address] = {**block, "address": address, "segment": segment}
        address += block["size"]
on_zero = [b for b in known.values() if b["segment"]["device"] == 0]
active = [b for b in on_zero if b["state"] != "inactive"]

# --- from the exported variable to the device ------------------------------------------------------------------

library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10_cuda.so"))
variable = ctypes.c_uint64.in_dll(library, "_ZN3c104cuda20CUDACachingAllocator9allocatorE")
print(f"torch {torch.__version__}")
native = variable.value
body = words(native, 0x1800)
vectors = []
for i in range(len(body) - 2):
    begin, end, room = body[i : i + 3]
    if begin and begin % 16 == 0 and end - begin == 8 * DEVICES and room >= end:
        items = words(begin, DEVICES)
        if len(items) == DEVICES and all(len(words(item, 1)) == 1 and item % 16 == 0 for item in items):
            vectors.append(i * 8)
devices_at = show("allocator.devices", vectors)
device = words(words(native + devices_at, 1)[0], 1)[0]
device_words = words(device, 0x400)

for name, key in (
    ("stats_allocated", "allocated_bytes"),
    ("stats_reserved", "reserved_bytes"),
    ("stats_active", "active_bytes"),
    ("stats_requested", "requested_bytes"),
):
    four = tuple(stats[f"{key}.all.{what}"] for what in ("current", "peak", "allocated", "freed"))
    show(f"allocator.{name}", [i * 8 for i in range(len(device_words) - 3) if device_words[i : i + 4] == four])

# not set, and its place is checked by the header (torch_offsets.cpp)
split = [i * 8 for i in range(len(device_words)) if device_words[i] == stats["max_split_size"] % (1 << 64)]
show("allocator.stats_max_split", split[:1])

# --- the table of active blocks, and from it Block ---------------------------------------------------------------


def table(address, entry_size, value_at):
    """The values in a ska::flat_hash_* table, or None where there is none (c10/util/flat_hash_map.h)."""
    head = read(address, 32)
    if len(head) < 32:
        return None
    entries, last = struct.unpack_from("<QQ", head)
    lookups, count = struct.unpack_from("<b", head, 17)[0], struct.unpack_from("<Q", head, 24)[0]
    if not entries or last > 1 << 16 or (last + 1) & last or lookups < 0 or count > last + lookups + 1:
        return None
    found = []
    for i in range(last + lookups):
        entry = read(entries + i * entry_size, entry_size)
        if len(entry) < entry_size:
            return None
        if entry[0] < 128:
            found.append(struct.unpack_from("<Q", entry, value_at)[0])
    return found if len(found) == count else None


places, records = [], []
for i in range(len(device_words)):
    found = table(device + i * 8, 16, 8)
    if found and len(found) == len(active) and all(read(f, 64) for f in found):
        places.append(i * 8)
        records = found
show("allocator.active", places)
assert records, "no table of active blocks"
SPAN = 0x100
bodies = {record: read(record, SPAN) for record in records}


def word(record, offset):
    return struct.unpack_from("<Q", bodies[record], offset)[0]


def fitting(of, step=8, form="<Q", among=None):
    """Offsets at which every record has the value of `of(block)`; the address must be known already."""
    offsets = []
    for offset in range(0, SPAN - 8, step):
        if all(struct.unpack_from(form, bodies[r], offset)[0] == of(block_of(r)) for r in (among or bodies)):
            offsets.append(offset)
    return offsets


addresses = sorted(b["address"] for b in active)
address_at = show(
    "block.address", [o for o in range(0, SPAN - 8, 8) if sorted(word(r, o) for r in records) == addresses]
)


def block_of(record):
    return known[word(record, address_at)]


# The free blocks: neighbours of active ones, by whichever words lead to them.
for _ in range(64):
    new = {}
    for record in list(bodies):
        for offset in range(0, SPAN - 8, 8):
            candidate = word(record, offset)
            if candidate % 16 == 0 and candidate > 1 << 20 and candidate not in bodies and candidate not in new:
                data = read(candidate, SPAN)
                block = len(data) == SPAN and known.get(struct.unpack_from("<Q", data, address_at)[0])
                if block and struct.unpack_from("<Q", data, address_at)[0] not in (word(r, address_at) for r in bodies):
                    sizes = [struct.unpack_from("<Q", data, o)[0] for o in range(0, SPAN - 8, 8)]
                    if block["size"] in sizes and candidate < 1 << 47:
                        new[candidate] = data
    if not new:
        break
    bodies.update(new)
show("block.size", fitting(lambda b: b["size"]))
show("block.requested", fitting(lambda b: b.get("requested_size", 0), among=records))
show("block.stream", fitting(lambda b: b["segment"]["stream"]))
allocated_at = show("block.allocated", fitting(lambda b: int(b["state"] == "active_allocated"), 1, "<B"))
print(f"block.mapped {allocated_at + 1:#x} (behind it; reads {set(d[allocated_at + 1] for d in bodies.values())})")
show("block.event_count", fitting(lambda b: int(b["state"] == "active_pending_free"), 4, "<i"))
ordered = {word(r, address_at): r for r in bodies}


def neighbour(block, forward):
    segment = block["segment"]
    at = block["address"] + block["size"] if forward else None
    if forward:
        return at if at < segment["address"] + segment["total_size"] else 0
    before = [b for b in known.values() if b["segment"] is segment and b["address"] + b["size"] == block["address"]]
    return before[0]["address"] if before else 0


for name, forward in (("previous", False), ("next", True)):
    show(
        f"block.{name}",
        [
            o
            for o in range(0, SPAN - 8, 8)
            if all(
                (word(bodies_record, o) == (ordered.get(neighbour(block_of(bodies_record), forward), -1) if neighbour(block_of(bodies_record), forward) else 0))
                for bodies_record in bodies
            )
        ],
    )
stream_uses = []
for o in range(0, SPAN - 40, 8):
    values = {r: table(r + o, 24, 8) for r in records}
    if all((v or []) == [] or len(v) == 1 for v in values.values()):
        with_stream = [r for r, v in values.items() if v]
        if with_stream and all(block_of(r)["address"] == used.data_ptr() for r in with_stream):
            stream_uses.append(o)
show("block.stream_uses", stream_uses)

usable = ctypes.CDLL(None).malloc_usable_size
usable.argtypes = [ctypes.c_void_p]
print("block.size_of at most", hex(usable(records[0])))

# --- pools -----------------------------------------------------------------------------------------------------


def pool_candidates(of):
    return {o for o in range(0, SPAN - 8, 8) if all(device <= word(r, o) < device + 0x2000 for r in of)}


def kind(block):
    return "pooled" if block["address"] in {p.data_ptr() for p in pooled} else block["segment"]["segment_type"]


groups = {k: [r for r in records if kind(block_of(r)) == k] for k in ("small", "large", "pooled")}
pool_at = show("block.pool", pool_candidates(groups["small"]) & pool_candidates(groups["large"]))
pools = {k: {word(r, pool_at) for r in groups[k]} for k in groups}
show("allocator.small", {p - device for p in pools["small"]})
show("allocator.large", {p - device for p in pools["large"]})
free = {}
for record in bodies:
    block = block_of(record)
    if block["state"] == "inactive" and block["segment"]["device"] == 0:
        free[word(record, pool_at)] = free.get(word(record, pool_at), 0) + 1
def sets(pool):
    """The counts of the std::set one behind the other from here on; libstdc++'s header node of an empty one has its own
    address as leftmost and rightmost (bits/stl_tree.h)."""
    counts = []
    while True:
        at = pool + 0x30 * len(counts)
        _, root, leftmost, rightmost, count = words(at + 8, 5)
        if not ((root, leftmost, rightmost, count) == (0, at + 8, at + 8, 0) if not count else leftmost and rightmost and root):
            return counts
        counts.append(count)


# One set or, from 2.13 on, two have the free blocks; the last has those that are not mapped, here none.
of_pools = [(sets(at), free[at]) for name in ("small", "large") for at in pools[name]]
assert all(count and counts[:-1] == [count] * (len(counts) - 1) for counts, count in of_pools), of_pools
show("allocator.pool_blocks", [0x30 * counts.index(count) for counts, count in of_pools])
show("allocator.pool_unmapped", [0x30 * (len(counts) - 1) for counts, _ in of_pools])
entries = []
for i in range(len(device_words) if pooled else 0):
    found = table(device + i * 8, 32, 24)
    if found and len(found) == 1 and any(0 < p - found[0] < 0x200 for p in pools["pooled"]):
        entries.append(i * 8)
        private = found[0]
show("allocator.graph_pools", entries)
for p in sorted(pools["pooled"]):
    sizes = sorted(block_of(r)["size"] for r in groups["pooled"] if word(r, pool_at) == p)
    print(f"allocator.private_{'small' if sizes[-1] < 1 << 20 else 'large'} {p - private:#x}")

# --- what an out-of-memory is explained by -------------------------------------------------------------------------

total = torch.cuda.get_device_properties(0).total_memory
show("allocator.properties_total", [i * 8 for i in range(len(device_words)) if device_words[i] == total][:1])
show("allocator.limit", [i * 8 for i in range(len(device_words)) if device_words[i] == int(fraction * total)])
# The ring of traces: a pointer to a vector that has the newest address; of that size, when another size was asked for.
places = []
for entries in (12_345, 77):
    found = set()
    for i in range(len(device_words) - 1):
        begin, end, room = (words(device_words[i], 3) + (0, 0, 0))[:3]
        if begin and 0 < end - begin < 1 << 22 and keep[-1].data_ptr() in words(begin, (end - begin) // 8):
            if entries != 77 or (end - begin) % 77 == 0:
                found.add(i * 8)
    places.append(found)
    # and the next place in it, which is told when the ring has gone round once
    if entries != 77:
        torch.cuda.memory._record_memory_history(max_entries=77, context=None)
        keep += [torch.empty(10, device="cuda:0") for _ in range(77 + 13)]
entries_at = show("allocator.trace_entries", places[0] & places[1])
begin, end = words(device_words[entries_at // 8], 2)
ring = words(begin, (end - begin) // 8)
print(f"trace.size_of {(end - begin) // 77:#x}")
newest = max(i for i, w in enumerate(ring) if w == keep[-1].data_ptr()) * 8 // ((end - begin) // 77)
near = words(device + entries_at - 0x40, 8)
show("allocator.trace_next", [entries_at - 0x40 + 8 * i for i in range(8) if near[i] == newest + 1])
if expandable:
    show("block.expandable", [o for o in range(0x70, usable(records[0]), 8) if all(word(r, o) > 1 << 20 for r in records)])
sys.stdout.flush()
os._exit(0)
