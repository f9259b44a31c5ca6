"""Snapshots of expandable segments whose trace began late, with several devices, made at random with known truth: what was
reserved at each moment, the pool of each segment, the peak of each device, and which device ran out of memory."""

import pickle
import random
import re

import pytest

MIB = 1 << 20
PAGE = {"small": 2 * MIB, "large": 20 * MIB}


class Device:
    """An allocator with one expandable segment for each pool and stream: ranges of pages are mapped and unmapped, blocks live in them."""

    def __init__(self, index, rng):
        self.index, self.rng, self.trace, self.states = index, rng, [], []
        self.pages = {}  # address: (pool, stream), of mapped pages
        self.blocks = {}  # address: (size, pool, stream)
        self.bases = {}

    def log(self, action, address, size, stream=0):
        frames = [{"filename": "train.py", "line": 1 + self.rng.randrange(9), "name": "step"}]
        self.trace.append({"action": action, "addr": address, "size": size, "stream": stream, "time_us": 0, "frames": frames})
        self.states.append((dict(self.pages), dict(self.blocks)))

    def base(self, pool, stream):
        return self.bases.setdefault((pool, stream), (0x700000000000 + (self.index * 8 + len(self.bases)) * (1 << 36)))

    def map(self):
        pool, stream = self.rng.choice(["small", "large"]), self.rng.choice([0, 0, 7])
        page, base = PAGE[pool], self.base(pool, stream)
        start = base + page * self.rng.randrange(8)
        count = 1 if pool == "small" else self.rng.randint(1, 3)
        addresses = [start + i * page for i in range(count)]
        if any(address in self.pages for address in addresses):
            return
        self.pages.update({address: (pool, stream) for address in addresses})
        self.log("segment_map", start, count * page, stream)

    def free_pages(self):
        return [p for p, (pool, _) in self.pages.items() if not any(p <= b < p + PAGE[pool] for b in self.blocks)]

    def unmap(self):
        if free := self.free_pages():
            address = self.rng.choice(free)
            pool, stream = self.pages.pop(address)
            self.log("segment_unmap", address, PAGE[pool], stream)

    def alloc(self):
        if free := self.free_pages():
            address = self.rng.choice(free)
            pool, stream = self.pages[address]
            size = self.rng.randint(1, 2048 if pool == "small" else 38912) * 512 + (0 if pool == "small" else MIB)
            size = min(size, MIB) if pool == "small" else min(size, PAGE[pool])
            self.blocks[address] = (size, pool, stream)
            self.log("alloc", address, size, stream)

    def free(self):
        if self.blocks:
            address = self.rng.choice(list(self.blocks))
            size, _, stream = self.blocks.pop(address)
            self.log("free_requested", address, size, stream)
            self.log("free_completed", address, size, stream)

    def segments(self, state=None):
        """(address, size, pool, stream) of each mapped range."""
        pages, ranges = (state or (self.pages, None))[0], []
        for address, (pool, stream) in sorted(pages.items()):
            last = ranges[-1] if ranges else None
            if last and last[0] + last[1] == address and last[2:] == [pool, stream]:
                last[1] += PAGE[pool]
            else:
                ranges.append([address, PAGE[pool], pool, stream])
        return ranges

    def snapshot_segments(self):
        for address, size, pool, stream in self.segments():
            blocks, at = [], address
            for start, (length, *_) in sorted(self.blocks.items()):
                if address <= start < address + size:
                    if start > at:
                        blocks.append({"address": at, "size": start - at, "requested_size": 0, "state": "inactive", "frames": []})
                    one = {"address": start, "size": length, "requested_size": length, "state": "active_allocated", "frames": []}
                    blocks.append(one)
                    at = start + length
            if at < address + size:
                blocks.append({"address": at, "size": address + size - at, "requested_size": 0, "state": "inactive", "frames": []})
            yield {
                "device": self.index, "address": address, "total_size": size, "stream": stream, "segment_type": pool,
                "allocated_size": 0, "active_size": 0, "is_expandable": True, "segment_pool_id": (0, 0), "frames": [], "blocks": blocks,
            }  # fmt: skip


