"""releases.py: blocks of 1 MiB, each released by a line that says what releases it: `# -> KIND`, as `why` has to tell it."""

import asyncio
import collections
import contextvars
import functools
import heapq
import queue

import torch


def make():
    return torch.zeros(1 << 18, device="cuda")


async def awaited():
    kept = make()  # noqa: F841
    await asyncio.sleep(0)


async def awaits():
    await awaited()  # -> generator_end


def generator():
    kept = make()  # noqa: F841
    yield 1
    yield 2


def delegates():
    yield from generator()  # -> generator_end


def gives():
    kept = make()
    return [kept]


@functools.lru_cache
def cached(number):
    return make()


asyncio.run(awaits())
for _ in delegates():
    pass
gives()  # -> result_dropped
begun = generator()
next(begun)
begun.close()  # -> generator_end
cached(1)
cached.cache_clear()  # -> container_change
waiting = queue.Queue()
waiting.put(make())
waiting.get()  # -> container_change
simple = queue.SimpleQueue()
simple.put(make())
simple.get()  # -> container_change
heap = [(1, make())]
heapq.heappop(heap)  # -> container_change
ends = collections.deque([make()])
ends.popleft()  # -> container_change
table = {"a": make()}
table |= {"a": None}  # -> container_change
resized = make()
resized.untyped_storage().resize_(0)  # -> storage_change
other = torch.zeros(1, device="cuda")
moved = make()
moved.set_(other)  # -> storage_change
variable = contextvars.ContextVar("variable")
variable.set(None)
token = variable.set(make())
variable.reset(token)  # -> container_change
weight = torch.nn.Parameter(torch.zeros(512, 1024, device="cuda"))
with torch.autocast("cuda", torch.float16):  # -> autocast_cache
    weight @ torch.zeros(1024, 1, device="cuda")
leaf = torch.nn.Parameter(make())
loss = leaf.sum()
del leaf
loss = None  # -> autograd_release
held = make()
held = None  # -> rebound
a = make() * 2  # -> temporary
