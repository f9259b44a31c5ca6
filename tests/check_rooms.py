#!/usr/bin/env python3
"""Checks every include of core/ by the list of rooms and arrows, core/rooms.txt.

The compiler sees the whole of core/, so it cannot tell. Prints each include that the list does not allow, and each arrow of the
list that no include needs.
"""

import re
import sys
from pathlib import Path

CORE = Path(__file__).resolve().parents[1] / "core"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def rooms(text=None):
    """{room: what it may include}, in the order of the list; "*": what any room may include."""
    lines = (text if text is not None else (CORE / "rooms.txt").read_text()).splitlines()
    table = {}
    for line in lines:
        if line and not line.startswith("#"):
            room, _, targets = line.partition(":")
            table[room] = targets.split()
    return table


def includes(core):
    """(file, its room, the header, the header's room) of each include that leaves its room."""
    for path in sorted(core.rglob("*.[ch]")):
        room = path.relative_to(core).parts[0]
        for header in INCLUDE.findall(path.read_text()):
            beside = (path.parent / header).exists() and ".." not in header
            if not beside and "/" in header and header.split("/")[0] != room:
                yield path, room, header, header.split("/")[0]


def violations(core=CORE):
    table = rooms()
    found = set()
    for folder in core.iterdir():
        if folder.is_dir() and folder.name != "include" and folder.name not in table:
            found.add(f"core/{folder.name}: core/rooms.txt has no such room")
    for path, room, header, other in includes(core):
        allowed = table.get(room, []) + table["*"]
        if other not in allowed and header not in allowed:
            found.add(f"{path.relative_to(core.parent)} includes {header}: {room} may not use {other}")
    return sorted(found)


def unused(core=CORE):
    """The arrows that no include needs, as "ROOM: TARGET"; and rooms that come before one that they use."""
    table = rooms()
    used = {(room, target) for _, room, header, other in includes(core) for target in (other, header)}
    found = [f"{room}: {t}" for room, targets in table.items() if room != "*" for t in targets if (room, t) not in used]
    order = list(table)
    for room, targets in table.items():
        for other in targets:
            if "/" not in other and order.index(other) > order.index(room):
                found.append(f"{room} stands before {other}, which it uses")
    return found


if __name__ == "__main__":
    lines = violations() + [f"core/rooms.txt: no include needs this arrow: {line}" for line in unused()]
    print("\n".join(lines) or "every include goes the right way")
    sys.exit(1 if lines else 0)
