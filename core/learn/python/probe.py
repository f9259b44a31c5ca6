"""The probe of `gpumem learn` for CPython: finds how this very Python lays out its structs, and proves it.

    PYTHON -I -S -B probe.py DESCRIPTOR

It needs no compiler and no headers: it makes objects whose contents it knows, and looks in its own memory where
they stand (agree.py: when a field is believed). What it found goes to the open file DESCRIPTOR, a line each, and then
what it says of itself (of_self.py). It then stands still until its standard input ends, so that gpumem can read it as
it reads any process, and compare.
"""

import os
import signal
import sys
import time

started = time.monotonic()
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import agree  # noqa: E402
import opcodes  # noqa: E402

PARTS = ("objects", "values", "containers", "callables", "code", "frames", "threads", "interpreter")


def opcode_lines():
    """struct gm_opcode, field by field."""
    for number, (name, base) in sorted(opcodes.all_opcodes().items()):
        *facts, flags, going_on, jumping = opcodes.facts(number, name, base)
        effects = " ".join("%s %d %d" % (effect or ("UNKNOWN", 0, 0)) for effect in (going_on, jumping))
        yield "opcode %d %s %s %s" % (number, " ".join(map(str, facts)), "|".join(flags) or "-", effects)


def lines(row):
    yield "pid %d" % os.getpid()
    yield "hexversion %d" % sys.hexversion
    for name, value in row.fields.items():
        yield "field %s %d" % (name, value)
    for name, why in row.missing.items():
        yield "missing %s %s" % (name, why)
    yield from opcode_lines()


def main():
    signal.alarm(120)  # whoever asked may be gone
    for name in PARTS:
        __import__("of_" + name)
    import of_self

    row = agree.Row()
    agree.learn_all(row)
    output = list(lines(row))
    itself = of_self.Self()
    output += itself.lines(row)
    output += ["claim %s %d %d %d" % claim for claim in [*row.claims(), *itself.claims(row)]]
    text = "gpumem-python-probe 1\n" + "".join(line + "\n" for line in output) + "end\n"
    if "--times" in sys.argv:
        print("%.2f s" % (time.monotonic() - started), file=sys.stderr)
    with os.fdopen(int(sys.argv[1]), "w", closefd=False) as out:
        out.write(text)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
    os._exit(0)  # its threads wait for ever
