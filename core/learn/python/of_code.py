"""Code objects."""

import collections.abc
import dis
import opcode
import sys
import types

from agree import Unproved, learns, mix
from memory import WORD, Unreadable, read, read_most, u64, unsigned, words

LOCAL, CELL, FREE = 0x20, 0x40, 0x80  # CO_FAST_LOCAL and the like, Include/internal/pycore_code.h
SPAN = types.CodeType.__basicsize__
LINE_SIZE = 2 if sys.version_info < (3, 14) else 0  # bytes for each unit, 0: the array begins with their number

SOURCE = """
def outer%(i)d(a%(i)d, b, *c%(i)d):
    x = a%(i)d.name%(i)d + b
    %(more)s
    def inner%(i)d(y):
        nonlocal x
        z%(i)d = x + y
        for w in range(z%(i)d):
            %(deep)s
        return b, "constant %(i)d", w
    try:
        return inner%(i)d(1.5 + %(i)d)
    except KeyError as k:
        return [d for d in c%(i)d]
"""


def codes_made(count, first=0):
    """Pairs of unlike functions' code: one that has cells, one that has free variables."""
    made = []
    for i in range(first, first + count):
        text = SOURCE % {
            "i": i,
            "more": "\n    ".join("m%d = %d" % (k, k + i) for k in range(i % 4 + 1)),
            "deep": "print(%s)" % ", ".join(["w"] * (i + 1)),
        }
        names = {}
        exec(compile("\n" * (3 * i) + text, "file%d.py" % i, "exec"), names)
        code = names["outer%d" % i].__code__
        made.append((code, next(c for c in code.co_consts if isinstance(c, types.CodeType))))
    return mix([outer for outer, _ in made], [inner for _, inner in made])


def localsplus(code):
    names = list(code.co_varnames)
    return names + [n for n in code.co_cellvars if n not in names] + list(code.co_freevars)


@learns("code_name", "code_filename", "code_first_line", "code_names", "code_consts", "code_flags", "code_stacksize",
        "code_nlocals", "code_qualname", "code_lines", "code_exceptions", "code_bytes", "code_varnames",
        "code_cellvars", "code_freevars")  # fmt: skip
def attributes(row):
    made = codes_made(8)

    def pointer(name, attribute):
        if hasattr(made[0], attribute):
            row.find(name, [(id(c), id(getattr(c, attribute))) for c in made], low=16, high=SPAN)

    def number(name, attribute):
        row.find(name, [(id(c), getattr(c, attribute)) for c in made], low=16, high=SPAN, width=4)

    for name in ("name", "filename", "names", "consts", "qualname"):
        pointer("code_" + name, "co_" + name)
    pointer("code_exceptions", "co_exceptiontable")
    # Before 3.10 the table of lines has another name and form.
    pointer("code_lines", "co_linetable" if sys.version_info >= (3, 10) else "co_lnotab")
    number("code_first_line", "co_firstlineno")
    number("code_flags", "co_flags")
    number("code_stacksize", "co_stacksize")
    number("code_nlocals", "co_nlocals")
    # From 3.11 on these are made again for each that asks.
    if not hasattr(made[0], "co_qualname"):
        for name in ("varnames", "cellvars", "freevars"):
            pointer("code_" + name, "co_" + name)
        pointer("code_bytes", "co_code")


@learns("code_locals_names", "code_locals_kinds")
def locals_of_codes(row):
    made = codes_made(8)
    if "code_varnames" in row:
        raise Unproved("names of locals are kept apart by kind in this version")
    items, data = row["tuple_items"], row["bytes_data"]

    def named(code):
        expected = localsplus(code)
        ids = b"".join(id(sys.intern(n)).to_bytes(WORD, "little") for n in expected)
        return lambda offset: read(u64(id(code) + offset) + items, len(ids)) == ids

    row.search("code_locals_names", [named(c) for c in made], range(16, SPAN, 8))

    def kinds(code):
        expected = localsplus(code)
        want = [((LOCAL if n in code.co_varnames else 0) | (CELL if n in code.co_cellvars else 0)
                 | (FREE if n in code.co_freevars else 0)) for n in expected]  # fmt: skip
        mask = LOCAL | CELL | FREE

        def case(offset):
            found = read(u64(id(code) + offset) + data, len(want) + 1)
            return [b & mask for b in found[:-1]] == want and found[-1] == 0

        return case

    row.search("code_locals_kinds", [kinds(c) for c in made], range(16, SPAN, 8))


def base_opcodes():
    """Every opcode of this version, specialised ones too: number -> the number it stands for in co_code."""
    import opcodes

    return {n: opcode.opmap[base] for n, (_, base) in opcodes.all_opcodes().items()}


@learns("code_adaptive", "code_size")
def bytecode(row):
    if "code_bytes" in row:
        row.prove("code_size", SPAN, [lambda at, c=c: c.__sizeof__() >= at for c in codes_made(4)])
        return
    base = base_opcodes()
    caches = opcode._inline_cache_entries
    caches = (
        caches
        if isinstance(caches, collections.abc.Mapping)
        else {n: caches[k] for n, k in opcode.opmap.items() if k < 256}
    )

    def holds(code):
        expected = code.co_code

        def case(offset):
            found = read_most(id(code) + offset, len(expected) + 8)[: len(expected)]
            at = 0
            while at < len(expected):
                op = expected[at]
                if at >= len(found) or base.get(found[at]) != op:
                    return False
                at += 2 + 2 * caches.get(opcode.opname[op], 0)
            return True

        return case

    row.search("code_adaptive", [holds(c) for c in codes_made(8)], range(16, SPAN + 64, 2))
    at = row["code_adaptive"]
    # What comes before the bytecode is the head.
    row.prove("code_size", SPAN, [lambda size, c=c: size == at and c.__sizeof__() >= size + len(c.co_code)
                                  for c in codes_made(4)])  # fmt: skip


