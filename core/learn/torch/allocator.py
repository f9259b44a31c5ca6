"""The CUDA caching allocator's private structs: Block, BlockPool, PrivatePool, DeviceCachingAllocator, and its trace.

No header has them. Blocks of every kind are made on two devices, PyTorch is asked what each is, and the device's own object
is searched. What is found with device 0 is proved with device 1, whose blocks are others.
"""

import ctypes
import gc
import struct
from pathlib import Path
from types import SimpleNamespace

import torch
from words import read, usable, value, words

SPAN, DEVICE_BYTES = 0x100, 0x4000
FRACTIONS = {0: 0.71, 1: 0.63}
HASHES = ("entries", "slots_minus_one", "lookups", "count")


def give_back():
    """Of each device's statistics what is reserved now differs from the most that was."""
    for device in range(torch.cuda.device_count()):
        torch.empty(30_000_001 + 5_000_000 * device, device=f"cuda:{device}")
    torch.cuda.empty_cache()


def leave_pending(s):
    """A block that another stream may still use: it is free when PyTorch next asks."""
    pending = torch.empty(700_003 + s.index, device=s.name)
    pending.record_stream(s.streams[1])


def make(device):
    """Blocks of every kind and state on one device."""
    s = SimpleNamespace(index=device, name=f"cuda:{device}", device=0, body=b"")
    k = 1 + device

    def empty(n):
        return torch.empty(n, device=s.name)

    keep = [empty(100 * (i + k)) for i in range(20)]
    keep += [empty(700_001 + 3_000 * k * i) for i in range(9)]
    peak = empty(40_000_003 + 1_000_000 * k)
    del peak
    del keep[5 : 8 + k], keep[3], keep[-4]
    side, other = torch.cuda.Stream(device), torch.cuda.Stream(device)
    with torch.cuda.stream(side):
        keep += [empty(3_000_017 + 10_000 * k), empty(311 * k)]
    s.used = empty(2_000_003)
    s.used.record_stream(other)
    s.pool, s.pooled = private(s, empty)
    gc.collect()
    torch.cuda.set_per_process_memory_fraction(FRACTIONS[device], device)
    pending = empty(2_500_003)
    pending.record_stream(other)
    del pending
    s.keep, s.streams = keep, (side, other)
    return s


def private(s, empty):
    """Blocks in a pool of the program's own, as CUDA graphs have."""
    numbers = (500_009 + s.index, 13 + 200 * s.index)
    if hasattr(torch.cuda, "MemPool"):
        with torch.cuda.device(s.index):  # a pool is made on the current device
            pool = torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(pool):
                return pool, [empty(n) for n in numbers]
    # by hand: torch.cuda.graph() gives free memory back first, of all devices, and has one stream for all
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(s.index), torch.cuda.stream(torch.cuda.Stream(s.index)):
        graph.capture_begin()
        made = [empty(n) for n in numbers]
        graph.capture_end()
    return graph, made


def look(sets):
    """What PyTorch says of each device now; nothing may be allocated on them from here on."""
    segments = torch.cuda.memory_snapshot()
    for s in sets:
        s.stats = torch.cuda.memory_stats(s.index)
        s.known = {}
        for segment in segments:
            address = segment["address"]
            for block in segment["blocks"] if segment["device"] == s.index else ():
                s.known[address] = {**block, "address": address, "segment": segment}
                address += block["size"]
        s.active = {a for a, b in s.known.items() if b["state"] != "inactive"}


