"""Prints one opcode table of core/cpython (opcodes_3xx.c) for the interpreter that runs it.

The names, numbers, specialisations and cache sizes come from the interpreter's own `opcode` and `dis`
modules; only the classes below are ours. Runs on CPython 3.9 to 3.13; `make_tables` calls it.
"""

import dis
import opcode
import sys

minor = sys.version_info.minor

CLASSES = {
    "STORE_FAST": ("STORE_FAST", "LOCAL"),
    "STORE_NAME": ("STORE_NAME", "NAME"),
    "STORE_GLOBAL": ("STORE_GLOBAL", "NAME"),
    "STORE_DEREF": ("STORE_DEREF", "DEREF"),
    "STORE_ATTR": ("STORE_ATTR", "NAME"),
    "STORE_SUBSCR": ("STORE_SUBSCR", "NONE"),
    "STORE_SLICE": ("STORE_SUBSCR", "NONE"),
    "DELETE_FAST": ("DELETE_FAST", "LOCAL"),
    "DELETE_NAME": ("DELETE_NAME", "NAME"),
    "DELETE_GLOBAL": ("DELETE_GLOBAL", "NAME"),
    "DELETE_DEREF": ("DELETE_DEREF", "DEREF"),
    "DELETE_ATTR": ("DELETE_ATTR", "NAME"),
    "DELETE_SUBSCR": ("DELETE_SUBSCR", "NONE"),
    "CALL": ("CALL", "NONE"),
    "CALL_KW": ("CALL", "NONE"),
    "PRECALL": ("CALL", "NONE"),
    "CALL_FUNCTION": ("CALL", "NONE"),
    "CALL_FUNCTION_KW": ("CALL", "NONE"),
    "CALL_FUNCTION_EX": ("CALL", "NONE"),
    "CALL_METHOD": ("CALL", "NONE"),
    "BEFORE_WITH": ("CALL", "NONE"),
    "WITH_EXCEPT_START": ("CALL", "NONE"),
    "SETUP_WITH": ("CALL", "NONE"),
    "RETURN_VALUE": ("RETURN", "NONE"),
    "RETURN_CONST": ("RETURN", "NONE"),
    "POP_TOP": ("POP_TOP", "NONE"),
    "FOR_ITER": ("FOR_ITER", "NONE"),
    "END_FOR": ("END_FOR", "NONE"),
    "POP_EXCEPT": ("POP_EXCEPT", "NONE"),
    "YIELD_VALUE": ("YIELD", "NONE"),
    "YIELD_FROM": ("YIELD", "NONE"),
    "SEND": ("YIELD", "NONE"),
    "END_SEND": ("YIELD", "NONE"),
    # The generated superinstructions of 3.13 hold two local indices of four bits.
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOCAL_PAIR_FIRST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "LOCAL_PAIR_BOTH"),
}

# Python functions that are entered within the interpreter's loop: the caller then stands at the last cache.
ENTERS = {"BINARY_SUBSCR": "CALL", "LOAD_ATTR": "CALL", "SEND": "YIELD"}


def all_opcodes():
    """number -> (name, base name)"""
    table = {n: (name, name) for name, n in opcode.opmap.items() if n < 256}
    if minor >= 13:
        import _opcode_metadata as metadata

        base = {s: family for family, members in metadata._specializations.items() for s in members}
        for name, n in metadata._specialized_opmap.items():
            table[n] = (name, base.get(name, "BINARY_OP"))  # BINARY_OP_INPLACE_ADD_UNICODE is in no family
    elif minor >= 11:
        base = {s: family for family, members in opcode._specializations.items() for s in members}
        for name in opcode._specialized_instructions:
            # The families leave some out (3.12: BINARY_OP_INPLACE_ADD_UNICODE); superinstructions
            # are two of the first part's arguments.
            family = base.get(name) or next(
                f for f in sorted(opcode._specializations, key=len, reverse=True) if name.startswith(f)
            )
            table[dis._all_opmap[name]] = (name, family)
    for n, (name, base_name) in list(table.items()):
        if name.startswith("INSTRUMENTED_") and name[13:] in opcode.opmap:
            table[n] = (name, name[13:])
    return table


def caches(base):
    if minor < 11:
        return 0
    if isinstance(opcode._inline_cache_entries, list):  # 3.11, 3.12; then a dict, and a frozendict in 3.15
        return opcode._inline_cache_entries[opcode.opmap[base]]
    return opcode._inline_cache_entries.get(base, 0)


