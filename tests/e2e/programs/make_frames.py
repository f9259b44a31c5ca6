"""Writes programs whose threads stand in deep stacks of many kinds of Python frames: functions, recursion, generators, coroutines,
code from exec(), and functions that C code calls back. Each program tells its own frames (sys._current_frames())."""

import random

HEAD = '''import functools, json, os, re, signal, sys, threading, time

def chain(frame):
    """Innermost first: file, function, line, whole numbers among the variables."""
    found = []
    while frame:
        code = frame.f_code
        numbers = {name: value for name, value in frame.f_locals.items() if type(value) is int}
        found.append([code.co_filename, getattr(code, "co_qualname", code.co_name), frame.f_lineno, numbers])
        frame = frame.f_back
    return found

'''

# One function each: it calls FOLLOW with a number.
KINDS = {
    "plain": """
def NAME(a, b=3, *more, key=5, **others):
    x = a * 2
    if a < 0:
        never = 1
    return FOLLOW(x + 1)
""",
    "recursion": """
def NAME(a, left=DEPTH):
    here = a + left
    if left:
        return NAME(a, left - 1)
    return FOLLOW(here)
""",
    "generator": """
def NAME(a):
    def make(inner):
        y = inner + 1
        yield FOLLOW(y)
    for value in make(a + 10):
        return value
""",
    "yield from": """
def NAME(a):
    def last(n):
        m = n + 1
        yield FOLLOW(m)
    def middle(n):
        k = n * 3
        yield from last(k)
    return next(middle(a))
""",
    "generator in C": """
def NAME(a):
    def make():
        own = a + 1
        yield FOLLOW(own)
    return list(make())
""",
    "coroutine": """
def NAME(a):
    async def last(n):
        m = n - 1
        return FOLLOW(m)
    async def first(n):
        k = n + 7
        return await last(k)
    try:
        first(a).send(None)
    except StopIteration as over:
        return over.value
""",
    "asynchronous generator": """
def NAME(a):
    async def make(n):
        m = n + 2
        yield FOLLOW(m)
    async def first(n):
        k = n + 1
        async for value in make(k):
            return value
    try:
        first(a).send(None)
    except StopIteration as over:
        return over.value
""",
    "exec": """
def NAME(a):
    names = {"follow": FOLLOW, "a": a}
    exec(compile("def made(p):\\n    q = p + 1\\n    return follow(q)\\nmade(a)\\n", "<made for NAME>", "exec"), names)
""",
    "eval": """
def NAME(a):
    e = a + 4
    return eval("follow(e)", {"follow": FOLLOW, "e": e})
""",
    "map": """
def NAME(a):
    return list(map(lambda v: FOLLOW(v + 1), [a]))
""",
    "sorted": """
def NAME(a):
    def order(item):
        doubled = item * 2
        return FOLLOW(doubled)
    return sorted([a], key=order)
""",
    "reduce and partial": """
def NAME(a):
    def join(factor, left, right):
        both = left + right * factor
        return FOLLOW(both)
    return functools.reduce(functools.partial(join, 2), [a, 1])
""",
    "regular expression": """
def NAME(a):
    def replace(match):
        position = match.start() + a
        FOLLOW(position)
        return ""
    return re.sub("x", replace, "--x")
""",
    "special methods": """
def NAME(a):
    class Number:
        def __init__(self, n):
            self.n = n
        def __add__(self, other):
            both = self.n + other
            return self[both]
        def __getitem__(self, key):
            index = key + 1
            return getattr(self, "a" + str(index))
        def __getattr__(self, name):
            part = int(name[1:])
            return FOLLOW(part)
    return Number(a) + 1
""",
    "destruction": """
def NAME(a):
    class Dies:
        def __del__(self):
            last = a + 6
            FOLLOW(last)
    dies = Dies()
    del dies
""",
    "class body": """
def NAME(a):
    class Body:
        before = a + 1
        made = FOLLOW(before)
    return Body
""",
    "comprehension": """
def NAME(a):
    c = a + 1
    return [FOLLOW(c + n) for n in range(1)]
""",
    "cells": """
def NAME(a):
    held = a + 11
    def inner():
        nonlocal held
        held += 1
        return FOLLOW(held)
    return inner()
""",
    "handlers": """
def NAME(a):
    caught = 0
    try:
        raise ValueError(a)
    except ValueError as error:
        caught = error.args[0] + 1
        try:
            pass
        finally:
            return FOLLOW(caught)
""",
    "context manager": """
def NAME(a):
    class Enters:
        def __enter__(self):
            entered = a + 2
            return FOLLOW(entered)
        def __exit__(self, *why):
            pass
    with Enters():
        pass
""",
    "wide": """
def NAME(a):
    ASSIGNMENTS
    return FOLLOW(w0 + w99)
""",
}

STANDS = '''
def stands(thread):
    # whether it is in its read: its frames stay as they are then
    with open(f"/proc/self/task/{thread.native_id}/syscall") as file:
        return file.read().startswith(f"0 {wakes:#x} ")

def end(a):
    depth = a
    os.read(wakes, 1)

wakes, _ = os.pipe()
threads = [threading.Thread(target=first, args=(number,), daemon=True) for number, first in enumerate(STARTS)]
for thread in threads:
    thread.start()
while not all(map(stands, threads)):
    time.sleep(0.01)
frames = sys._current_frames()
print(json.dumps({thread.native_id: chain(frames[thread.ident]) for thread in threads}), flush=True)
sys.stdin.read()
'''

STOPS = '''
def end(a):
    depth = a
    print(json.dumps(chain(sys._getframe())), flush=True); os.kill(os.getpid(), signal.SIGUSR1)

STARTS[0](1)
'''


def functions(seed):
    """Functions that call each other: each kind once and some twice, in a random order; the last one calls end()."""
    rng = random.Random(seed)
    kinds = [*KINDS, *rng.choices(list(KINDS), k=6)]
    rng.shuffle(kinds)
    text = HEAD
    for number, kind in enumerate(kinds):
        follow = f"f{number + 1}" if number + 1 < len(kinds) else "end"
        wide = "; ".join(f"w{n} = a + {n}" for n in range(100))
        made = KINDS[kind].replace("ASSIGNMENTS", wide).replace("DEPTH", str(rng.randint(1, 30)))
        text += f"# {kind}" + made.replace("FOLLOW", follow).replace("NAME", f"f{number}")
    return text, len(kinds), rng


def standing_threads(seed):
    text, count, rng = functions(seed)
    starts = ["f0", *(f"f{rng.randrange(count)}" for _ in range(2))]
    return text + STANDS.replace("STARTS", f"[{', '.join(starts)}]")


def stopping(seed):
    """Tells its frames and sends itself SIGUSR1 in the same line."""
    text, _, _ = functions(seed)
    return text + STOPS.replace("STARTS", "[f0]")