def objects(row, first, second):
    """From the exported variable to each device's object."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10_cuda.so"))
    native = ctypes.c_uint64.in_dll(library, "_ZN3c104cuda20CUDACachingAllocator9allocatorE").value
    count = torch.cuda.device_count()

    def stats_in(device, s):
        body = read(device, DEVICE_BYTES)
        wanted = four(s.stats, "allocated_bytes")
        return body.find(wanted) >= 0

    def agrees(offset, s):
        begin, end, room = (words(native + offset, 3) + (0, 0, 0))[:3]
        if not begin or end - begin != 8 * count or room < end:
            return False
        items = words(begin, count)
        if len(items) != count or not all(item and item % 16 == 0 for item in items):
            return False
        s.device = items[s.index]
        return stats_in(s.device, s)

    row.find("allocator.devices", range(8, 0x8000, 8), agrees, first, second)
    row.devices = words(value(native + row["allocator.devices"]), count)
    for s in (first, second):
        begin = value(native + row["allocator.devices"])
        s.device = words(begin, count)[s.index]
        s.body = read(s.device, min(DEVICE_BYTES, usable(s.device)))


def four(stats, key):
    """A Stat: current, peak, allocated, freed (c10/core/Allocator.h)."""
    return struct.pack("<4Q", *(stats[f"{key}.all.{what}"] for what in ("current", "peak", "allocated", "freed")))


def statistics(row, first, second):
    everywhere = range(8, DEVICE_BYTES, 8)
    for name, key in (
        ("stats_allocated", "allocated_bytes"),
        ("stats_reserved", "reserved_bytes"),
        ("stats_active", "active_bytes"),
        ("stats_requested", "requested_bytes"),
    ):
        row.find(f"allocator.{name}", everywhere, lambda o, s, key=key: s.body[o : o + 32] == four(s.stats, key), first, second)
        row.say_there(f"allocator.{name}", lambda: row.devices)

    def word(s, o):
        return struct.unpack_from("<Q", s.body, o)[0] if o + 8 <= len(s.body) else None

    def total(s):
        return torch.cuda.get_device_properties(s.index).total_memory

    split = row.max_split
    row.find("allocator.stats_max_split", everywhere, lambda o, s: word(s, o) == split, first, second)

    # totalGlobalMem of cudaDeviceProp, which begins with the device's name: name[256], uuid, luid and a mask (driver_types.h)
    device_name = torch.cuda.get_device_properties(0).name.encode() + b"\0"
    row.find(
        "allocator.properties_total",
        everywhere,
        lambda o, s: word(s, o) == total(s) and s.body[max(0, o - 288) :].startswith(device_name),
        first,
        second,
    )
    # rounded down, or from 2.12 on to the nearest
    row.find(
        "allocator.limit", everywhere, lambda o, s: abs((word(s, o) or 0) - FRACTIONS[s.index] * total(s)) <= 1, first, second
    )
    row.say_there("allocator.limit", lambda: row.devices)
    # a std::optional, whose flag follows; before it a number, 0: none
    limit = row["allocator.limit"]
    flags = [s.body[limit + 8] for s in (first, second)]
    none = value(row.devices[2] + limit + 8, "<B")
    row.derived("allocator.limit_is_plain", int((flags, none) != ([1, 1], 0)), lambda plain: plain == int((flags, none) != ([1, 1], 0)))


# --- the containers: ska::flat_hash_map (c10/util/flat_hash_map.h), std::set (libstdc++, bits/stl_tree.h) ---------------


def table(address, hash, entry_size, value_at):
    """The values in a ska::flat_hash_* table; None where there is none."""
    head = read(address, 64)
    if len(head) < 64 or max(hash) > 56 or entry_size > 64 or value_at > entry_size - 8:
        return None
    entries, last = struct.unpack_from("<Q", head, hash[0])[0], struct.unpack_from("<Q", head, hash[1])[0]
    lookups, count = struct.unpack_from("<b", head, hash[2])[0], struct.unpack_from("<Q", head, hash[3])[0]
    # an empty table of a moved layout would look like one: the shift is that of the number of slots
    if not entries or last > 1 << 16 or (last + 1) & last or not 0 < lookups < 64 or count > last + lookups + 1:
        return None
    found = []
    body = read(entries, entry_size * (last + lookups))
    if len(body) != entry_size * (last + lookups):
        return None
    for at in range(0, len(body), entry_size):
        if body[at] < 128:
            found.append(struct.unpack_from("<Q", body, at + value_at)[0])
    return found if len(found) == count else None


HASH = (0, 8, 17, 24)


def tables(row, first, second):
    """The table of active blocks, and with it how such tables are made."""

    def blocks(s, offset, hash=HASH, entry=16, at=8):
        found = table(s.device + offset, hash, entry, at)
        if not found or len(found) != len(s.active):
            return None
        # each is a Block: somewhere in it is the address of its memory
        bodies = [words(f, SPAN // 8) for f in found]
        return found if all(s.active & set(body[:32]) for body in bodies) else None

    row.find("allocator.active", range(8, DEVICE_BYTES - 64, 8), lambda o, s: blocks(s, o) is not None, first, second)
    active = row["allocator.active"]

    def with_hash(i, number, s):
        return blocks(s, active, HASH[:i] + (number,) + HASH[i + 1 :]) is not None

    for i, name in enumerate(HASHES):
        row.derived(f"hash.{name}", HASH[i], lambda number, i=i: with_hash(i, number, first) and with_hash(i, number, second))
    row.derived("allocator.active_entry_size", 16, lambda n: all(blocks(s, active, HASH, n) is not None for s in (first, second)))
    entries = value(second.device + active)
    row.say("allocator.active_entry_size", lambda: [("apart", entries, entries + 16)])
    row.derived("allocator.active_entry_block", 8, lambda n: all(blocks(s, active, HASH, 16, n) is not None for s in (first, second)))
    row.say_there("hash.count", lambda: [s.device + active for s in (first, second)])
    row.say_there("hash.lookups", lambda: [s.device + active for s in (first, second)], "<B")
    for s in (first, second):
        s.records = blocks(s, active)
    # behind a Block is what the heap has there, by chance a Block that was given back
    row.span = min(usable(record) for s in (first, second) for record in s.records) // 8 * 8
    for s in (first, second):
        s.bodies = {record: read(record, row.span) for record in s.records}


def word(s, record, offset):
    body = s.bodies[record]
    return struct.unpack_from("<Q", body, offset)[0] if 0 <= offset <= len(body) - 8 else None


def block(row, first, second):
    inside = range(0, row.span - 7, 8)
    row.find(
        "block.address", inside, lambda o, s: sorted(word(s, r, o) or 0 for r in s.records) == sorted(s.active), first, second
    )
    address_at = row["block.address"]
    for s in (first, second):
        add_free(row, s, address_at)

    def of(s, record):
        return s.known[word(s, record, address_at)]

    def derived(name, truth, step=8, form="<Q", all_blocks=True):
        def agrees(o, s):
            if not 0 <= o <= row.span - 8:
                return False
            among = s.bodies if all_blocks else s.records
            return all(struct.unpack_from(form, s.bodies[r], o)[0] == truth(of(s, r)) for r in among)

        row.find(f"block.{name}", range(0, row.span - 7, step), agrees, first, second)
        row.say_there(f"block.{name}", lambda: second.records, form)

    derived("size", lambda b: b["size"])
    derived("requested", lambda b: b.get("requested_size", 0), all_blocks=False)
    derived("stream", lambda b: b["segment"]["stream"])
    derived("allocated", lambda b: int(b["state"] == "active_allocated"), 1, "<B")
    derived("event_count", lambda b: int(b["state"] == "active_pending_free"), 4, "<i")
    neighbours(row, of, address_at, first, second)
    uses_and_device(row, of, first, second)


def add_free(row, s, address_at):
    """The free blocks too: neighbours of active ones, by whichever words lead to them and back. What lies behind a Block in
    the heap does not lead to one: it may be a Block that was given back, whose first words are malloc's by now."""
    whole = f"<{row.span // 8}Q"
    have = {word(s, r, address_at) for r in s.bodies}
    pending = list(s.bodies)
    while pending:
        record = pending.pop()
        for candidate in struct.unpack_from(whole, s.bodies[record]):
            if candidate % 16 or candidate < 1 << 20 or candidate in s.bodies:
                continue
            data = read(candidate, row.span)
            at = struct.unpack_from("<Q", data, address_at)[0] if len(data) == row.span else 0
            if at in have or at not in s.known:
                continue
            if not {record, s.known[at]["size"]} <= set(struct.unpack_from(whole, data)):
                continue
            s.bodies[candidate] = data
            have.add(at)
            pending.append(candidate)


