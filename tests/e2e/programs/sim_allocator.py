"""A random program over PyTorch's allocator, checked at each step: what the device counts is what PyTorch says it reserved.

    python sim_allocator.py SEED STEPS      (settings by PYTORCH_CUDA_ALLOC_CONF); prints facts as JSON

At each step reserved_bytes of every device equals the device's own count. Now and then the whole state (the snapshot's
segments and blocks, memory_stats) is checked, and at the end PyTorch's own trace is replayed: it must give that state.
"""

import collections
import contextlib
import gc
import json
import os
import random
import sys

import torch

SEED, STEPS = int(sys.argv[1]), int(sys.argv[2])
SETTINGS = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
MIB = 1 << 20
DEVICES = range(torch.cuda.device_count())
NATIVE = torch.cuda.get_allocator_backend() == "native"
rng = random.Random(SEED)
checks = collections.Counter()
settings = dict(part.split(":", 1) for part in SETTINGS.split(",") if ":" in part) if "[" not in SETTINGS else {}


def stats(device):
    return collections.defaultdict(int, torch.cuda.memory_stats(device))


def outside(device):
    """What is used of a device and not PyTorch's: the same at all times."""
    free, total = torch.cuda.mem_get_info(device)
    return total - free - torch.cuda.memory_reserved(device)


for device in DEVICES:
    torch.zeros(1, device=device)
    torch.cuda.synchronize(device)
gc.collect()
torch.cuda.empty_cache()
OUTSIDE = [outside(device) for device in DEVICES]
assert all(torch.cuda.memory_reserved(device) == 0 for device in DEVICES) or not NATIVE
if NATIVE:
    torch.cuda.memory._record_memory_history(max_entries=10_000_000, context=None)


def agree(what):
    for device in DEVICES:
        assert outside(device) == OUTSIDE[device], f"{what}: cuda:{device}: {outside(device)} is not {OUTSIDE[device]}"
        checks["counts"] += 1


def check_state():
    """The snapshot's segments are tiled by blocks, and sum up to memory_stats."""
    if not NATIVE:
        return
    sums = collections.Counter()
    for segment in torch.cuda.memory._snapshot()["segments"]:
        device, at = segment["device"], segment["address"]
        before = None
        for block in segment["blocks"]:
            assert block["address"] == at, "blocks tile their segment"
            at += block["size"]
            assert block["size"] % 512 == 0 and block["requested_size"] <= block["size"] or block["state"] == "inactive"
            if block["state"] == "active_allocated":
                sums[device, "allocated"] += block["size"]
            if block["state"] != "inactive":
                sums[device, "active"] += block["size"]
            elif before == "inactive" and not segment["is_expandable"]:
                raise AssertionError("two free neighbours were not joined")
            before = block["state"]
        assert at == segment["address"] + segment["total_size"]
        sums[device, "reserved"] += segment["total_size"]
        limit = int(settings.get("max_split_size_mb", 0)) * MIB
        if limit and segment["total_size"] > limit and not segment["is_expandable"]:
            assert len(segment["blocks"]) == 1, "what is over the limit is not split"
    for device in DEVICES:
        now = stats(device)
        for word in ("allocated", "active", "reserved"):
            assert sums[device, word] == now[f"{word}_bytes.all.current"], (word, device)
    checks["states"] += 1


def replay():
    """PyTorch's trace, from nothing: what it says must be possible, and come to what is there now."""
    snapshot = torch.cuda.memory._snapshot()
    kinds = collections.Counter()
    for device, trace in enumerate(snapshot["device_traces"][: len(DEVICES)]):
        mapped, live, ending = {}, {}, {}  # address: size; pieces mapped are 2 MiB each
        for entry in trace:
            action, size = entry["action"], entry["size"]
            kinds[action] += 1
            if action in ("oom", "snapshot"):
                continue
            at = entry["addr"]
            if action == "segment_alloc":
                assert at not in mapped
                mapped[at] = size
            elif action == "segment_free":
                assert mapped.pop(at) == size, "a segment goes as it came"
            elif action == "segment_map":
                for page in range(at, at + size, 2 * MIB):
                    assert page not in mapped, "a page is mapped once"
                    mapped[page] = 2 * MIB
            elif action == "segment_unmap":
                for page in range(at, at + size, 2 * MIB):
                    assert mapped.pop(page) == 2 * MIB
            elif action == "alloc":
                assert at not in live and at not in ending, "an address is given out once"
                live[at] = size
            elif action == "free_requested":
                assert live[at] == size
                ending[at] = live.pop(at)
            elif action == "free_completed":
                assert ending.pop(at) == size
            else:
                raise AssertionError(f"{action} is no kind of event that is documented")
        now = stats(device)
        assert sum(mapped.values()) == now["reserved_bytes.all.current"], "segments come to what is reserved"
        assert sum(live.values()) + sum(ending.values()) == now["requested_bytes.all.current"]
        blocks = [b for s in snapshot["segments"] if s["device"] == device for b in s["blocks"]]
        assert sorted(live) == sorted(b["address"] for b in blocks if b["state"] == "active_allocated")
        assert sorted(ending) == sorted(b["address"] for b in blocks if b["state"] == "active_pending_free")
    return dict(kinds)


def size():
    most = rng.choice([300, 5_000, 200_000, MIB, 3 * MIB, 12 * MIB, 45 * MIB, 150 * MIB])
    return rng.randrange(1, most)


