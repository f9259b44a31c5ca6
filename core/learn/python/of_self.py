"""What the probe says of itself while it stands still: the readers of gpumem, with the row that was learned, must
say the same (core/learn/python_prove.c). A line each."""

import collections
import functools
import gc
import sys
import threading
import types

import api
from agree import Unproved
from memory import u64, unsigned
from of_containers import split_classes
from of_frames import frame_data, generators_made
from of_interpreter import Other
from of_objects import Outer, Plain, Slotted, Slotted2
from of_threads import Waiting


def cells():
    inside = object()

    def function(a=object(), *, b=object()):
        "a function of the probe"
        return inside

    return function


def handled(value):
    yield value


class Bound:
    def method(self):
        pass


class Children(list):
    pass


def raised():
    def deep(n):
        if n:
            deep(n - 1)
        raise ValueError("the text of an exception", object())

    try:
        try:
            deep(5)
        except ValueError as before:
            raise KeyError("from it") from before
    except KeyError as error:
        return error


def _as_learned(row, address, *names, width=8):
    """Words that were found to be these fields, where they are now."""
    for name in names:
        if name in row:
            yield name, address, width, unsigned(address + row[name], width)


class Things:
    """Objects of every kind that has a layout of its own, kept alive."""

    def __init__(self):
        slots, more = Slotted(), Slotted2()
        slots.alpha, slots.beta, slots.gamma = object(), [1], {}
        more.delta, more.eta = [2], object()
        self.slots, self.split, self.given = slots, split_classes((5,))[0], split_classes((4,))[0]
        vars(self.given)  # a dict that its values still stand in the object for
        self.other = Plain()
        self.other.__dict__ = {"apart": [1], 7: [2]}
        function, error = cells(), raised()
        new, done = handled(1), handled(2)
        list(done)
        self.function = function
        deque = collections.deque([[n] for n in range(200)])
        for n in range(10):
            deque.appendleft([n])
        named = type("Named", (Outer.Inner,), {"__slots__": ("one", "two"), "kept": [1]})
        self.objects = [
            {n: [n] for n in range(40)}, {"k%d" % n: [n] for n in range(700)}, {(n, 1): {} for n in range(5)},
            [[n] for n in range(30)], tuple([n] for n in range(9)), {(n, "x") for n in range(50)}, {("y", 1)},
            frozenset([(1, [].append)]), deque, collections.deque([[1]]), function, function.__closure__[0],
            Bound().method, [1].append, len, property(function), classmethod(function), staticmethod(function),
            functools.partial(function, [1]), types.MappingProxyType({"m": [1]}), iter([[1], [2]]), iter(([1],)),
            error, error.__cause__, error.__traceback__, error.__cause__.__traceback__, types.ModuleType("made"),
            named, Outer, Slotted2, slots, more, self.split, self.given, self.other, Children([[1], [2]]),
            new, done, *[g for g, _ in generators_made(8)],
        ]  # fmt: skip
        self.error = error
        self.texts = [
            "plain",
            "caf\xe9",
            "\u0416\u0417",
            "\U0001f600!",
            "x" * 300,
            type("S", (str,), {})("\u0418 of a class"),
        ]


def kept_names(code):
    """Local variables that are no cells, with their slots."""
    return [(slot, name) for slot, name in enumerate(code.co_varnames) if name not in code.co_cellvars]


def frame_lines(native, frame):
    index = 0
    while frame:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        yield "frame %d %d %d %d %s %s" % (
            native,
            index,
            frame.f_lasti,
            frame.f_lineno,
            name,
            code.co_filename,
        )
        if code.co_flags & 1:  # CO_OPTIMIZED: its variables are in slots
            held = frame.f_locals
            for slot, local in kept_names(code):
                if local in held:
                    yield "local %d %d %d %d" % (native, index, slot, id(held[local]))
            del held
        frame, index = frame.f_back, index + 1


def traceback_lines(error):
    trace, lines = error.__traceback__, []
    while trace:
        lines.append(
            (trace.tb_lineno, getattr(trace.tb_frame.f_code, "co_qualname", trace.tb_frame.f_code.co_name))
        )
        trace = trace.tb_next
    for index, (line, name) in enumerate(lines[::-1]):
        yield "trace %d %d %d %s" % (id(error), index, line, name)