def neighbours(row, of, address_at, first, second):
    def beside(s, b, forward):
        """The block before or behind it in its segment; 0: none."""
        segment = b["segment"]
        if forward:
            at = b["address"] + b["size"]
            return at if at < segment["address"] + segment["total_size"] else 0
        before = [x for x in s.known.values() if x["segment"] is segment and x["address"] + x["size"] == b["address"]]
        return before[0]["address"] if before else 0

    for name, forward in (("previous", False), ("next", True)):

        def agrees(o, s, forward=forward):
            by_address = {word(s, r, address_at): r for r in s.bodies}
            by_address[0] = 0
            return all(word(s, r, o) == by_address.get(beside(s, of(s, r), forward), -1) for r in s.bodies)

        row.find(f"block.{name}", range(0, row.span - 7, 8), agrees, first, second)
        row.say_there(f"block.{name}", lambda: second.records)


def uses_and_device(row, of, first, second):
    def agrees(o, s):
        if o > row.span - 40:
            return False
        values = {r: table(r + o, HASH, 24, 8) for r in s.records}
        used = {of(s, r)["address"] for r, v in values.items() if v}
        return s.used.data_ptr() in used and all((v is not None or not value(r + o)) and len(v or []) <= 1 for r, v in values.items())

    row.find("block.stream_uses", range(0, row.span - 40, 8), agrees, first, second)
    row.say_there("block.stream_uses", lambda: second.records)
    allocated = row["block.allocated"]
    # the byte behind `allocated`: 1 of every block that is not an expandable segment's hole
    row.derived(
        "block.mapped",
        allocated + 1,
        lambda o: o == allocated + 1 and all(body[o] == 1 for s in (first, second) for body in s.bodies.values()),
    )
    # c10::DeviceIndex; device 0 alone would fit at many places
    row.find(
        "block.device",
        range(0, 8),
        lambda o, s: all(body[o] == s.index for body in s.bodies.values())
        and all(body[o] == 1 for body in second_bodies(first, second)),
        first,
        second,
    )


