"""Runs operations that tests/gpu/libraries.py described, and compares what they allocate with what it recorded on a GPU.

    again.py RECORDED.json.gz OUT.json [FAMILY…]      on the simulated device

RECORDED has "cases": [family, description, {part: [sizes of allocations, and of frees as negative numbers, in order]}].
OUT gets the same with the sizes of this run, and "counts": {family: [parts, peak within 5 %, every allocation equal]}.
"""

import gzip
import json
import sys

import torch

from library_calls import CUDA, DTYPES, conv, events, fft, rnn, solver


def solver_of_zeros(d):
    """What the matrices hold does not change the sizes; zeros have no factors, which only the _ex functions accept."""
    dtype, shape = DTYPES[d["dtype"]], (d["batch"],) if d["batch"] else ()
    a, s = (torch.zeros(*shape, rows, d["n"], dtype=dtype, **CUDA) for rows in (d["m"], d["n"]))
    b, c = (torch.zeros(*d[name], dtype=dtype, **CUDA) for name in "bc")
    return solver(d, a, s, b, c, torch.linalg.lu_factor_ex(s)[:2], torch.linalg.cholesky_ex(s)[0])


FAMILIES = {"conv": (conv, 1), "rnn": (rnn, 2), "solver": (solver_of_zeros, 2), "fft": (fft, 2)}


def peak(sizes):
    now = most = 0
    for size in sizes:
        now += size
        most = max(most, now)
    return most


def near(real, ours):
    return abs(peak(real) - peak(ours)) <= 0.05 * max(peak(real), 1)


def main():
    recorded, out, *only = sys.argv[1:]
    cases = json.load(gzip.open(recorded, "rt") if recorded.endswith(".gz") else open(recorded))["cases"]
    found, counts = [], {}
    for family, description, real in cases:
        if family not in (only or FAMILIES) or not real:
            continue
        make, turns = FAMILIES[family]
        ours = {}
        calls = make(description)
        for name in real:
            try:
                ours[name] = events(calls[name], turns)
            except RuntimeError as error:
                ours[name] = str(error).splitlines()[0]
        found.append([family, description, ours])
        torch.cuda.empty_cache()
        for name in real:
            if not isinstance(real[name], str):
                count = counts.setdefault(family, [0, 0, 0])
                count[0] += 1
                count[1] += not isinstance(ours[name], str) and near(real[name], ours[name])
                count[2] += real[name] == ours[name]
    with open(out, "w") as file:
        json.dump({"cases": found, "counts": counts}, file)
    for family, (parts, close, equal) in counts.items():
        print(f"{family}: {parts} parts, peak within 5 %: {close} ({100 * close / parts:.1f} %), every allocation equal: {equal}")


if __name__ == "__main__":
    main()