def allocated(state):
    return sum(size for size, *_ in state[1].values())


def make(seed):
    """(the snapshot, its devices, how many entries of each were lost)."""
    rng = random.Random(seed)
    devices = [Device(index, rng) for index in range(rng.randint(1, 3))]
    for device in devices:
        for _ in range(rng.randint(20, 120)):
            rng.choice([device.map, device.alloc, device.alloc, device.free, device.unmap])()
        if rng.random() < 0.7:
            device.log("oom", rng.randrange(1 << 30), rng.randint(1, 4000) * MIB)
    lost = [rng.randrange(len(device.trace)) if rng.random() < 0.7 else 0 for device in devices]
    time = 0
    for device in devices:
        for entry in device.trace:
            time += 1
            entry["time_us"] = time
    segments = [segment for device in devices for segment in device.snapshot_segments()]
    traces = [device.trace[cut:] for device, cut in zip(devices, lost)]
    for trace in traces:
        for entry in trace:
            if entry["action"] == "oom":
                entry["device_free"] = entry.pop("addr")
    return {"segments": segments, "device_traces": traces, "allocator_settings": {"expandable_segments": True}}, devices, lost


def told_segments(run_gpumem, *options):
    answer = run_gpumem("segments", *options, "--json").check().json()
    return [[int(s["address"], 16), s["size"], s["pool"], s["stream"]] for s in answer["segments"]]


def without_pool(segments):
    return [[address, size, stream] for address, size, _, stream in segments]


def check(run_gpumem, folder, seed):
    snapshot, devices, lost = make(seed)
    path = folder / f"{seed}.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    info = run_gpumem("info", path, "--json").check().json()
    rows = {row["device"]: row for row in info["devices"]}
    older = re.findall(r"device (\d+): (?:no trace: )?\d+ blocks? .*? and (\d+) segments? ", str(info["gaps"]))
    older = {int(device): int(segments) for device, segments in older}
    for device, cut in zip(devices, lost):
        if len(device.trace) == cut:
            continue
        states = device.states[cut:]
        before = device.states[cut - 1] if cut else ({}, {})
        assert older.get(device.index, 0) == len(device.segments(before))
        reserved = [sum(PAGE[pool] for pool, _ in pages.values()) for pages, _ in [before, *states]]
        row = rows[device.index]
        assert (row["reserved"], row["peak_reserved"]) == (reserved[-1], max(reserved))
        option = ("--device", str(device.index))
        told = told_segments(run_gpumem, path, *option)
        assert without_pool(told) == without_pool(device.segments())
        for segment in told:  # of free memory from before the trace the pool is not known for certain
            address, size = segment[:2]
            assert segment in device.segments() or not any(address <= block < address + size for block in device.blocks)
        entry = device.trace[cut]  # a free that was requested before the trace: its block shows for one event
        pending = entry["size"] if entry["action"] == "free_completed" else 0
        peak = max([pending, *(allocated(state) for state in [before, *states])])
        if peak:
            blocks = run_gpumem("blocks", path, "--at-peak", *option, "--json").check().json()
            assert blocks["allocated"] == peak
            at_peak = run_gpumem("segments", path, "--at-peak", *option, "--json").check().json()
            assert at_peak["allocated"] == peak
    for device, cut in zip(devices, lost):
        if len(device.trace) == cut or device.trace[-1]["action"] != "oom":
            continue
        oom = run_gpumem("oom", path, "--device", str(device.index), "--json").check().json()
        assert oom["device"] == device.index
        assert sum(row["bytes"] for row in oom["top"]) == allocated(device.states[-1])


@pytest.mark.parametrize("seed", range(12))
def test_what_was_mapped_before_a_trace_is_known(run_gpumem, tmp_path, seed):
    check(run_gpumem, tmp_path, seed)


@pytest.mark.long
def test_what_was_mapped_before_a_trace_is_known_in_many(run_gpumem, tmp_path):
    for seed in range(100, 400):
        check(run_gpumem, tmp_path, seed)
