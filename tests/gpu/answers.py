#!/usr/bin/env python3
"""Compares gpumem's answers about programs that ran on a GPU with those about the same programs on the simulated device.

    answers.py REAL/results.json SIMULATED/results.json      as tests/gpu/run.py --only programs wrote them

For the second, give run.py's --gpumem a script that adds --sim=PROFILE to `gpumem run`. Compared are the number of steps, the phases of their
peaks, and at the peak the allocated bytes and those of each category and phase, which may differ by 1 % of the peak. Prints what differs.
"""

import json
import sys
from pathlib import Path


def answer(results, name):
    try:
        return json.loads(results[name]["out"])
    except (KeyError, ValueError):
        return {}


def differences(real, simulated, name):
    steps = [[step.get("peak_phase") for step in answer(results, f"steps {name}").get("steps", [])] for results in (real, simulated)]
    if len(steps[0]) != len(steps[1]):
        yield f"{len(steps[0])} steps and {len(steps[1])}"
    elif steps[0] != steps[1]:
        yield f"their peaks are in {steps[0]} and {steps[1]}"
    peaks = [answer(results, f"peak {name}") for results in (real, simulated)]
    a, b = (peak.get("allocated", 0) for peak in peaks)
    if a and abs(a - b) > 0.01 * a:
        yield f"peak {a:,} and {b:,} ({100 * (b - a) / a:+.1f} %)"
    for by in ("by_category", "by_phase"):
        x, y = (peak.get(by, {}) for peak in peaks)
        for key in sorted(set(x) | set(y)):
            if abs(x.get(key, 0) - y.get(key, 0)) > 0.01 * a:
                yield f"{key} {x.get(key, 0):,} and {y.get(key, 0):,}"


def main():
    real, simulated = (json.loads(Path(path).read_text()) for path in sys.argv[1:3])
    ran = [key[8:] for key in real if key.startswith("program ") and real[key]["status"] == 0 == simulated.get(key, {}).get("status")]
    asked = [f"{question} " for question in ("steps", "peak")]
    # run.py keeps the end of what is printed: a very long answer is not whole
    names = [name for name in ran if all(answer(results, question + name) for results in (real, simulated) for question in asked)]
    equal = 0
    for name in names:
        found = list(differences(real, simulated, name))
        equal += not found
        if found:
            print(f"{name}: {'; '.join(found)}")
    print(f"{len(names)} programs ran on both and have whole answers, {equal} have the same answers")


if __name__ == "__main__":
    main()
