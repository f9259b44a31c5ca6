#!/usr/bin/env python3
"""Prints the circles of files within each room of core/: files that use each other, directly or through others.

A unit is a .c file together with the header of its name. It uses another unit where it includes that unit's header, or names a
function or a variable that the other one's .c defines. What a circle holds can only be read, built and tested as one.

usage: tests/circles.py [ROOM ...]     (-v: which names tie the files together)
"""

import functools
import re
import sys
from collections import defaultdict
from pathlib import Path

CORE = Path(__file__).resolve().parents[1] / "core"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)
NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
# At the start of a line, as .clang-format lays it out: a type, a name, parameters, a brace.
FUNCTION = re.compile(r"^(?!static\b|typedef\b|extern\b|return\b)[A-Za-z_][\w \t*]*?\b(\w+)\((?:[^;{}]*?)\)\s*\{", re.M)
VARIABLE = re.compile(
    r"^(?!static\b|typedef\b|extern\b|return\b|enum\b[^\n]*\{)[A-Za-z_][\w \t*]*?[ *](\w+)((?:\[[^\]]*\])*)[ \t]*(?:=|;)", re.M
)
WORD = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")


def without_noise(text):
    """Text without comments, strings and the names of types, which may be those of functions."""
    return re.sub(r"\b(?:struct|enum|union)\s+\w+", lambda m: m.group(0).split()[0] + " _", NOISE.sub(" ", text))


def without_directives(text):
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)


def defined_by(text):
    """The functions and variables that a .c file defines for others."""
    text = without_directives(without_noise(text))
    return {m.group(1) for m in FUNCTION.finditer(text)} | {m.group(1) for m in VARIABLE.finditer(text)}


def arrows(room, core=CORE):
    """{unit: {unit it uses: the names used}} of one room; the name of an include is that of its header."""

    def unit_of(path):
        return str(path.relative_to(core).with_suffix(""))

    files = sorted(path for path in (core / room).rglob("*.[ch]") if "tables" not in path.parts)
    texts = {path: path.read_text() for path in files}
    owner = {}
    for path in files:
        if path.suffix == ".c":
            for name in defined_by(texts[path]):
                owner.setdefault(name, unit_of(path))
    uses = defaultdict(lambda: defaultdict(set))
    for path in files:
        unit = unit_of(path)
        uses[unit]  # a unit without arrows is one too
        for header in INCLUDE.findall(texts[path]):
            for candidate in (core / header, path.parent / header):
                if candidate in texts and unit_of(candidate) != unit:
                    uses[unit][unit_of(candidate)].add(header)
        if path.suffix == ".c":
            body = without_noise(texts[path])
            own = set(re.findall(r"^static\b[^;{}]*?\b(\w+)\(", body, re.M))
            for name in set(WORD.findall(body)) - own:
                if name in owner and owner[name] != unit:
                    uses[unit][owner[name]].add(name)
    return uses


def circles(uses):
    """The strongly connected components of more than one unit (Tarjan), each as a sorted list, the largest first."""
    number, low, stack, found = {}, {}, [], []

    def visit(unit):
        number[unit] = low[unit] = len(number)
        stack.append(unit)
        for other in uses.get(unit, ()):
            if other not in number:
                visit(other)
                low[unit] = min(low[unit], low[other])
            elif other in stack:
                low[unit] = min(low[unit], number[other])
        if low[unit] == number[unit]:
            at = stack.index(unit)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1:
                found.append(sorted(component))

    sys.setrecursionlimit(10000)
    for unit in sorted(uses):
        if unit not in number:
            visit(unit)
    return sorted(found, key=lambda component: (-len(component), component))


def rooms():
    return sorted(path.name for path in CORE.iterdir() if path.is_dir() and path.name != "include")


@functools.lru_cache(maxsize=None)
def in_circles(room, core=CORE):
    """The units of a room that are in a circle."""
    return sorted(unit for component in circles(arrows(room, core)) for unit in component)


if __name__ == "__main__":
    verbose = "-v" in sys.argv
    for room in [a for a in sys.argv[1:] if a != "-v"] or rooms():
        uses = arrows(room)
        found = circles(uses)
        print(f"{room}: {len(uses)} units, {sum(map(len, found))} in {len(found)} circles")
        for component in found:
            print("  " + " ".join(unit.removeprefix(room + "/") for unit in component))
            if verbose:
                for unit in component:
                    for other in sorted(set(uses[unit]) & set(component)):
                        print(f"    {unit} -> {other}: {', '.join(sorted(uses[unit][other]))}")