# What dis.stack_effect() leaves out or tells of compiling rather than running.
EFFECTS = {
    # The value sent is on the stack when a generator is resumed; the tables of 3.11 and 3.12 say 0.
    (11, "RETURN_GENERATOR"): lambda argument: 1,
    (12, "RETURN_GENERATOR"): lambda argument: 1,
    # 3.10 pops the value sent, which is not counted at the function's start.
    (10, "GEN_START"): lambda argument: 0,
    # 3.11 splits a call's effect: PRECALL is said to pop the arguments, which CALL does.
    (11, "PRECALL"): lambda argument: 0,
    (11, "CALL"): lambda argument: -argument - 1,
}

FORMS = (
    ("CONSTANT", lambda argument: 0),
    ("ARGUMENT", lambda argument: argument),
    ("BIT_0", lambda argument: argument & 1),
    ("BIT_2", lambda argument: argument >> 2 & 1),
    ("IS_3", lambda argument: argument == 3),
    ("BITS", lambda argument: bin(argument & 15).count("1")),
    ("BYTES", lambda argument: (argument & 0xFF) + (argument >> 8)),
)


def effect(number, base, jump):
    """The stack effect as (form, constant, slope); None where no form fits."""
    has_argument = number in opcode.hasarg if minor >= 12 else number >= opcode.HAVE_ARGUMENT

    def of(argument):
        own = EFFECTS.get((minor, base))
        return own(argument) if own else dis.stack_effect(number, argument if has_argument else None, jump=jump)

    # RAISE_VARARGS, MAKE_FUNCTION and the like take small arguments; UNPACK_EX two bytes of them
    samples = list(range(16)) + ([256, 257, 513, 770] if base == "UNPACK_EX" else [])
    if not has_argument:
        samples = [0]
    try:
        values = [of(argument) for argument in samples]
    except ValueError:
        return None
    for form, term in FORMS:
        terms = [term(argument) for argument in samples]
        if len(samples) == 1:
            return form, values[0], 0
        for slope in (0, -1, 1, -2, 2):
            constant = values[0] - slope * terms[0]
            if all(value == constant + slope * t for value, t in zip(values, terms)):
                return form, constant, slope
    return None


def effect_text(found):
    return "{GM_EFFECT_%s, %d, %d}" % (found or ("UNKNOWN", 0, 0))


NO_NEXT = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD",
           "JUMP_BACKWARD_NO_INTERRUPT", "INTERPRETER_EXIT"}  # fmt: skip


def facts(n, name, base):
    """An opcode as the C table has it: name, op, op when the caller stands at its caches, argument, base, caches,
    flags, effect of going on and of jumping."""
    op, argument = CLASSES.get(base, ("OTHER", "NONE"))
    if minor >= 11 and argument == "DEREF":
        argument = "LOCAL"  # 3.11 numbers cells and free variables with the locals
    flags = []
    number = opcode.opmap[base]
    if number in opcode.hasjrel:
        flags.append("JUMP_BACK" if "BACKWARD" in base else "JUMP_FORWARD")
    elif number in opcode.hasjabs:
        flags.append("JUMP_ABSOLUTE")
    if name == "STORE_FAST__STORE_FAST":
        flags.append("THEN_STORE")
    if base == "EXTENDED_ARG":
        flags.append("EXTENDED")
    if base == "SEND":
        flags.append("SEND")
    if base in NO_NEXT:
        flags.append("NO_NEXT")
    returned = ENTERS.get(base, op) if caches(base) else "OTHER"
    return (name, op, returned, argument, number, caches(base), flags,
            effect(number, base, False), effect(number, base, True))  # fmt: skip


def row(n, name, base):
    name, op, returned, argument, number, cached, flags, going_on, jumping = facts(n, name, base)
    return '\t[%d] = {"%s", GM_OP_%s, GM_OP_%s, GM_ARGUMENT_%s, %d, %d, %s, %s, %s},' % (
        n, name, op, returned, argument, number, cached, " | ".join("GM_OPCODE_" + f for f in flags) or "0",
        effect_text(going_on), effect_text(jumping))  # fmt: skip


def main():
    print("/*")
    print(" * Opcodes of CPython 3.%d. Made by core/cpython/versions/tables/make_tables from the `opcode` and" % minor)
    print(" * `dis` modules of %s." % sys.version.split()[0])
    print(" */")
    print('#include "cpython/versions/opcodes.h"')
    print()
    print("/* clang-format off */")
    print("const struct gm_opcode gm_opcodes_3%02d[256] = {" % minor)
    for n, (name, base) in sorted(all_opcodes().items()):
        print(row(n, name, base))
    print("};")
    print("/* clang-format on */")


if __name__ == "__main__":
    main()
