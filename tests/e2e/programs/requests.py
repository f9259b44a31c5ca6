"""Random requests of PyTorch's allocator, by a seed: sizes of all its classes, streams, frees that wait for another stream.

    requests.py SEED               makes them once
    requests.py SEED SETTING...    makes them in a process for each setting (PYTORCH_CUDA_ALLOC_CONF) and prints a line of JSON
                                   each: what PyTorch's own statistics say
"""

import json
import os
import random
import sys

LIVE = 900 << 20  # bytes that are allocated at once, at most
COUNT = 500
SIZES = ((1, 2_000), (1_000, 900_000), (1_000_000, 9_000_000), (10_000_000, 70_000_000))


def make(seed):
    """False: out of memory."""
    import torch

    chance = random.Random(seed)
    streams = [torch.cuda.default_stream()] + [torch.cuda.Stream() for _ in range(seed % 3)]
    weights = [chance.random() for _ in SIZES]
    live, total = [], 0
    try:
        for _ in range(COUNT):
            size = chance.randint(*chance.choices(SIZES, weights)[0])
            while total + size > LIVE:
                total -= live.pop(chance.randrange(len(live))).numel()
            with torch.cuda.stream(chance.choice(streams)):
                live.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            total += size
            if chance.random() < 0.1:
                live[-1].record_stream(chance.choice(streams))
            if chance.random() < 0.005:
                total = 0
                live.clear()
                torch.cuda.empty_cache()
    except torch.OutOfMemoryError:
        return False
    return True


def told(seed, setting):
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = setting
    import torch

    good = make(seed)
    stats = torch.cuda.memory_stats()
    peaks = {f"peak_{name}": stats[f"{name}_bytes.all.peak"] for name in ("allocated", "reserved")}
    print(json.dumps({**peaks, "retries": stats["num_alloc_retries"], "good": good}), flush=True)


def main():
    seed, *settings = sys.argv[1:]
    for setting in settings:
        child = os.fork()
        if child == 0:
            told(int(seed), setting)
            os._exit(0)
        os.waitpid(child, 0)
    if not settings:
        make(int(seed))


main()
