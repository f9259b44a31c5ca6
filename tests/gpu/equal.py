#!/usr/bin/env python3
"""Compares recordings that tests/gpu/run.py made with what PyTorch recorded of the same runs.

    equal.py OUT [--gpumem PATH]      OUT: run.py's folder, with NAME.gpumem, NAME.pickle and NAME.json

Events must be equal, action and size, in order, and so must the peaks of allocated, requested and reserved bytes be. Prints each run that differs,
and the sums. Exit status 1 if one differs.
"""

import argparse
import concurrent.futures
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from compare_snapshots import Events  # noqa: E402

ACTIONS = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap"}


def ask(gpumem, question, log):
    return subprocess.run([gpumem, question, log, "--json"], capture_output=True, text=True, check=True).stdout


def difference(gpumem, log):
    """(events, what differs or None) of one run."""
    theirs = json.loads(log.with_suffix(".json").read_text())
    stats = theirs["stats"]
    snapshot = log.with_suffix(".pickle")
    recorded = snapshot.exists()  # not with cudaMallocAsync, which does not know requested bytes either
    info = json.loads(ask(gpumem, "info", log))
    device = next((d for d in info["devices"] if d["peak_allocated"]), info["devices"][0])
    for ours, key in (("peak_allocated", "allocated"), ("peak_requested", "requested"), ("peak_reserved", "reserved")):
        if device[ours] != stats.get(f"{key}_bytes.all.peak", 0) and (recorded or ours != "peak_requested"):
            return 0, f"{ours} {device[ours]} {stats.get(f'{key}_bytes.all.peak')}"
    if not info["complete"]:
        return 0, f"gaps: {info['gaps']}"
    if not recorded:
        return 0, None
    wanted = [event for event in Events(snapshot).events if event[0] in ACTIONS]
    lines = map(json.loads, filter(None, ask(gpumem, "events", log).splitlines()))
    own = (e for e in lines if e["device_type"] == "cuda")  # not what libraries allocate for themselves
    found = [(e["action"], e.get("requested") or e["size"]) for e in own if e["action"] in ACTIONS]
    found = found[: len(wanted)]  # what is released after the snapshot was written is only in ours
    if wanted != found:
        at = next((i for i, (a, b) in enumerate(zip(wanted, found)) if a != b), min(len(wanted), len(found)))
        return len(wanted), f"event {at}: PyTorch {wanted[at : at + 1]}, gpumem {found[at : at + 1]} ({len(wanted)}, {len(found)} events)"
    return len(wanted), None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gpumem", default="gpumem")
    options = parser.parse_args()
    logs = [log for log in sorted(options.out.glob("*.gpumem")) if log.with_suffix(".json").exists()]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda log: difference(options.gpumem, log), logs))
    differ = [(log.stem, text) for log, (_, text) in zip(logs, found) if text]
    for name, text in differ:
        print(f"{name}: {text}")
    print(f"{len(logs)} runs, {sum(n for n, _ in found):,} events, {len(differ)} runs differ")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