def second_bodies(first, second):
    return (second if second.index == 1 else first).bodies.values()


# --- pools -----------------------------------------------------------------------------------------------------------------


def kind(s, b):
    return "pooled" if b["address"] in {p.data_ptr() for p in s.pooled} else b["segment"]["segment_type"]


def pools(row, first, second):
    address_at = row["block.address"]

    def of_kind(s, wanted):
        return [r for r in s.records if kind(s, s.known[word(s, r, address_at)]) == wanted]

    def agrees(o, s):
        inside = [word(s, r, o) or 0 for r in of_kind(s, "small") + of_kind(s, "large")]
        return len(set(inside)) == 2 and all(s.device <= p < s.device + DEVICE_BYTES for p in inside)

    row.find("block.pool", range(0, row.span - 7, 8), agrees, first, second)
    pool_at = row["block.pool"]
    for name in ("small", "large"):
        at = lambda s, name=name: {word(s, r, pool_at) - s.device for r in of_kind(s, name)}
        found = at(first)
        row.derived(f"allocator.{name}", found.pop() if len(found) == 1 else None, lambda o, at=at: at(second) == {o})
        row.say(f"allocator.{name}", lambda at=at: [("apart", second.device, second.device + o) for o in at(second)])
    private_pools(row, pool_at, of_kind, first, second)
    sets(row, pool_at, first, second)


def private_pools(row, pool_at, of_kind, first, second):
    def pooled(s):
        return {word(s, r, pool_at): s.known[word(s, r, row["block.address"])]["segment"]["segment_type"] for r in of_kind(s, "pooled")}

    def entry(s, o, size=32, at=24):
        found = table(s.device + o, HASH, size, at)
        return found[0] if found and len(found) == 1 and all(0 < p - found[0] < 0x200 for p in pooled(s)) else None

    row.find("allocator.graph_pools", range(8, DEVICE_BYTES - 64, 8), lambda o, s: entry(s, o) is not None, first, second)
    o = row["allocator.graph_pools"]
    row.say_there("allocator.graph_pools", lambda: (first.device, second.device))
    row.derived("allocator.graph_entry_size", 32, lambda n: all(entry(s, o, n) is not None for s in (first, second)))
    row.derived("allocator.graph_entry_pool", 24, lambda n: all(entry(s, o, 32, n) is not None for s in (first, second)))
    entries = value(second.device + o)
    slots = [at for at in range(entries, entries + 2048, 32) if value(at + 24) == entry(second, o)][:1]
    row.say("allocator.graph_entry_size", lambda: [("apart", entries, entries + 32)])
    row.say("allocator.graph_entry_pool", lambda: [("word", 8, at, entry(second, o)) for at in slots])
    for name in ("small", "large"):
        at = lambda s, name=name: {p - entry(s, o) for p, of in pooled(s).items() if of == name}
        found = at(first)
        row.derived(f"allocator.private_{name}", found.pop() if len(found) == 1 else None, lambda n, at=at: at(second) == {n})
        row.say(f"allocator.private_{name}", lambda at=at: [("apart", entry(second, o), entry(second, o) + n) for n in at(second)])


