"""Operations that ask NVIDIA's libraries for workspaces, from the descriptions that libraries.py makes: {part: call}."""

import torch
from torch import nn

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64, "c64": torch.complex64, "c128": torch.complex128}
CUDA = {"device": "cuda"}


def conv(d):
    dtype, rank = DTYPES[d["dtype"]], len(d["x"]) - 2
    memory = (torch.channels_last if rank == 2 else torch.channels_last_3d) if d["last"] else torch.contiguous_format
    torch.backends.cudnn.allow_tf32 = d["tf32"]
    x, w = (torch.empty(*d[name], dtype=dtype, **CUDA).contiguous(memory_format=memory) for name in "xw")
    filters = w.shape[1] * d["groups"] if d["transposed"] else w.shape[0]
    b = torch.empty(filters, dtype=dtype, **CUDA) if d["bias"] else None
    words = ([d["stride"]] * rank, [d["padding"]] * rank, [d["dilation"]] * rank, d["transposed"], [0] * rank, d["groups"])
    g = torch.empty_like(torch.ops.aten.convolution(x, w, b, *words))
    backward = torch.ops.aten.convolution_backward
    return {
        "forward": lambda: torch.ops.aten.convolution(x, w, b, *words),
        "data": lambda: backward(g, x, w, [filters], *words, [True, False, False]),
        "filter": lambda: backward(g, x, w, [filters], *words, [False, True, False]),
    }


def rnn(d):
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


def solver(d, a, s, b, c, lu, lower):
    """Of the matrices a (any), s (symmetric, with its LU and Cholesky factors) and the right sides b and c."""
    full, of = d["full"], torch.linalg
    return {
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


def fft(d):
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


def events(call, turns):
    """The sizes of the last turn's allocations, and of frees as negative numbers, in order."""
    for _ in range(turns):
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.memory._record_memory_history(context=None, max_entries=10_000, clear_history=True)
        result = call()
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        del result
    torch.cuda.memory._record_memory_history(enabled=None)
    return [e["size"] if e["action"] == "alloc" else -e["size"] for e in trace if e["action"] in ("alloc", "free_requested")]
