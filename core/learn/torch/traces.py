"""The allocator's own trace of what it did (torch.cuda.memory._record_memory_history): a ring of TraceEntry per device."""

import struct

import torch
from allocator import DEVICE_BYTES, leave_pending
from words import classes, read, value, words

ENTRIES = 77
# TraceEntry::Action (c10/cuda/CUDACachingAllocator.h; from 2.11 on c10/core/CachingDeviceAllocator.h)
ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "snapshot", "oom")


def snapshot():
    try:
        return torch._C._cuda_memorySnapshot(None)
    except TypeError:  # until 2.7 it takes nothing
        return torch._C._cuda_memorySnapshot()


def make(sets):
    """Fills the rings until they have gone round once, and keeps what PyTorch says is in them. Without call stacks: to
    tell a stack PyTorch 2.15 imports its compiler, which takes seconds."""
    torch.cuda.memory._record_memory_history(max_entries=ENTRIES, context=None)
    for s in sets:
        for i in range(ENTRIES + 7 * (s.index + 1)):
            with torch.cuda.stream(s.streams[i % 2]):
                part = torch.empty(1000 + 300 * (i % 9), device=s.name)
            if i % 3:
                s.keep.append(part)
            del part
        leave_pending(s)
    traces = snapshot()["device_traces"]
    for s in sets:
        s.trace = [e for e in traces[s.index]]
        s.body = read(s.device, len(s.body))


def find_context(row, first, second):
    """Call stacks, in rings that nobody is asked about: c10::GatheredContext is their class."""
    torch.cuda.memory._record_memory_history(max_entries=ENTRIES, context="alloc", stacks="python")
    for s in (first, second):
        keep = [torch.empty(10, device=s.name) for _ in range(5)]
        s.stacked = {t.data_ptr() for t in keep}
        del keep

    def agrees(o, s):
        begin, end = (words(value(s.device + row["allocator.trace_entries"]) or 0, 2) + (0, 0))[:2]
        size, address = row["trace.size_of"], row["trace.address"]
        stacks = [(value(e + o), value(e + address)) for e in range(begin, end, size)]
        given = [stack for stack, at in stacks if stack]
        return o + 8 <= size and len(given) >= 5 and all("N3c1015GatheredContextE" in classes(stack) for stack in given)

    row.find("trace.context", range(0, 256, 8), agrees, first, second)
    row.say_there("trace.context", lambda: [value(value(s.device + row["allocator.trace_entries"])) + 3 * row["trace.size_of"] for s in (first, second)])
    torch.cuda.memory._record_memory_history(enabled=None)


def field_of(entry, name):
    if name == "action":
        return ACTIONS.index(entry["action"])
    return entry.get("addr", 0) if name == "address" else entry[name]


def ring(s, offset):
    """(first byte, length of an entry) of the vector that the word points to; None where there is none."""
    begin, end = (words(struct.unpack_from("<Q", s.body, offset)[0], 2) + (0, 0))[:2]
    length, rest = divmod(end - begin, ENTRIES)
    return (begin, length) if begin and 32 <= length <= 512 and rest == 0 and length % 8 == 0 else None


def start(s, begin, length, field, form="<Q", name="address"):
    """The slot of the oldest entry; None where they do not agree. A snapshot may add itself, in the oldest one's place."""
    size = struct.calcsize(form)
    if field + size > length:
        return None
    body = read(begin, length * ENTRIES)
    if len(body) < length * ENTRIES:
        return None
    seen = [struct.unpack_from(form, body, i * length + field)[0] for i in range(ENTRIES)]
    wanted = [field_of(e, name) for e in s.trace]
    for first in range(ENTRIES):
        if all(seen[(first + i) % ENTRIES] == wanted[i] for i in range(1, len(wanted))):
            return first
    return None


def trace(row, first, second):
    fields = range(0, 256, 8)

    def agrees(o, s):
        if o + 8 > len(s.body):
            return False
        found = ring(s, o)
        return found is not None and any(start(s, *found, field) is not None for field in fields)

    row.find("allocator.trace_entries", range(8, DEVICE_BYTES - 16, 8), agrees, first, second)
    at = row["allocator.trace_entries"]
    length = ring(first, at)[1]
    row.derived("trace.size_of", length, lambda n: all(ring(s, at)[1] == n for s in (first, second)))
    for name, form, offsets in (
        ("address", "<Q", fields),
        ("size", "<Q", fields),
        ("stream", "<Q", fields),
        ("action", "<i", range(0, 64, 4)),
    ):
        row.find(
            f"trace.{name}",
            offsets,
            lambda o, s, form=form, name=name: start(s, *ring(s, at), o, form, name) == start(s, *ring(s, at), row.values.get("trace.address", o)) is not None,
            first,
            second,
        )

    def slots(s):
        return [ring(s, at)[0] + i * length for i in range(ENTRIES)]

    def following(o, s):
        # the next place, before or behind the snapshot's own entry
        oldest = start(s, *ring(s, at), row["trace.address"])
        extra = value(slots(s)[oldest] + row["trace.action"], "<i") == ACTIONS.index("snapshot")
        return struct.unpack_from("<Q", s.body, o)[0] == (oldest + extra) % ENTRIES

    # a RingBuffer: its numbers, then the pointer
    row.find("allocator.trace_next", range(at - 64, at, 8), following, first, second)
    row.say_there("allocator.trace_next", lambda: [s.device for s in (first, second)])
