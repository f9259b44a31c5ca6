"""Frames and generators."""

import sys
import types

from agree import Unproved, learns
from memory import WORD, signed, u64, words

TAGS = ~7 & (1 << 64) - 1  # references from a frame may carry bits below (3.14 and later)
FRAME_SPAN = 128

CALLING = """
def call%(i)d(rest, a, b):
    local = object()
    cell = object()
    %(more)s
    def inside(): return cell
    return rest[0](rest[1:], local, cell)
"""
EXECUTED = "result = rest[0](rest[1:], object(), %d)"


class Seen:
    """A frame that runs just now, with what is known of it."""

    def __init__(self, frame, function=None, local_dict=None):
        self.frame, self.function, self.local_dict = frame, function, local_dict


def within_frames(count, then):
    """Calls `then(frames)` below a chain of unlike functions and executed texts, outermost first."""
    calls, functions = [], {}

    def last(rest, a, b):
        frames, frame = [], sys._getframe().f_back
        while frame and len(frames) < len(calls) - 1:
            name = frame.f_code.co_name
            if name.startswith("call") or name == "<module>":
                executed = name == "<module>"
                frames.append(Seen(frame, functions.get(name), frame.f_locals if executed else None))
            frame = frame.f_back
        return then(frames[::-1])

    def executor(i):
        def execute(rest, a, b):
            own = {"rest": rest}
            exec(
                compile(EXECUTED % i, "text%d" % i, "exec"),
                {"mark": i, "__builtins__": dict(_builtins())},
                own,
            )
            return own["result"]

        return execute

    for i in range(count):
        more = "\n    ".join("m%d = %d" % (k, k) for k in range(i % 5 + 1))
        globals_of = {"__builtins__": dict(_builtins())}
        exec(compile("\n" * i + CALLING % {"i": i, "more": more}, "calls%d" % i, "exec"), globals_of)
        functions["call%d" % i] = globals_of["call%d" % i]
        calls.append(globals_of["call%d" % i])
        if i % 3 == 2:
            calls.append(executor(i))
    calls.append(last)
    return calls[0](tuple(calls[1:]), object(), object())


def _builtins():
    return __builtins__ if isinstance(__builtins__, dict) else vars(__builtins__)


def frame_data(row, frame):
    """Where the interpreter's frame of a frame object is: from 3.11 on it is another struct."""
    if "frameobject_frame" in row:
        return u64(id(frame) + row["frameobject_frame"])
    return id(frame)


@learns("frameobject_frame", "frame_code", "frame_globals", "frame_builtins", "frame_locals", "frame_object",
        "frame_function", "frame_previous", "frame_instruction", "frame_lasti", "frame_localsplus",
        "frameobject_trace")  # fmt: skip
def frames(row):
    within_frames(12, lambda seen: _running(row, seen))


