"""Thread states: of threads that wait, each in frames of its own."""

import contextvars
import os
import signal
import sys
import threading
import time

import api
from agree import Unproved, learns, mix
from memory import WORD, Unreadable, read, u64, words
from of_frames import frame_data

SPAN = 1024  # more than the struct has; what is behind it is the heap's


class Waiting:
    """A thread that stands in a known frame until it is released."""

    def __init__(self, depth, in_generator):
        self.ready, self.done = threading.Lock(), threading.Lock()
        self.ready.acquire()
        self.done.acquire()
        self.depth, self.in_generator = depth, in_generator
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.ready.acquire()

    def run(self):
        self.context = contextvars.copy_context()
        self.context.run(self.below, self.depth)

    def below(self, depth):
        if depth:
            return self.below(depth - 1)
        self.state = api.address("PyThreadState_Get")
        self.ident, self.native = threading.get_ident(), threading.get_native_id()
        self.dict = api.address("PyThreadState_GetDict")
        self.error = ValueError(self.ident)
        if self.in_generator:
            list(self.waits_as_generator())
        else:
            self.waits()

    # What both call from here on is C: no frame of Python is left behind above theirs.
    def waits(self):
        try:
            raise self.error
        except ValueError:
            self.frame = sys._getframe()
            self.ready.release()
            self.done.acquire()

    def waits_as_generator(self):
        try:
            raise self.error
        except ValueError:
            self.frame = sys._getframe()
            self.ready.release()
            self.done.acquire()
        yield

    def end(self):
        self.done.release()
        self.thread.join()


class Threads:
    def __init__(self, depths, generators=False):
        self.waiting = []
        self.depths, self.generators = depths, generators

    def __enter__(self):
        for i, depth in enumerate(self.depths):
            self.waiting.append(Waiting(depth, self.generators and i % 4 < 2))
        return self.waiting

    def __exit__(self, *_):
        for one in self.waiting:
            one.end()


@learns("thread_next", "thread_interpreter", "thread_ident", "thread_native_id", "thread_context", "thread_dict",
        "thread_frame", "thread_cframe", "cframe_frame", "thread_exc_info", "exc_item_value")  # fmt: skip
def states(row):
    with Threads([0, 3, 1, 7, 2, 5, 4, 6], generators=True) as threads:
        from of_interpreter import Interpreters

        follows = [(t.state, api.address("PyThreadState_Next", t.state)) for t in threads]
        row.find("thread_next", follows, high=SPAN)
        for name in ("ident", "native", "context", "dict"):
            value = (
                (lambda t, name=name: getattr(t, name)) if name != "context" else (lambda t: id(t.context))
            )
            row.find("thread_native_id" if name == "native" else "thread_" + name,
                     [(t.state, value(t)) for t in threads], high=SPAN)  # fmt: skip
        frames = [(t, frame_data(row, t.frame)) for t in threads]
        row.find("thread_frame", [(t.state, f) for t, f in frames], high=SPAN)
        if "thread_frame" not in row:
            _two_steps(row, "thread_cframe", "cframe_frame", [(t.state, f) for t, f in frames], 64)
        _two_steps(row, "thread_exc_info", "exc_item_value", [(t.state, id(t.error)) for t in threads], 32)
        with Interpreters(2) as others:
            pairs = [(t.state, api.address("PyInterpreterState_Get")) for t in threads[:4]]
            row.find("thread_interpreter", mix(pairs, [(o.thread, o.state) for o in others] * 2), high=SPAN)