class Self:
    def __init__(self):
        gc.disable()  # what is said stays true
        self.things = Things()
        self.waiting = [
            Waiting(depth, in_generator) for depth, in_generator in ((0, False), (3, True), (300, False))
        ]
        for one in self.waiting:
            one.things = {"slots": self.things.slots, "split": self.things.split, "given": self.things.given,
                          "list": [[1], [2]], "dict": {"inner": [3], 4: [4]}, "other": self.things.other}  # fmt: skip
        self.watched = self.watch()
        try:
            self.others = [Other()]  # the list of interpreters then has two
        except Unproved:
            self.others = []
        self.old = [[n] for n in range(300)]
        gc.collect()
        self.young = [[n] for n in range(300)]

    def evaluations(self, one):
        things = one.things
        yield things["slots"].beta, "self.things['slots'].beta"
        yield things["split"].a3, "self.things['split'].a3"
        yield things["given"].a1, "self.things['given'].a1"
        yield things["list"][1], "self.things['list'][1]"
        yield things["dict"]["inner"], "self.things['dict']['inner']"
        yield things["dict"][4], "self.things['dict'][4]"
        yield things["other"].apart, "self.things['other'].apart"
        yield one.error, "self.error"

    def claims(self, row):
        """As agree.Row.claims(), of what moves about while it is learned: threads, frames, lists of the collector."""
        frames = sys._current_frames()
        for one in self.waiting:
            known = {"thread_ident": one.ident, "thread_native_id": one.native, "thread_dict": one.dict,
                     "thread_context": id(one.context), "thread_next": api.address("PyThreadState_Next", one.state),
                     "thread_interpreter": api.address("PyInterpreterState_Get")}  # fmt: skip
            yield from ((name, one.state, 8, value) for name, value in known.items() if name in row)
            if "thread_chunk" in row:
                yield from _as_learned(
                    row, one.state, "thread_chunk", "thread_chunk_top", "thread_chunk_limit"
                )
                yield from _as_learned(row, u64(one.state + row["thread_chunk"]), "chunk_previous")
                yield from _as_learned(row, u64(one.state + row["thread_chunk"]), "chunk_data")
            yield from _as_learned(row, one.state, "thread_raised", "thread_exc_info")
            if "thread_exc_info" in row:
                entry = u64(one.state + row["thread_exc_info"])
                yield from _as_learned(row, entry, "exc_item_value", "exc_item_previous")
            frame = frames[one.ident]
            for _ in range(4):
                yield from self.frame_claims(row, frame)
                frame = frame.f_back
        del frames, frame
        yield from self.object_claims(row)
        for o in self.old[:6]:
            yield from _as_learned(row, id(o) - row["gc_head_size"], "gc_head_next", "gc_head_previous")
        state = api.address("PyInterpreterState_Get")
        yield from _as_learned(row, state, "interpreter_next", "interpreter_threads", "interpreter_modules",
                               "interpreter_builtins", "interpreter_generations", "interpreter_permanent")  # fmt: skip
        start = api.symbol("_PyRuntime") or 0
        if "runtime_interpreters_head" in row:
            yield "runtime_interpreters_head", start, 8, api.address("PyInterpreterState_Head")
        if "runtime_initialized" in row:
            yield from _as_learned(row, start, "runtime_initialized", width=4)

    def object_claims(self, row):
        """Of fields that are found by other means than by their values."""
        width = 8 if not (3, 10) <= sys.version_info[:2] < (3, 14) else 4
        for g in self.things.objects:
            if type(g) is types.GeneratorType:
                if g.gi_frame:
                    yield from _as_learned(row, frame_data(row, g.gi_frame), "frame_stacktop", width=width)
                yield from _as_learned(row, id(g), "generator_state", width=1)
        function = self.things.function
        function.__annotations__ = {"a": int}
        yield from _as_learned(row, id(function), "function_annotations", "function_annotate")
        for code in (Self.claims.__code__, raised.__code__, cells.__code__):
            yield from _as_learned(row, id(code), "code_locals_names", "code_locals_kinds")
            yield from _as_learned(row, id(code), "code_version", width=4)
        code = self.watched.__code__
        yield from _as_learned(row, id(code), "code_monitoring")
        if "code_monitoring" in row:
            data = u64(id(code) + row["code_monitoring"])
            yield from _as_learned(row, data, "monitoring_lines", "monitoring_opcodes")

    def watch(self):
        """Leaves a function watched, which puts its instructions aside."""

        def watched(x):
            y = x + 1
            return [y for y in range(y)]

        if hasattr(sys, "monitoring"):
            watch, tool = sys.monitoring, sys.monitoring.DEBUGGER_ID
            watch.use_tool_id(tool, "probe")
            watch.register_callback(tool, watch.events.LINE, lambda *_: None)
            watch.register_callback(tool, watch.events.INSTRUCTION, lambda *_: None)
            watch.set_local_events(tool, watched.__code__, watch.events.INSTRUCTION | watch.events.LINE)
            watched(2)
        return watched

    def frame_claims(self, row, frame):
        data = frame_data(row, frame)
        yield from _as_learned(row, data, "frame_code", "frame_globals", "frame_builtins", "frame_object",
                               "frame_previous", "frame_locals", "frame_function", "frame_valuestack")  # fmt: skip
        frame.f_trace = self.trace = lambda *_: None
        if "frameobject_trace" in row:
            yield "frameobject_trace", id(frame), 8, id(frame.f_trace)

    def lines(self, row):
        frames = sys._current_frames()
        this = threading.get_native_id()
        yield "thread %d %d" % (this, threading.get_ident())
        for one in self.waiting:
            yield "thread %d %d" % (one.native, one.ident)
            yield from frame_lines(one.native, frames[one.ident])
            for value, expression in self.evaluations(one):
                yield "evaluate %d %d %s" % (one.native, id(value), expression)
            yield "held %d" % id(one.error)
            yield "held %d" % one.dict
            yield "held %d" % id(one.context)
        del frames
        one = []
        beside = sys.getrefcount(one)  # of a variable, and of the argument where it counts
        for o in self.things.objects:
            yield "object %d %d %s" % (id(o), type(o).__basicsize__, type(o).__name__)
            tracked = [id(r) for r in gc.get_referents(o) if r is not type(o) and gc.is_tracked(r)]
            yield "refers %d %s" % (id(o), " ".join(map(str, tracked)))
            if type(o) not in (type, types.BuiltinFunctionType):
                yield "count %d %d" % (id(o), sys.getrefcount(o) - beside)
        for name in ("code_size", "type_size", "generator_finished", "loop_slots", "stackref_tags"):
            if name in row:
                yield "size %s %d" % (name, row[name])
        for text in self.things.texts:
            yield "text %d %s" % (id(text), text.encode().hex())
        yield "said %d %s" % (
            id(self.things.error.__cause__),
            self.things.error.__cause__.args[0].encode().hex(),
        )
        yield from traceback_lines(self.things.error.__cause__)
        for name in ("sys", "builtins", "gc", "types"):
            module = sys.modules[name]
            yield "module %d %d %s" % (id(module), id(vars(module)), name)
        for one in self.old[::7] + self.young[::7]:
            yield "tracked %d" % id(one)
