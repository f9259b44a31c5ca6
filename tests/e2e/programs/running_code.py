"""running_code.py SEED: threads that run functions, generators and coroutines within each other, made at random. Each thread's
code has one tensor: in a variable of one of its frames, or in an exception that a frame handles. Some tensors have one more
reference, which nothing in the process stands for. Prints [[address, whether it has that reference, whether it is in a variable]], and waits.
"""

import ctypes
import json
import random
import sys
import threading

import torch

THREADS = 16
tensors = []
here, end = threading.Semaphore(0), threading.Event()


class Carrier(Exception):
    pass


def take(step):
    if not step["takes"]:
        return None
    tensor = torch.empty(1 << 12)
    in_exception = step["handles"] and step["kind"] in ("function", "generator", "coroutine")
    tensors.append((hex(tensor.data_ptr()), step["lost"], not in_exception))
    if step["lost"]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
    return tensor


def go_on(plan):
    if not plan:
        here.release()
        end.wait()
    elif plan[0]["kind"] == "function":
        function(plan)
    elif plan[0]["kind"] == "generator":
        next(generator(plan))
    elif plan[0]["kind"] == "delegates":
        next(delegates(plan))
    elif plan[0]["kind"] == "coroutine":
        coroutine(plan).send(None)
    elif plan[0]["kind"] == "awaits":
        awaits(plan).send(None)
    else:
        asynchronous(plan).asend(None).send(None)


# The same lines stand in three of these: the exception has to be handled by the function's, generator's or coroutine's own frame.
def function(plan):
    held = take(plan[0])
    if plan[0]["handles"]:
        try:
            raise Carrier(held)
        except Carrier:
            del held
            go_on(plan[1:])
    else:
        go_on(plan[1:])


def generator(plan):
    held = take(plan[0])
    if plan[0]["handles"]:
        try:
            raise Carrier(held)
        except Carrier:
            del held
            go_on(plan[1:])
    else:
        go_on(plan[1:])
    yield


def delegates(plan):
    held = take(plan[0])  # noqa: F841
    yield from generator([{**plan[0], "takes": False}, *plan[1:]])


async def coroutine(plan):
    held = take(plan[0])
    if plan[0]["handles"]:
        try:
            raise Carrier(held)
        except Carrier:
            del held
            go_on(plan[1:])
    else:
        go_on(plan[1:])


async def awaits(plan):
    held = take(plan[0])  # noqa: F841
    await coroutine([{**plan[0], "takes": False}, *plan[1:]])


async def asynchronous(plan):
    held = take(plan[0])  # noqa: F841
    go_on(plan[1:])
    yield


def main(seed):
    rng = random.Random(seed)
    kinds = ["function", "generator", "delegates", "coroutine", "awaits", "asynchronous"]
    for _ in range(THREADS):
        plan = [{"kind": rng.choice(kinds), "takes": False, "handles": rng.random() < 0.3, "lost": False} for _ in range(rng.randint(1, 5))]
        rng.choice(plan).update(takes=True, lost=rng.random() < 0.3)
        threading.Thread(target=go_on, args=(plan,), daemon=True).start()
    for _ in range(THREADS):
        here.acquire()
    print(json.dumps(tensors), flush=True)
    end.wait()


main(int(sys.argv[1]))
