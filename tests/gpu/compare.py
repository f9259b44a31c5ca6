#!/usr/bin/env python3
"""Compares what tests/gpu/workspaces.py gave on a GPU and on the simulated device, by kind of operation.

    compare.py REAL.json SIMULATED.json [MORE SIMULATED.json]      REAL: as in tests/e2e/data/real_gpu/h100/workspaces.json

For each kind: how many operations there are, of how many all allocations and frees are equal, of how many the peak is
equal, and within 5 %; then the operations whose peaks differ most.
"""

import json
import sys
from pathlib import Path


def load(path):
    """{operation: [(peak, events) of the first and the second run]}, or the text of an error."""
    runs = json.loads(Path(path).read_text())
    return {
        name: found if isinstance(found, str) else [(r["peak"], r["events"]) if isinstance(r, dict) else (r[0], r[2]) for r in found]
        for name, found in runs.items()
    }


def compare(real, simulated):
    """{kind: [operations, equal, peak equal, within 5 %, refused]}, and [(difference, name, real peak, simulated peak)]."""
    kinds, differ = {}, []
    for name in sorted(set(real) & set(simulated)):
        a, b = real[name], simulated[name]
        counts = kinds.setdefault(name.split()[0], [0] * 5)
        counts[0] += 1
        if isinstance(a, str) or isinstance(b, str):
            counts[4] += a != b
            continue
        peaks = [run[0] for run in a], [run[0] for run in b]
        counts[1] += a == b
        counts[2] += peaks[0] == peaks[1]
        off = max(abs(x - y) / max(x, 1) for x, y in zip(*peaks))
        counts[3] += off <= 0.05
        if peaks[0] != peaks[1]:
            differ.append((off, name, *(p[1] for p in peaks)))
    return kinds, sorted(differ, reverse=True)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    simulated = {}
    for path in sys.argv[2:]:
        simulated |= load(path)
    kinds, differ = compare(load(sys.argv[1]), simulated)
    print(f"{'kind':20} operations  equal  peak equal  within 5 %  only one ran")
    for kind, (count, *rest) in sorted(kinds.items(), key=lambda item: item[1][3] - item[1][0]):
        print(f"{kind:20} {count:10} {rest[0]:6} {rest[1]:11} {rest[2]:11} {rest[3]:13}")
    for off, name, real, ours in differ[:30]:
        print(f"{100 * off:6.0f} %  {real:>13,} {ours:>13,}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
