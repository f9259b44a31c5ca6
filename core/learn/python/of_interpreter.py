"""The runtime, interpreters and the garbage collector's lists."""

import builtins
import gc
import os
import sys
import threading

import api
from agree import Unproved, learns
from memory import WORD, Unreadable, read_most, u64, unsigned, words

RUNTIME_SPAN = 1 << 14
INTERPRETER_SPAN = 1 << 17  # 3.12 and later keep much in it; what is looked for is in its first part
MAIN_SPAN = 1 << 14


def _module():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return __import__(name)
        except ImportError:
            pass
    raise Unproved("this build has no module that starts interpreters")


class Other:
    """An interpreter with a thread that waits in it."""

    def __init__(self):
        self.module = _module()
        before = set(all_interpreters())
        self.number = self.module.create()
        (self.state,) = set(all_interpreters()) - before
        self.answers, writing = os.pipe()
        self.waits, self.lets = os.pipe()
        source = ("import os, sys, builtins\n"
                  "os.write(%d, b'%%d %%d.' %% (id(sys.modules), id(vars(builtins))))\n"
                  "os.read(%d, 1)\n" % (writing, self.waits))  # fmt: skip
        self.thread_of = threading.Thread(target=self.run, args=(source, writing), daemon=True)
        self.thread_of.start()
        text = b""
        while not text.endswith(b"."):
            more = os.read(self.answers, 100)
            text += more
        self.modules, self.builtins = map(int, text[:-1].split())
        self.thread = api.address("PyInterpreterState_ThreadHead", self.state)
        os.close(writing)

    def run(self, source, writing):
        try:
            self.module.run_string(self.number, source)
        except Exception:
            os.write(writing, b"0 0.")

    def end(self):
        os.write(self.lets, b"x")
        self.thread_of.join()
        for fd in (self.answers, self.waits, self.lets):
            os.close(fd)
        self.module.destroy(self.number)


class Interpreters:
    def __init__(self, count):
        self.count, self.others = count, []

    def __enter__(self):
        for _ in range(self.count):
            self.others.append(Other())
        return self.others

    def __exit__(self, *_):
        for other in self.others:
            other.end()


def all_interpreters():
    found, state = [], api.address("PyInterpreterState_Head")
    while state and len(found) < 64:
        found.append(state)
        state = api.address("PyInterpreterState_Next", state)
    return found


def runtime():
    address = api.symbol("_PyRuntime")
    if not address:
        raise Unproved("this build hides _PyRuntime")
    return address


@learns("runtime_interpreters_head", "interpreter_next", "interpreter_threads", "interpreter_modules",
        "interpreter_builtins")  # fmt: skip
