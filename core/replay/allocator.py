"""Makes the requests of a recording again, of PyTorch's caching allocator: started by core/replay/run.c.

Arguments: the settings, one process each. Standard input: the requests (see read_requests). Standard output, the lines that
run.c reads: "version V", and of each setting "result N ..." or "refused N WHY".
"""

import array
import ctypes
import os
import signal
import struct
import sys
import time

ALLOC, FREE, EMPTY_CACHE, REFUSED = 1, 2, 3, 4
PR_SET_PDEATHSIG = 1  # prctl(2)


def read_requests():
    """Head of 2 u64: how many requests and streams. Then the kinds (u8), the numbers (i64), the streams (u16)."""
    data = sys.stdin.buffer.read()
    count, streams = struct.unpack_from("<2Q", data)
    numbers, of = array.array("q"), array.array("H")
    kinds = data[16 : 16 + count]
    numbers.frombytes(data[16 + count : 16 + 9 * count])
    of.frombytes(data[16 + 9 * count : 16 + 11 * count])
    assert len(of) == count
    return kinds, numbers, of, streams


def replay(kinds, numbers, of, streams):
    """(how far it came, what was asked for there, of the refused how many were got)"""
    import torch

    allocate, give_back = torch._C._cuda_cudaCachingAllocator_raw_alloc, torch._C._cuda_cudaCachingAllocator_raw_delete
    handles = [0] + [created(torch) for _ in range(streams - 1)]
    of = [handles[i] for i in of]
    live, got, at = [], 0, 0
    keep = live.append
    try:
        for at, (kind, number, stream) in enumerate(zip(kinds, numbers, of)):
            if kind == ALLOC:
                keep(allocate(number, stream))
            elif kind == FREE:
                give_back(live[number])
            elif kind == EMPTY_CACHE:
                torch.cuda.empty_cache()
            else:
                try:
                    give_back(allocate(number, stream))
                    got += 1
                except torch.OutOfMemoryError:
                    pass
    except torch.OutOfMemoryError:
        return at, numbers[at], got
    return len(kinds), 0, got


def created(torch):
    """A stream of its own: PyTorch's pool has 32 and hands them out again."""
    handle = array.array("Q", [0])
    assert torch.cuda.cudart().cudaStreamCreate(handle.buffer_info()[0]) == torch.cuda.cudart().cudaError.success
    return handle[0]


def answer(index, requests):
    import torch

    try:
        torch.cuda.init()
        torch.cuda.memory_stats()
    except Exception as error:  # noqa: BLE001: whatever PyTorch raises for a setting that it does not know
        return f"refused {index} {' '.join(str(error).split())[:200]}"
    begin = time.monotonic()
    at, size, got = replay(*requests)
    took = time.monotonic() - begin
    stats = torch.cuda.memory_stats()
    names = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "inactive_split_bytes.all.peak", "num_alloc_retries")
    numbers = [stats[name] for name in names] + [got, at, size, stats["reserved_bytes.all.current"], round(took * 1e6)]
    return f"result {index} " + " ".join(map(str, numbers))


def main():
    requests = read_requests()
    import torch  # before the processes part: each would take as long again

    print("version", torch.__version__, flush=True)
    for index, setting in enumerate(sys.argv[1:]):
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            # PyTorch reads it when it first allocates
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = setting
            print(answer(index, requests), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"the replay with {setting!r} ended by {status}")


main()
