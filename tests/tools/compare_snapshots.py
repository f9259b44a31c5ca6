#!/usr/bin/env python3
"""Compares what two runs of a program did to the allocator: actions and sizes, in order. For a snapshot from a real GPU
beside one from the simulated device.

    compare_snapshots.py REAL SIMULATED          says whether they are equal, and where they part; exit status 1 if so
    compare_snapshots.py --figures REAL [KEY=VALUE…]     writes the figures of a snapshot, as in tests/e2e/data/real_gpu/

A file is a snapshot of PyTorch (a pickle: nothing in it is executed) or figures (JSON). Addresses, times and stacks are
not compared; where the runs part, the innermost functions are shown that a snapshot knows of the events there. An
event that is only in one and was made by cuBLAS, cuBLASLt or cuDNN for itself is said to be one: which of them there
are hangs on PyTorch's version and on the GPU's architecture.
"""

import difflib
import hashlib
import json
import pickle
import re
import sys
from pathlib import Path

WORKSPACE = re.compile(r"[Ww]orkspace|CUDABlasHandle|gemm_and_bias|cudnn")


class Harmless(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"the file would import {module}.{name}")


class Events:
    """`events`: (action, size) in order; `names`: what is known of the stack of each; `reserved`, `requested`: bytes at the end."""

    def __init__(self, path):
        data = Path(path).read_bytes()
        self.digest = hashlib.sha256(data).hexdigest()
        if data.lstrip()[:1] == b"{":
            figures = json.loads(data)
            self.events = expand(figures["events"])
            self.names = [[]] * len(self.events)
            self.reserved = figures.get("reserved")
            self.requested = figures.get("requested")
            return
        with open(path, "rb") as file:
            snapshot = Harmless(file).load()
        (trace,) = (trace for trace in snapshot["device_traces"] if trace)
        trace = [entry for entry in trace if entry["action"] != "snapshot"]
        self.events = [(entry["action"], entry["size"]) for entry in trace]
        self.names = [[frame["name"] for frame in entry.get("frames", ())] for entry in trace]
        self.reserved = sum(segment["total_size"] for segment in snapshot["segments"])
        blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
        self.requested = sum(block["requested_size"] for block in blocks if block["state"].startswith("active"))

    def why(self, index):
        names = self.names[index]
        for name in names:
            if WORKSPACE.search(name):
                return "a library's workspace: " + name.split("(")[0]
        return next((name.split("(")[0] for name in names if "at::" in name), names[0] if names else "")


def expand(pieces):
    """[["alloc", 512], [24, [["alloc", 512], …]], …] as a flat list: a number stands before what is repeated."""
    events = []
    for first, second in pieces:
        events += expand(second) * first if isinstance(first, int) else [(first, second)]
    return events


def fold(events, longest=1200):
    """The opposite of expand: what follows itself is written once. Greedy: the repetition that saves most, from the left."""
    pieces, at = [], 0
    while at < len(events):
        best = (0, 0, 0)
        for length in range(1, min(longest, (len(events) - at) // 2) + 1):
            if events[at] != events[at + length]:
                continue
            times = 1
            while events[at + times * length : at + (times + 1) * length] == events[at : at + length]:
                times += 1
            saved = (times - 1) * length
            if saved > max(best[0], 3):
                best = (saved, length, times)
        _, length, times = best
        if times:
            pieces.append([times, fold(events[at : at + length], length // 2)])
            at += times * length
        else:
            pieces.append(list(events[at]))
            at += 1
    return pieces


def parts(one, other):
    """Where they part: (events only in the first, events only in the other), as indices."""
    matcher = difflib.SequenceMatcher(None, one.events, other.events, autojunk=False)
    return [(range(a, b), range(c, d)) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def show(one, other, most=20):
    if one.events == other.events:
        print(f"equal: {len(one.events)} events")
    else:
        found = parts(one, other)
        print(f"they part at {len(found)} places ({len(one.events)} and {len(other.events)} events)")
        for left, right in found[:most]:
            for mark, events, indices in (("<", one, left), (">", other, right)):
                for i in indices[:10]:
                    action, size = events.events[i]
                    print(f"{mark} {i:6} {action:15} {size:>14,}  {events.why(i)}".rstrip())
            print()
    if one.reserved != other.reserved:
        by = 100 * (other.reserved - one.reserved) / one.reserved
        print(f"reserved at the end: {one.reserved:,} and {other.reserved:,} ({by:+.2f} %)")
    return one.events != other.events


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if sys.argv[1] == "--figures":
        one = Events(sys.argv[2])
        facts = dict(word.split("=", 1) for word in sys.argv[3:])
        facts |= {"sha256": one.digest, "reserved": one.reserved, "requested": one.requested}
        lines = [json.dumps(piece) for piece in fold(one.events)]
        head = json.dumps(facts, indent=1)[:-2]
        print(head + ',\n "events": [\n  ' + ",\n  ".join(lines) + "\n ]\n}")
        return 0
    return show(Events(sys.argv[1]), Events(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