def _two_steps(row, outer, inner, samples, span):
    """A pointer in the thread's state, and a field where it leads to."""
    found = {}
    for half in (0, 1):
        for state, value in samples[half::2]:
            for at, word in enumerate(words(state, SPAN // WORD)):
                if word % WORD or not word:
                    continue
                try:
                    inside = words(word, span // WORD)
                except Unreadable:
                    continue
                for within, w in enumerate(inside):
                    if w == value:
                        found.setdefault((at * WORD, within * WORD), []).append(state)
    everywhere = [place for place, states in found.items() if len(set(states)) == len(samples)]
    if len(everywhere) != 1:
        why = "several ways lead to it: %s" % everywhere[:6] if everywhere else "no way leads to it"
        row.leave_out(outer, why)
        row.leave_out(inner, why)
        return
    ((a, b),) = everywhere
    row.prove(outer, a, [lambda at, s=s, v=v: u64(u64(s + at) + b) == v for s, v in samples[1::2]])
    row.prove(inner, b, [lambda at, s=s, v=v: u64(u64(s + a) + at) == v for s, v in samples[1::2]])


@learns("exc_item_previous")
def handled_errors(row):
    """A generator that handles an exception has an entry of its own, before that of its thread."""
    info, value = row["thread_exc_info"], row["exc_item_value"]
    state = api.address("PyThreadState_Get")
    outer = u64(state + info)
    samples = []

    def within(error, around):
        try:
            raise error
        except Exception:
            entry = u64(state + info)
            before = u64(entry + value) == id(error)
            found = {at for at in range(0, 40, 8) if u64(entry + at) == around}
            samples.append(found if before else set())
            yield entry

    for i in range(4):
        one = within(ValueError(i), outer)
        next(one)

    def nested(error):
        try:
            raise error
        except Exception:
            yield from within(KeyError(1), u64(state + info))

    for i in range(4):
        next(nested(IndexError(i)))
    common = set.intersection(*samples[0::2])
    if len(common) != 1:
        raise Unproved("several offsets fit" if common else "no offset fits")
    row.prove("exc_item_previous", common.pop(), [lambda at, s=s: at in s for s in samples[1::2]])


@learns("thread_chunk", "thread_chunk_top", "thread_chunk_limit", "chunk_previous", "chunk_data")
def chunks(row):
    """The memory that a thread's frames stand in, from 3.11 on: a list of chunks, each with its size."""
    row["frameobject_frame"]
    with Threads([0, 250, 410, 3, 1, 330, 370, 5, 290, 450]) as threads:
        samples = []
        for t in threads:
            places, frame = [], t.frame
            while frame:
                places.append((frame_data(row, frame), frame.f_code))
                frame = frame.f_back
            samples.append((t, places))

        def holds(t, places):
            def case(offset):
                chunk = u64(t.state + offset)
                size = u64(chunk + WORD)
                return (
                    chunk % 16 == 0
                    and size % 4096 == 0
                    and 0 < size <= 1 << 20
                    and chunk < places[0][0] < chunk + size
                )

            return case

        row.search("thread_chunk", [holds(*s) for s in samples], range(0, SPAN, 8))
        at = row["thread_chunk"]
        ends = [(t.state, u64(t.state + at) + u64(u64(t.state + at) + WORD)) for t, _ in samples]
        row.find("thread_chunk_limit", ends, high=SPAN)
        tops = [(t.state, _end_of(row, places[0])) for t, places in samples]
        row.find("thread_chunk_top", tops, high=SPAN)
        deep = [(u64(t.state + at), places) for t, places in samples if t.depth > 50]

        def before(chunk, places):
            start, size = chunk, u64(chunk + WORD)
            outside = next(p for p, _ in places if not start < p < start + size)

            def case(offset):
                other = u64(chunk + offset)
                return other % 16 == 0 and other < outside < other + u64(other + WORD) <= other + (1 << 20)

            return case

        deep = [(c, p) for c, p in deep if any(not c < q < c + u64(c + WORD) for q, _ in p)]
        row.search("chunk_previous", [before(c, p) for c, p in deep], range(0, 64, 8))

        def first(chunk, places):
            lowest = min(p for p, _ in places if chunk < p < chunk + u64(chunk + WORD))
            return lambda offset: chunk + offset == lowest

        row.search("chunk_data", [first(c, p) for c, p in deep], range(0, 128, 8))


def _end_of(row, place):
    from of_code import localsplus

    address, code = place
    return address + row["frame_localsplus"] + WORD * (len(localsplus(code)) + code.co_stacksize)


@learns("thread_raised")
def raised(row):
    """An exception that is raised and not yet handled: a child frees much meanwhile, and its thread's state is read."""
    state = api.address("PyThreadState_Get")
    handled = set()
    try:
        raise LookupError
    except LookupError as error:
        handled = {at * WORD for at, word in enumerate(words(state, SPAN // WORD)) if word == id(error)}
    found = [_raised_in_child(state, (ValueError, KeyError)[i & 1](i), handled) for i in range(4)]
    common = set.intersection(*found[0::2])
    if len(common) != 1:
        raise Unproved("several offsets fit: %s" % sorted(common) if common else "it was not seen")
    row.prove("thread_raised", common.pop(), [lambda at, f=f: at in f for f in found[1::2]])


def _raised_in_child(state, error, handled):
    """Where the exception is while it is raised, but not where it also is while it is handled."""
    go, going = os.pipe()
    child = os.fork()
    if not child:
        try:
            _raise_for_ever(error, going)
        finally:
            os._exit(1)
    os.close(going)
    seen = {}
    try:
        os.read(go, 1)
        memory = os.open("/proc/%d/mem" % child, os.O_RDONLY | os.O_CLOEXEC)
        try:
            until = time.time() + 3
            wanted = id(error).to_bytes(WORD, "little")
            while time.time() < until and max(seen.values(), default=0) < 5:
                data = read(state, SPAN // 2, memory)
                for at in set(range(0, len(data), WORD)) - handled:
                    if data[at : at + WORD] == wanted:
                        seen[at] = seen.get(at, 0) + 1
        finally:
            os.close(memory)
    finally:
        os.close(go)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return {at for at, count in seen.items() if count >= 3}


def _raise_for_ever(error, going):
    def fail():
        raise error

    os.write(going, b"x")
    while True:
        try:
            # The list is on the stack of values: it is freed on the way to the handler.
            print([[] for _ in range(100000)], fail())
        except Exception:
            error.__traceback__ = None


@learns("thread_size")
def size(row):
    """How much of the state is read: up to the last of the fields that were learned."""
    fields = [value for name, value in row.fields.items() if name.startswith("thread_")]
    if len(fields) < 6:
        raise Unproved("too few fields of threads were learned")
    row.fields["thread_size"] = max(fields) + WORD