def tree(address, header, count_at, value_at):
    """The values in a std::set; None where there is none. Of a node: colour, parent, left, right, value."""
    count, root = value(address + count_at), value(address + header + 8)
    if count is None or root is None or count > 1 << 16 or (count == 0) != (root == 0):
        return None
    found, pending, seen = [], [root] if root else [], set()
    while pending:
        node = pending.pop()
        body = words(node, 6)
        if len(body) < 6 or node in seen or len(found) >= count:
            return None
        seen.add(node)
        found.append(words(node + value_at, 1)[0])
        pending += [child for child in body[2:4] if child]
    return found if len(found) == count else None


def sets(row, pool_at, first, second):
    """A BlockPool: the free blocks in one std::set, those not mapped in another."""

    def free(s, pool):
        return sorted(r for r in s.bodies if s.known[word(s, r, row["block.address"])]["state"] == "inactive" and word(s, r, pool_at) == pool)

    def agrees(s, at=0, header=8, count=40, value_at=32):
        both = [s.device + row["allocator.small"], s.device + row["allocator.large"]]
        return all(sorted(tree(p + at, header, count, value_at) or [0]) == free(s, p) for p in both)

    def both(**moved):
        return agrees(first, **moved) and agrees(second, **moved)

    row.derived("allocator.pool_blocks", 0, lambda n: both(at=n))
    row.derived("allocator.set_header", 8, lambda n: both(header=n))
    row.derived("allocator.set_count", 40, lambda n: both(count=n))
    row.derived("allocator.set_node_value", 32, lambda n: both(value_at=n))
    # the second set follows the first; behind it the flag that tells small from large, which PyTorch tells too
    tell = lambda s, name, n: value(s.device + row[f"allocator.{name}"] + n + row["allocator.set_count"] + 8, "<B")

    def unmapped(n):
        return all(
            tell(s, "small", n) == 1 and tell(s, "large", n) == 0 and tree(s.device + row["allocator.large"] + n, 8, 40, 32) == []
            for s in (first, second)
        )

    row.find("allocator.pool_unmapped", range(48, 0x100, 8), lambda n, s: unmapped(n), first, second)


def whole(row, first, second):
    """How much of a Block is read: where its last field is not known, what malloc keeps for it."""
    if "block.size_of" not in row.values:
        room = min(map(usable, first.records))
        row.derived("block.size_of", room, lambda n: n == min(map(usable, second.records)))


def expandable(row, first, second):
    """Blocks of expandable segments: their last word points to the segment; of all others it is empty."""
    for s in (first, second):
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
        try:
            s.fresh = torch.cuda.Stream(s.index)  # it has no block that would be handed out again
            with torch.cuda.stream(s.fresh):
                s.keep += [torch.empty(n, device=s.name) for n in (6_000_011 + 999_000 * s.index, 400_003)]
        finally:
            torch.cuda.memory._set_allocator_settings("expandable_segments:False")
    inside = set()
    for segment in torch.cuda.memory_snapshot():
        if segment.get("is_expandable"):
            inside |= set(range(segment["address"], segment["address"] + segment["total_size"], 512))

    def active(s):
        return table(s.device + row["allocator.active"], HASH, 16, 8)

    def agrees(o, s):
        records = active(s)
        of = {r: value(r + row["block.address"]) in inside for r in records}
        return len(set(of.values())) == 2 and all(
            ((value(r + o) or 0) > 1 << 20 if yes else value(r + o) == 0) for r, yes in of.items()
        )

    row.find("block.expandable", range(8, min(map(usable, first.records)) - 7, 8), agrees, first, second)
    row.say_there("block.expandable", lambda: active(second))
    # it is the last field
    end = row["block.expandable"] + 8
    row.derived("block.size_of", end, lambda n: n == end and all(n <= usable(r) for r in first.records + second.records))