def _running(row, seen):
    size = types.FrameType.__basicsize__
    functions = [s for s in seen if s.function]
    executed = [s for s in seen if s.local_dict is not None]

    def has(frame):
        """A struct that has the frame's code, globals and builtins, and leads back to the frame object."""
        wanted = {id(frame.f_code), id(frame.f_globals), id(frame.f_builtins)}

        def case(offset):
            there = {w & TAGS for w in words(u64(id(frame) + offset), 9)}
            return wanted | {id(frame)} <= there

        return case

    if id(seen[0].frame.f_code) not in words(id(seen[0].frame), 8):
        row.search("frameobject_frame", [has(s.frame) for s in functions], range(16, 64, 8))
        row["frameobject_frame"]
    at = {id(s): frame_data(row, s.frame) for s in seen}

    def find(name, pairs, **more):
        row.find(name, [(at[id(s)], value) for s, value in pairs], high=FRAME_SPAN, mask=TAGS, **more)

    find("frame_code", [(s, id(s.frame.f_code)) for s in functions])
    find("frame_globals", [(s, id(s.frame.f_globals)) for s in seen])
    find("frame_builtins", [(s, id(s.frame.f_builtins)) for s in seen])
    find("frame_locals", [(s, id(s.local_dict)) for s in executed])
    if "frameobject_frame" in row:
        find("frame_object", [(s, id(s.frame)) for s in seen])
        find("frame_function", [(s, id(s.function)) for s in functions])
    callers = [
        (s, frame_data(row, s.frame.f_back)) for s in functions if s.frame.f_back.f_code.co_name[:4] == "call"
    ]
    find("frame_previous", callers)

    # The local variables that are arguments, in their order.
    def first_locals(s):
        expected = [id(s.frame.f_locals[name]) for name in ("rest", "a", "b", "local")]
        return lambda offset: [w & TAGS for w in words(at[id(s)] + offset, 4)] == expected

    limit = size + 64 if "frameobject_frame" not in row else FRAME_SPAN
    row.search("frame_localsplus", [first_locals(s) for s in functions], range(16, limit, 8))
    if "code_adaptive" in row:
        find("frame_instruction", [(s, id(s.frame.f_code) + row["code_adaptive"] + s.frame.f_lasti & TAGS)
                                   for s in functions])  # fmt: skip
    else:
        unit = 1 if sys.version_info < (3, 10) else 2
        row.find(
            "frame_lasti", [(at[id(s)], s.frame.f_lasti // unit) for s in seen], low=16, high=size, width=4
        )
    traces = []
    for s in functions:
        s.frame.f_trace = lambda *_: None
        traces.append((id(s.frame), id(s.frame.f_trace)))
    row.find("frameobject_trace", traces, low=16, high=size)
    for s in functions:
        s.frame.f_trace = None


@learns("stackref_tags", "stackref_uncounted")
def tags(row):
    """From 3.14 on the lowest bits of a slot say whether the reference is counted: one to None never is."""
    base, size = row["frame_localsplus"], 8

    def sample(i):
        def slots():
            kept, never, counted, small = [], None, object(), 5  # noqa: F841
            frame = sys._getframe()
            first = frame_data(row, frame) + base
            return dict(zip(frame.f_code.co_varnames, words(first, frame.f_code.co_nlocals))), id(counted), id(kept)

        return slots()

    seen = [sample(i) for i in range(size)]
    marked = {there["never"] ^ id(None) for there, *_ in seen} | {there["small"] ^ id(5) for there, *_ in seen}
    plain = {there["counted"] ^ counted for there, counted, _ in seen}
    plain |= {there["kept"] ^ kept for there, _, kept in seen}
    if plain != {0} or not marked <= {0, 1} or len(marked) != 1:
        raise Unproved("slots of frames hold neither addresses nor addresses with a lowest bit")
    # Two bits are the tags: no object's address has them.
    row.fields.update(stackref_uncounted=max(marked), stackref_tags=3 * max(marked))


@learns("frameobject_back")
def ended_frames(row):
    def make(i):
        names = {"sys": sys}
        exec("def inner(): return sys._getframe()\ndef outer(): return inner()", names)
        return names["outer"]()

    ended = [make(i) for i in range(8)]
    pairs = [(id(f), id(f.f_back)) for f in ended]
    row.find("frameobject_back", pairs, low=16, high=types.FrameType.__basicsize__)


def generators_made(count):
    """Generators that stand at a `yield` within so many loops, with so many variables."""
    made = []
    for i in range(count):
        loops = i % 4
        text = ["def generator(%s):" % ", ".join("a%d=%d" % (k, k) for k in range(i % 5 + 1))]
        for k in range(loops):
            text.append("    " * (k + 1) + "for x%d in (1, 2):" % k)
        text.append("    " * (loops + 1) + "yield")
        names = {}
        exec("\n".join(text), names)
        generator = names["generator"]()
        generator.__name__, generator.__qualname__ = "name%d" % i, "qualified.name%d" % i
        next(generator)
        made.append((generator, loops))
    return made


@learns("generator_frame", "generator_name", "generator_qualname", "generator_code", "generator_exc_value")
def generators(row):
    made = [g for g, _ in generators_made(12)]
    size = types.GeneratorType.__basicsize__
    row.find("generator_name", [(id(g), id(g.__name__)) for g in made], low=16, high=size)
    row.find("generator_qualname", [(id(g), id(g.__qualname__)) for g in made], low=16, high=size)
    kept = [g.gi_frame for g in made]
    if "frameobject_frame" in row:
        places = [(g, frame_data(row, f)) for g, f in zip(made, kept)]
        row.search(
            "generator_frame",
            [lambda o, g=g, p=p: id(g) + o == p for g, p in places],
            range(16, size + 64, 4),
        )
        limit = row["generator_frame"]
    else:
        row.find("generator_frame", [(id(g), id(f)) for g, f in zip(made, kept)], low=16, high=size)
        limit = size
    row.find("generator_code", [(id(g), id(g.gi_code)) for g in made], low=16, high=limit)

    def handling(error):
        try:
            raise error
        except Exception:
            yield error

    errors = [(ValueError, KeyError)[i & 1](i) for i in range(8)]
    busy = [handling(e) for e in errors]
    pairs = [(id(g), id(next(g))) for g in busy]
    row.find("generator_exc_value", pairs, low=16, high=size)


@learns("generator_state", "generator_finished")
def generator_state(row):
    if sys.version_info < (3, 11):
        raise Unproved("this version keeps the state in the frame")

    def new():
        yield running()

    def running():
        return [signed(id(g) + o, 1) for o in range(limit)]

    limit = row["generator_frame"]
    samples = []
    for _ in range(4):
        g = new()
        created = running()
        inside = next(g)
        suspended = running()
        list(g)
        ended = running()
        samples.append((created, suspended, inside, ended))
    # The numbers differ by version, but always by state, and one that has ended has the highest.
    cases = [lambda o, s=s: s[0][o] < s[1][o] < s[2][o] < s[3][o] for s in samples]
    row.search("generator_state", cases, range(16, limit))
    at = row["generator_state"]
    running_ones = {s[2][at] for s in samples}
    # All states above the running ones are of generators that have ended.
    row.prove("generator_finished", max(running_ones) + 1, [lambda n, s=s: s[2][at] < n <= s[3][at] for s in samples])


@learns("frame_owner")
def owners(row):
    """Who a frame's data belongs to: a thread 0, a generator 1, its frame object 2."""

    def ended(i):
        def inner():
            return sys._getframe()

        return inner()

    made = generators_made(6)
    suspended = [g.gi_frame for g, _ in made]
    done = [ended(i) for i in range(6)]

    def collect(seen):
        live = [s.frame for s in seen if s.function][:6]
        triples = []
        for a, b, c in zip(live, suspended, done):
            triples += [(frame_data(row, a), 0), (frame_data(row, b), 1), (frame_data(row, c), 2)]
        limit = row["frame_localsplus"]
        row.find("frame_owner", triples, low=0, high=limit, width=1)

    row["frameobject_frame"]
    within_frames(8, collect)
    del made


@learns("frame_stacktop", "frame_valuestack", "loop_slots")
def value_stacks(row):
    """How far the value stack of a suspended generator goes: so many values for each loop (from 3.15 on two)."""
    made = generators_made(16)
    kept = [g.gi_frame for g, _ in made]
    base = row["frame_localsplus"]
    samples = [(frame_data(row, f), len(localsplus_of(f.f_code)), loops) for f, (_, loops) in zip(kept, made)]

    def find(value, **more):
        for depth in (1, 2):
            row.missing.pop("frame_stacktop", None)
            row.find(
                "frame_stacktop",
                [(a, value(a, n, loops * depth)) for a, n, loops in samples],
                high=base,
                **more,
            )
            if "frame_stacktop" in row:
                row.fields["loop_slots"] = depth  # found with the rest, and proved with it
                return

    if sys.version_info >= (3, 14):
        find(lambda a, n, d: a + base + WORD * (n + d))
    elif sys.version_info >= (3, 11):
        find(lambda a, n, d: n + d, width=4)
    else:
        row.find("frame_valuestack", [(a, a + base + WORD * n) for a, n, _ in samples], low=16, high=base)
        if sys.version_info >= (3, 10):
            find(lambda a, n, d: d, low=16, width=4)
        else:
            find(lambda a, n, d: a + base + WORD * (n + d), low=16)


def localsplus_of(code):
    from of_code import localsplus

    return (
        localsplus(code)
        if sys.version_info >= (3, 11)
        else code.co_varnames + code.co_cellvars + code.co_freevars
    )