@learns("code_first_traceable")
def first_traceable(row):
    """The first RESUME, in code units."""
    if "RESUME" not in opcode.opmap:
        raise Unproved("this version has no RESUME")
    made = codes_made(8) + [compile("def g(a):\n    b = a\n    def f(): return b\n    yield f\n" + "x = 1\n" * n, "f",
                                    "exec").co_consts[0] for n in range(8)]  # fmt: skip
    order = [c for pair in zip(made[:8], made[16:], made[8:16]) for c in pair]

    def unit(code):
        return next(i.offset for i in dis.get_instructions(code) if i.opname == "RESUME") // 2

    row.find("code_first_traceable", [(id(c), unit(c)) for c in order], low=16, high=SPAN, width=4)


@learns("code_version")
def version(row):
    """From 3.12 on each new code object gets the next number; nothing else of equal codes differs so."""
    code = codes_made(2)[0]
    made = [code.replace(co_name="again") for _ in range(8)]
    kinds = [(made[i], made[i + 1]) for i in range(0, 8, 2)]

    def follows(first, second):
        def case(offset):
            a, b = unsigned(id(first) + offset, 4), unsigned(id(second) + offset, 4)
            return a and b == a + 1

        return case

    row.search("code_version", [follows(*pair) for pair in kinds], range(16, row["code_adaptive"], 4))


def _unit_lines(code, row):
    """Code units whose bytecode is INSTRUMENTED_LINE just now."""
    number = opcode.opmap["INSTRUMENTED_LINE"]
    raw = read(id(code) + row["code_adaptive"], len(code.co_code))
    return [i // 2 for i in range(0, len(raw), 2) if raw[i] == number and code.co_code[i] != number]


@learns("code_monitoring", "monitoring_lines", "monitoring_line_size", "monitoring_opcodes")
def monitoring(row):
    """What is put aside while lines, and single instructions, of a code are watched."""
    if not hasattr(sys, "monitoring"):
        raise Unproved("this version has no sys.monitoring")
    watch, tool = sys.monitoring, sys.monitoring.DEBUGGER_ID
    base = base_opcodes()

    def function(i):
        names = {}
        # Each in its own order, so that none can pass for another.
        lines = ["y = x + 1"] + ["print"] * i + ["for z in range(y): y += z"] + ["y = [y][0]"] * (8 - i) + ["return y"]
        exec("def f(x):\n    " + "\n    ".join(lines), names)
        return names["f"]

    functions = [function(i) for i in range(8)]
    watch.use_tool_id(tool, "probe")
    try:
        watch.register_callback(tool, watch.events.LINE, lambda *_: None)
        watch.register_callback(tool, watch.events.INSTRUCTION, lambda *_: None)
        plain = [f.__code__ for f in functions]
        before = [read(id(c), SPAN) for c in plain]
        for f in functions:
            watch.set_local_events(tool, f.__code__, watch.events.LINE)
            f(3)

        def appears(code, old):
            def case(offset):
                return not int.from_bytes(old[offset : offset + 8], "little") and _holds_opcodes(
                    code, u64(id(code) + offset), row, base
                )

            return case

        row.search("code_monitoring", [appears(c, b) for c, b in zip(plain, before)], range(16, SPAN - 7, 8))
        at = row["code_monitoring"]
        _lines(row, plain, at, base)
        for f in functions:
            watch.set_local_events(tool, f.__code__, watch.events.INSTRUCTION | watch.events.LINE)
            f(3)
        _instructions(row, plain, at, base)
    finally:
        for f in functions:
            watch.set_local_events(tool, f.__code__, 0)
        watch.free_tool_id(tool)


def _originals(code, units, array, base, stride, shift=0):
    """Does the array tell what stood at these units?"""
    if not units or array % 8:
        return False
    raw = read_most(array, 4096)
    for unit in units:
        at = unit * stride + shift
        if at >= len(raw) or base.get(raw[at]) != code.co_code[2 * unit]:
            return False
    return True


def _line_originals(code, units, array, base):
    """The same for what lines put aside: two bytes for each unit, from 3.14 on as many as the first byte says."""
    if LINE_SIZE:
        return _originals(code, units, array, base, LINE_SIZE)
    stride = read(array, 1)[0]
    return 0 < stride < 8 and _originals(code, units, array, base, stride, 1)


def _holds_opcodes(code, data, row, base):
    """Does a word of the monitoring data lead to the opcodes put aside for lines?"""
    units = _unit_lines(code, row)
    for word in words(data, 16):
        try:
            if _line_originals(code, units, word, base):
                return True
        except Unreadable:
            pass
    return False


def _lines(row, codes, at, base):
    def case_of(code):
        units = _unit_lines(code, row)
        return lambda offset: _line_originals(code, units, u64(u64(id(code) + at) + offset), base)

    row.search("monitoring_lines", [case_of(c) for c in codes], range(0, 128, 8))
    row["monitoring_lines"]
    row.fields["monitoring_line_size"] = LINE_SIZE


def _instructions(row, codes, at, base):
    number = opcode.opmap["INSTRUMENTED_INSTRUCTION"]

    def case_of(code):
        raw = read(id(code) + row["code_adaptive"], len(code.co_code))
        lines = opcode.opmap["INSTRUMENTED_LINE"]
        starts = [i.offset // 2 for i in dis.get_instructions(code)]
        units = [u for u in starts if raw[2 * u] in (number, lines)]
        return lambda offset: (
            len(units) > 4 and _originals(code, units, u64(u64(id(code) + at) + offset), base, 1)
        )

    row.search("monitoring_opcodes", [case_of(c) for c in codes], range(0, 128, 8))
