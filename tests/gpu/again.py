"""Runs operations that tests/gpu/libraries.py described, and compares what they allocate with what it recorded on a GPU.

    again.py RECORDED.json.gz OUT.json [FAMILY…]      on the simulated device

RECORDED has "cases": [family, description, {part: [sizes of allocations, and of frees as negative numbers, in order]}].
OUT gets the same with the sizes of this run, and "counts": {family: [parts, peak within 5 %, every allocation equal]}.
"""

import gzip
import json
import sys

import torch
from torch import nn

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64, "c64": torch.complex64, "c128": torch.complex128}
CUDA = {"device": "cuda"}


def conv(d, _):
    dtype, rank = DTYPES[d["dtype"]], len(d["x"]) - 2
    memory = (torch.channels_last if rank == 2 else torch.channels_last_3d) if d["last"] else torch.contiguous_format
    torch.backends.cudnn.allow_tf32 = d["tf32"]
    x, w = (torch.empty(*d[name], dtype=dtype, **CUDA).contiguous(memory_format=memory) for name in "xw")
    b = torch.empty(d["y"][1], dtype=dtype, **CUDA) if d["bias"] else None
    words = ([d["stride"]] * rank, [d["padding"]] * rank, [d["dilation"]] * rank, d["transposed"], [0] * rank, d["groups"])
    g = torch.empty_like(torch.ops.aten.convolution(x, w, b, *words))
    backward = torch.ops.aten.convolution_backward
    return {
        "forward": lambda: torch.ops.aten.convolution(x, w, b, *words),
        "data": lambda: backward(g, x, w, [d["y"][1]], *words, [True, False, False]),
        "filter": lambda: backward(g, x, w, [d["y"][1]], *words, [False, True, False]),
    }


def rnn(d, _):
    dtype, project = DTYPES[d["dtype"]], {"proj_size": d["project"]} if d["project"] else {}
    layer = getattr(nn, d["kind"])(d["inputs"], d["hidden"], d["layers"], bidirectional=d["both"], dtype=dtype, **CUDA, **project)
    x = torch.empty(d["length"], d["batch"], d["inputs"], dtype=dtype, **CUDA).requires_grad_(d["grad"])

    def backward():
        y = layer(x)[0]
        y.backward(y.detach())

    def inference():
        with torch.no_grad():
            return layer(x)

    return {"forward": lambda: layer(x), "both": backward, "inference": inference}


def solver(d, parts):
    dtype, shape, n = DTYPES[d["dtype"]], (d["batch"],) if d["batch"] else (), d["n"]
    a = torch.zeros(*shape, d["m"], n, dtype=dtype, **CUDA)
    s = torch.zeros(*shape, n, n, dtype=dtype, **CUDA)
    b, c = (torch.zeros(*d[name], dtype=dtype, **CUDA) for name in "bc")
    lower = torch.linalg.cholesky_ex(s)[0]
    lu = torch.linalg.lu_factor_ex(s)[:2]
    full, of = d["full"], torch.linalg
    calls = {
        "lu_factor_ex": lambda: of.lu_factor_ex(s),
        "lu_factor_rectangular": lambda: of.lu_factor_ex(a),
        "lu_solve": lambda: of.lu_solve(*lu, b),
        "cholesky_ex": lambda: of.cholesky_ex(s),
        "cholesky_solve": lambda: torch.cholesky_solve(b, lower),
        "cholesky_inverse": lambda: torch.cholesky_inverse(lower),
        "inv_ex": lambda: of.inv_ex(s),
        "solve_ex": lambda: of.solve_ex(s, b),
        "solve_triangular": lambda: of.solve_triangular(lower, b, upper=False),
        "det": lambda: of.det(s),
        "slogdet": lambda: of.slogdet(s),
        "qr": lambda: of.qr(a, mode="complete" if full else "reduced"),
        "qr r": lambda: of.qr(a, mode="r"),
        "geqrf": lambda: torch.geqrf(a),
        "lstsq": lambda: of.lstsq(a, c),
        "eigh": lambda: of.eigh(s),
        "eigvalsh": lambda: of.eigvalsh(s),
        "svd": lambda: of.svd(a, full_matrices=full),
        "svdvals": lambda: of.svdvals(a),
        "svd gesvd": lambda: of.svd(a, full_matrices=full, driver="gesvd"),
        "svd gesvda": lambda: of.svd(a, full_matrices=False, driver="gesvda"),
        "ldl_factor_ex": lambda: of.ldl_factor_ex(s),
        "pinv": lambda: of.pinv(a),
        "matrix_rank": lambda: of.matrix_rank(a),
        "eigvals": lambda: of.eigvals(s),
        "eig": lambda: of.eig(s),
    }
    return {name: calls[name] for name in parts}


def fft(d, _):
    space, batch = d["space"], d["batch"]
    complex_, real = (torch.complex128, torch.float64) if d["double"] else (torch.complex64, torch.float32)
    c, r = (torch.zeros(batch, *space, dtype=dtype, **CUDA) for dtype in (complex_, real))
    half = torch.zeros(batch, *space[:-1], space[-1] // 2 + 1, dtype=complex_, **CUDA)
    axes = tuple(range(1, len(space) + 1))
    return {
        "c2c": lambda: torch.fft.fftn(c, dim=axes),
        "c2c back": lambda: torch.fft.ifftn(c, dim=axes),
        "r2c": lambda: torch.fft.rfftn(r, dim=axes),
        "c2r": lambda: torch.fft.irfftn(half, space, dim=axes),
    }


FAMILIES = {"conv": (conv, 1), "rnn": (rnn, 2), "solver": (solver, 2), "fft": (fft, 2)}


def events(call, turns):
    for _ in range(turns):
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.memory._record_memory_history(context=None, max_entries=10_000, clear_history=True)
        result = call()
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        del result
    torch.cuda.memory._record_memory_history(enabled=None)
    return [e["size"] if e["action"] == "alloc" else -e["size"] for e in trace if e["action"] in ("alloc", "free_requested")]


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
        for name, call in make(description, real).items():
            try:
                ours[name] = events(call, turns)
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
