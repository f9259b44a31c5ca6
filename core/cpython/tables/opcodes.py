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
    # The generated superinstructions of 3.13 hold two local indices of four bits.
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOCAL_PAIR_FIRST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "LOCAL_PAIR_BOTH"),
}

# Python functions that are entered within the interpreter's loop: the caller then stands at the last cache.
ENTERS = {"BINARY_SUBSCR": "CALL", "LOAD_ATTR": "CALL", "SEND": "CALL"}


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
    if isinstance(opcode._inline_cache_entries, dict):
        return opcode._inline_cache_entries.get(base, 0)
    return opcode._inline_cache_entries[opcode.opmap[base]]


def row(n, name, base):
    op, argument = CLASSES.get(base, ("OTHER", "NONE"))
    if minor >= 11 and argument == "DEREF":
        argument = "LOCAL"  # 3.11 numbers cells and free variables with the locals
    flags = []
    number = opcode.opmap[base]
    if number in opcode.hasjrel:
        if "BACKWARD" in base:
            flags.append("GM_OPCODE_JUMP_BACK")
    elif number in opcode.hasjabs:
        flags.append("GM_OPCODE_JUMP_ABSOLUTE")
    if name == "STORE_FAST__STORE_FAST":
        flags.append("GM_OPCODE_THEN_STORE")
    if base == "EXTENDED_ARG":
        flags.append("GM_OPCODE_EXTENDED")
    if base == "SEND":
        flags.append("GM_OPCODE_SEND")
    returned = "GM_OP_" + ENTERS.get(base, op)
    if caches(base) == 0:
        returned = "GM_OP_OTHER"
    return '\t[%d] = {"%s", GM_OP_%s, %s, GM_ARGUMENT_%s, %d, %d, %s},' % (
        n, name, op, returned, argument, number, caches(base), " | ".join(flags) or "0")


def main():
    print("/*")
    print(" * Opcodes of CPython 3.%d. Made by core/cpython/tables/make_tables from the `opcode` and `dis`" % minor)
    print(" * modules of %s." % sys.version.split()[0])
    print(" */")
    print('#include "cpython/opcodes.h"')
    print()
    print("/* clang-format off */")
    print("const struct gm_opcode gm_opcodes_3%02d[256] = {" % minor)
    for n, (name, base) in sorted(all_opcodes().items()):
        print(row(n, name, base))
    print("};")
    print("/* clang-format on */")


main()
