#!/usr/bin/env python3
"""Checks that the rooms of core/ include only the rooms they may: the arrows of docs/architecture.md.

The compiler sees the whole of core/, so it cannot tell. Prints each include that goes the wrong way.
"""

import re
import sys
from pathlib import Path

CORE = Path(__file__).resolve().parents[1] / "core"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)

# The part of `log` that others than the readers of logs may use is its writer; it has one header.
TARGET = ["base", "image", "symbols", "cpython", "torch"]
MAY_INCLUDE = {
    "include": [],
    "base": [],
    "preload": [],
    "image": TARGET[:1],
    "symbols": TARGET[:2],
    "inject": TARGET[:3],
    "cpython": TARGET[:3],
    "torch": TARGET[:4],
    "holders": TARGET,
    "log": ["base"],
    "import": ["base", "log"],
    "model": ["base", "log"],
    "export": ["base", "log", "model"],
    # of the model its detector of steps, which is fed with single events; of sim a format
    "record": [*TARGET, "log", "model/steps.h", "sim/account.h"],
    # reads what the agent writes: of the agent its format
    "spool": ["base", "symbols", "cpython", "log", "agent/format.h"],
    # starts a program on the simulated device
    "learn": [*TARGET, "holders", "sim/launch.h"],
    # of the agent what it leaves in memory for whoever looks
    "ask": [*TARGET, "holders", "learn", "log", "import", "spool", "model", "agent/failure.h"],
    "render": [*TARGET, "holders", "log", "model", "ask"],
    # Runs inside the program, in the place of CUDA's libraries.
    "sim": ["base"],
    # Runs inside the program. Of cpython its tables and what decodes bytecode, of torch its tables, nothing that reads an image.
    "agent": ["cpython/versions/versions.h", "cpython/python.h", "torch/layout.h"],
    "cli": None,  # everything
}
# The layout of the page in which the simulated device keeps its counters: whoever reads them needs it. What PyTorch's
# allocator does by rule, and how its functions are called: headers that include nothing.
ANYBODY_MAY = {"sim/account.h", "torch/allocator.h", "torch/names.h"}


def violations(core=CORE):
    found = []
    for path in sorted(core.rglob("*.[ch]")):
        room = path.relative_to(core).parts[0]
        if room not in MAY_INCLUDE:
            found.append(f"core/{room}: not a room that tests/check_rooms.py knows")
            continue
        if MAY_INCLUDE[room] is None:
            continue
        for header in INCLUDE.findall(path.read_text()):
            other = header.split("/")[0] if "/" in header else room
            if (path.parent / header).exists() and header.count("..") == 0:
                continue  # a header beside the file
            if header == "gpumem.h" or header in ANYBODY_MAY or other == room:
                continue
            if other not in MAY_INCLUDE[room] and header not in MAY_INCLUDE[room]:
                found.append(f"{path.relative_to(core.parent)} includes {header}: {room} may not use {other}")
    return sorted(set(found))


if __name__ == "__main__":
    lines = violations()
    print("\n".join(lines) or "every include goes the right way")
    sys.exit(1 if lines else 0)
