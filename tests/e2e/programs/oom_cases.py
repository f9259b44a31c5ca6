"""oom_cases.py OUT SEED...: programs made at random that run out of memory, each in a process of its own.

Of each, one line of JSON on OUT: what PyTorch's statistics say at the error, its text, and what became of the advice
when it was tried: the cache emptied, tensors of the missing size released, and the same program under expandable
segments. A seed makes the same requests whatever the settings.
"""

import contextlib
import ctypes
import json
import os
import random
import sys
import warnings

import torch

MIB = 1 << 20
DEVICE = 4 << 30  # as --sim=4GiB
KINDS = ["capacity", "pieces", "pieces", "mempool", "mempool and pieces", "outside", "expandable", "collected"]


requests = 0


def allocate(size):
    """The number of the request that fails is the same in every run of a seed, unless memory is handed out otherwise."""
    global requests
    requests += 1
    return torch.empty(size, dtype=torch.uint8, device="cuda")


class Program:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.kind = KINDS[seed % len(KINDS)]
        self.kept, self.pool = [], None

    def fill(self, share, sizes):
        """Takes a share of the device's memory in tensors of these sizes."""
        total, taken, made = DEVICE * share, 0, []
        while taken < total:
            size = self.rng.choice(sizes)
            made.append(allocate(size))
            taken += size
        return made

    def leave_holes(self, share):
        """Tensors that share segments, of which a part is released: never all of a segment."""
        if self.rng.random() < 0.5:  # one large segment, cut up
            large = allocate(int(share * DEVICE))
            size = self.rng.choice([20, 40, 60]) * MIB + self.rng.choice([0, 0, MIB])
            share *= 0.9
            del large
        else:
            size = self.rng.choice([3, 5, 8]) * MIB - self.rng.randrange(0, 4096, 512)
        made = self.fill(share, [size])
        self.kept += made[:: self.rng.choice([2, 3])]

    def run(self):
        rng, kind = self.rng, self.kind
        if kind == "outside":
            runtime, pointer = ctypes.CDLL(None), ctypes.c_void_p()
            torch.cuda.init()
            allocate(1)
            assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(int(rng.uniform(0.3, 0.6) * DEVICE) // MIB * MIB)) == 0
        self.kept += self.fill(rng.uniform(0.1, 0.3), [rng.randrange(30, 60) * MIB for _ in range(3)])
        if "pieces" in kind or kind in ("expandable", "collected"):
            self.leave_holes(rng.uniform(0.3, 0.5))
        if "mempool" in kind:
            self.pool = torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(self.pool):
                made = self.fill(rng.uniform(0.2, 0.4), [rng.randrange(20, 80) * MIB for _ in range(2)])
            del made
        self.last = rng.randrange(50, 300) * MIB
        # a program that asks for more and more ends in an error in any case; one that asks for so much may not
        limit = 1 << 50 if kind in ("capacity", "outside") else int(rng.uniform(0.7, 1.0) * DEVICE)
        while sum(one.numel() for one in self.kept) + self.last < limit:
            self.kept.append(allocate(self.last))


def free_pieces(skip):
    snapshot = torch.cuda.memory._snapshot()
    segments = [one for one in snapshot["segments"] if tuple(one["segment_pool_id"]) == (0, 0) or not skip]
    return sum(block["size"] for one in segments for block in one["blocks"] if block["state"] == "inactive")


def try_again(size):
    try:
        allocate(size)
        return True
    except torch.OutOfMemoryError:
        return False


def release(kept, missing):
    """Releases tensors that have segments of their own, of so many bytes in all; False: there are not so many."""
    freed = 0
    for index, tensor in enumerate(kept):
        if freed >= missing:
            break
        if tensor.numel() >= 20 * MIB:
            freed += tensor.numel()
            kept[index] = torch.empty(0)
    return freed >= missing


def base(seed, out):
    program = Program(seed)
    torch.cuda.memory._record_memory_history(max_entries=100000)
    try:
        program.run()
    except torch.OutOfMemoryError as error:
        text = str(error)
    else:
        return
    failed = requests
    free, total = torch.cuda.mem_get_info()
    stats = torch.cuda.memory_stats()
    snapshot = f"{sys.argv[1]}.{seed}.pickle"
    torch.cuda.memory._dump_snapshot(snapshot)
    told = {"seed": seed, "kind": program.kind, "pid": os.getpid(), "failed": failed, "text": text, "free": free, "total": total,
            "allocated": stats["allocated_bytes.all.current"], "reserved": stats["reserved_bytes.all.current"],
            "pieces": free_pieces(True), "private_free": free_pieces(False) - free_pieces(True), "snapshot": snapshot}  # fmt: skip
    torch.cuda.memory._record_memory_history(None)
    wanted = program.last if len(program.kept) else MIB
    torch.cuda.empty_cache()
    told["empty_cache"] = try_again(wanted)
    missing = max(0, -(-wanted // (2 * MIB)) * 2 * MIB - torch.cuda.mem_get_info()[0])
    told["free_memory"] = try_again(wanted) if release(program.kept, missing) else None
    told["wanted"] = wanted
    out.write(json.dumps(told) + "\n")
    out.flush()


def expandable(seed, out):
    failed = None
    try:
        Program(seed).run()
    except torch.OutOfMemoryError:
        failed = requests
    out.write(json.dumps({"seed": seed, "failed_expandable": failed}) + "\n")
    out.flush()


def set_allocator(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.cuda.memory._set_allocator_settings(text)


def main():
    with open(sys.argv[1], "a") as out:
        for seed in map(int, sys.argv[2:]):
            for what in (base, expandable):
                child = os.fork()
                if child:
                    os.waitpid(child, 0)
                    continue
                kind = KINDS[seed % len(KINDS)]
                settings = ["expandable_segments:True"] if what is expandable or kind == "expandable" else []
                settings += ["garbage_collection_threshold:0.6"] if kind == "collected" else []
                if settings:
                    set_allocator(",".join(settings))
                with contextlib.ExitStack() as last:
                    last.callback(os._exit, 1)
                    what(seed, out)
                    sys.stdout.flush()
                    last.pop_all()
                    sys.exit(0)


main()