def interpreters(row):
    start = runtime()
    this = api.address("PyInterpreterState_Get")
    heads, follows, threads = [], [], []

    def moment():
        """What holds just now: the list's first, by offset, while more and more are started."""
        data = words(start, RUNTIME_SPAN // WORD)
        heads.append({i * WORD for i, w in enumerate(data) if w == api.address("PyInterpreterState_Head")})

    moment()
    with Interpreters(1) as first:
        moment()
        with Interpreters(3) as others:
            others = others + first
            moment()
            known = all_interpreters()
            follows = list(zip(known, known[1:] + [0]))
            row.find("interpreter_next", follows, high=INTERPRETER_SPAN)
            states = [this] + [o.state for o in others]
            threads = [(s, api.address("PyInterpreterState_ThreadHead", s)) for s in states]
            row.find("interpreter_threads", threads, high=INTERPRETER_SPAN)
            modules = [(o.state, o.modules) for o in others] + [(this, id(sys.modules))]
            row.find("interpreter_modules", modules, high=INTERPRETER_SPAN)
            dicts = [(o.state, o.builtins) for o in others] + [(this, id(vars(builtins)))]
            row.find("interpreter_builtins", dicts, high=INTERPRETER_SPAN)
    moment()
    common = heads[1] & heads[0]
    if len(common) != 1:
        raise Unproved("several offsets fit: %s" % sorted(common) if common else "no offset fits")
    row.prove("runtime_interpreters_head", common.pop(), [lambda at, h=h: at in h for h in heads[2:]])


@learns("runtime_initialized")
def initialized(row):
    """The number that Py_IsInitialized() returns: a child changes each that may be it, for a moment.

    It stands before the list of interpreters; behind that are objects, which must not be changed.
    """
    import ctypes

    start = runtime()
    candidates = [o for o in range(0, row["runtime_interpreters_head"], 4) if unsigned(start + o, 4) == 1]
    is_initialized = ctypes.pythonapi.Py_IsInitialized

    def ask():
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                for offset in candidates:
                    cell = ctypes.c_int.from_address(start + offset)
                    cell.value = 0
                    answer = is_initialized()
                    cell.value = 1
                    if not answer:
                        os.write(writing, b"%d " % offset)
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answers:
            found = answers.read().split()
        os.waitpid(child, 0)
        return found

    first = ask()
    if len(first) != 1:
        raise Unproved("%d numbers change what Py_IsInitialized() returns" % len(first))
    row.prove(
        "runtime_initialized",
        int(first[0]),
        [lambda at: ask() == [b"%d" % at], lambda at: is_initialized() == 1],
    )


@learns("pool_size")
def pools(row):
    """Small objects of one size stand in pools: a head of 48 bytes, then one behind the other."""
    head = 48

    def fits(made, size):
        def case(pool):
            return all((address % pool - head) % size == 0 and address % pool >= head for address in made)

        return case

    cases, kept = [], []
    for size in (272, 304, 208, 336, 176, 368):  # none of them divides a pool
        objects = [bytes(size - bytes.__basicsize__) for _ in range(1000)]
        kept.append(objects)
        cases.append(fits([id(o) for o in objects], size))
    row.search("pool_size", cases, [1 << bits for bits in range(10, 21)])


@learns("gc_head_size", "gc_head_next", "gc_head_previous")
def heads(row):
    """gc.get_objects() tells a generation's objects in the order of its list: heads lead from each to the next."""
    kept = [[] for _ in range(500)]
    gc.collect()
    objects = gc.get_objects(generation=2)
    inside = [(id(objects[i - 1]), id(objects[i]), id(objects[i + 1])) for i in range(50, 450)]

    def agree(samples, index):
        votes = {}
        for sample in samples:
            for back in range(8, 65, 8):
                word = u64(sample[1] - back) & ~3
                distance = sample[index] - word
                votes[back, distance] = votes.get((back, distance), 0) + 1
        return {place for place, count in votes.items() if count == len(samples)}

    after = agree(inside[0::2], 2), agree(inside[1::2], 2)
    before = agree(inside[0::2], 0), agree(inside[1::2], 0)
    if len(after[0]) != 1 or after[0] != after[1] or len(before[0]) != 1 or before[0] != before[1]:
        raise Unproved("the heads of tracked objects do not agree")
    ((next_back, size),) = after[0]
    ((previous_back, other),) = before[0]
    if size != other:
        raise Unproved("forward and backward links disagree")
    row.fields.update(gc_head_size=size, gc_head_next=size - next_back, gc_head_previous=size - previous_back)
    del kept


@learns("interpreter_generations", "gc_generation_size", "gc_generation_count", "interpreter_permanent")
def generations(row):
    """Each generation is a list's head with its threshold and count; gc.freeze() moves all to one more."""
    this = api.address("PyInterpreterState_Get")
    before = gc.get_threshold()
    thresholds = (700021, 1013, 1019), (800029, 1021, 1031)
    found = []
    try:
        for three in thresholds:
            gc.set_threshold(*three)
            data = read_most(this, INTERPRETER_SPAN)
            found.append([{o for o in range(0, len(data), 4) if data[o : o + 4] == t.to_bytes(4, "little")}
                          for t in three])  # fmt: skip
    finally:
        gc.set_threshold(*before)
    places = [found[0][i] & found[1][i] for i in range(3)]
    if not all(len(p) == 1 for p in places):
        raise Unproved("the thresholds of the generations were not found, or not once")
    at = [min(p) for p in places]
    size = at[1] - at[0]
    head = 2 * WORD
    first = at[0] - head

    def is_list(offset):
        """A ring that leads back to its head."""
        start = this + offset
        try:
            return u64((u64(start) & ~3) + WORD) & ~3 == start and u64(u64(start + WORD) & ~3) & ~3 == start
        except Unreadable:
            return False

    def holds(generation):
        def case(offset):
            mine = gc.get_objects(generation=generation)
            start = this + first + generation * size if offset is None else this + offset
            last = u64(start + WORD) & ~3
            return is_list(start - this) and (
                not mine or any(id(o) == last + row["gc_head_size"] for o in mine[-64:])
            )

        return case

    gc.collect()
    kept = [[] for _ in range(50)]
    row.prove(
        "gc_generation_size",
        size,
        [lambda s: at[2] - at[1] == s, lambda s: is_list(first + s), lambda s: is_list(first + 2 * s)],
    )
    row.prove("interpreter_generations", first, [lambda o: is_list(o), lambda o: holds(2)(first + 2 * size)])
    row.prove(
        "gc_generation_count",
        len(gc.get_count()),
        [lambda n: n == len(gc.get_stats()), lambda n: n == len(before)],
    )
    candidates = [o for o in range(0, at[2] + 512, 8) if is_list(o)]

    def has(offset, wanted):
        """Is the object in the list that begins there?"""
        start, link = this + offset, u64(this + offset)
        for _ in range(1 << 17):
            if link == start or link == wanted:
                return link == wanted
            link = u64(link + row["gc_head_next"]) & ~3
        return False

    def filled():
        marker = [[]]
        wanted = id(marker) - row["gc_head_size"]
        gc.disable()
        before = [o for o in candidates if has(o, wanted)]
        gc.freeze()
        try:
            return [o for o in candidates if o not in before and has(o, wanted)]
        finally:
            gc.unfreeze()
            gc.enable()

    once = filled()
    if len(once) != 1:
        raise Unproved(
            "several lists are filled by gc.freeze(): %s" % once
            if once
            else "no list is filled by gc.freeze()"
        )
    row.prove(
        "interpreter_permanent",
        once[0],
        [lambda o: filled() == [o], lambda o: is_list(o) and filled() == [o]],
    )
    del kept