def random_program(steps, devices, pool=None, streams=3, graph=None):
    """Makes and lets go of tensors; of `pool` where one is given."""
    held = []
    sides = {device: [torch.cuda.Stream(device) for _ in range(streams)] for device in devices}
    for step in range(steps):
        device = rng.choice(devices)
        do = rng.random()
        with contextlib.ExitStack() as within:
            within.enter_context(torch.cuda.device(device))
            if pool and device == devices[0] and rng.random() < 0.7:
                within.enter_context(torch.cuda.use_mem_pool(pool, device=device))
            if graph is None and rng.random() < 0.3:
                within.enter_context(torch.cuda.stream(rng.choice(sides[device])))
            try:
                if do < 0.55:
                    held.append(torch.empty(size(), dtype=torch.uint8, device=device))
                    if graph is None and rng.random() < 0.1:
                        held[-1].record_stream(rng.choice(sides[device]))
                elif do < 0.9 and held:
                    held.pop(rng.randrange(len(held)))
                elif do < 0.93 and held:
                    held = held[len(held) // 2 :]
                elif do < 0.95 and graph is None:
                    torch.cuda.empty_cache()
                elif do < 0.97 and graph is None:
                    held.append(torch.empty(rng.randrange(1, MIB), dtype=torch.uint8).pin_memory())
                elif held:
                    held.append(held[rng.randrange(len(held))].view(-1)[1:])
            except torch.OutOfMemoryError:
                checks["oom"] += 1
                held.clear()
        agree(f"step {step}")
        if graph is None and step % 50 == 49:
            check_state()
    return held


def finish(what):
    gc.collect()
    for device in DEVICES:
        torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    agree(what)
    check_state()


fraction = settings.get("per_process_memory_fraction")
collecting = "garbage_collection_threshold" in settings
if collecting:  # it counts from a limit of the process's own
    torch.cuda.set_per_process_memory_fraction(0.5, 0)
    if "expandable" not in SETTINGS:
        part = torch.cuda.mem_get_info(0)[1] // 2
        threshold = float(settings["garbage_collection_threshold"]) * part
        torch.empty(int(0.6 * threshold), dtype=torch.uint8, device="cuda:0")  # let go of at once
        two = [torch.empty(int(each * threshold), dtype=torch.uint8, device="cuda:0") for each in (0.7, 0.65)]
        assert torch.cuda.memory_reserved(0) < 1.5 * threshold, "what lies idle is freed where the threshold is passed"
        del two

held = random_program(STEPS, [0])
check_state()
if collecting or fraction:
    total = torch.cuda.mem_get_info(0)[1]
    assert torch.cuda.max_memory_reserved(0) <= float(fraction or 0.5) * total, "the process keeps to its part"
del held
finish("one device")

held = random_program(STEPS, list(DEVICES))
check_state()
del held
finish("two devices")

if NATIVE:
    # What a capture makes stays in a pool of the graph's own until the graph is gone.
    pools = set()
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        with torch.cuda.graph(graph, stream=side):
            held = [torch.empty(MIB, dtype=torch.uint8, device="cuda:0")]  # chance may make nothing in a few steps
            held += random_program(STEPS // 5, [0], graph=graph)
        before = torch.cuda.memory_reserved(0)
        kept = sum(s["total_size"] for s in torch.cuda.memory._snapshot()["segments"] if s["segment_pool_id"] != (0, 0))
        held = None
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved(0) >= kept > 0, "a graph's pool is kept for its replays"
        graph.replay()
        agree("replay")
        check_state()
        pools.add(graph.pool())
        graph.reset()
        del graph
        finish("graph")
        left = [s for s in torch.cuda.memory._snapshot()["segments"] if s["segment_pool_id"] != (0, 0)]
        assert not left, "and given back after it"
        checks["graphs"] += 1

    if hasattr(torch.cuda, "MemPool"):  # from 2.5 on
        pool = torch.cuda.MemPool()
        held = random_program(STEPS, [0, *DEVICES[1:]], pool=pool)
        with torch.cuda.use_mem_pool(pool, device=0):
            held.append(torch.empty(MIB, dtype=torch.uint8, device="cuda:0"))  # chance may leave nothing
        check_state()
        segments = torch.cuda.memory._snapshot()["segments"]
        checks["pool_segments"] = sum(tuple(s["segment_pool_id"]) == tuple(pool.id) for s in segments)
        mine = sum(s["total_size"] for s in pool.snapshot())
        assert mine == sum(s["total_size"] for s in segments if tuple(s["segment_pool_id"]) == tuple(pool.id)) > 0
        del held, pool, segments
        finish("MemPool")

    # roundup_power2_divisions and the others decide a block's size; what is not asked for is the difference.
    rounded = []
    for asked in (1_200, 700_000, 3 * MIB - 1000, 9 * MIB + 1, 37 * MIB + 5):
        one = torch.empty(asked, dtype=torch.uint8, device="cuda:0")
        rounded.append(stats(0)["allocated_bytes.all.current"])
        del one
    finish("sizes")

facts = {"checks": checks, "reserved": [torch.cuda.memory_reserved(device) for device in DEVICES]}
if NATIVE:
    facts |= {"kinds": replay(), "rounded": rounded, "collected": stats(0)["num_alloc_retries"]}
print(json.dumps(facts))
