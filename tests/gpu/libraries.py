"""What NVIDIA's libraries ask of PyTorch's allocator, over random operations: data from which the simulated device's estimates are made.

    python libraries.py OUT.json.gz SEED SECONDS [FAMILY…]      FAMILY: conv, rnn, solver, fft, sparse

Each case is [family, description, {part: [sizes of allocations, and of frees as negative numbers, in order]}], or the
text of an error in place of the sizes. A part runs twice, except a convolution's, and the second run is kept, which has no
first-time memory.
"""

import gzip
import json
import random
import sys
import time

import torch

import library_calls as calls
from library_calls import CUDA, DTYPES


def attempt(parts, turns=2):
    found = {}
    for name, call in parts.items():
        try:
            found[name] = calls.events(call, turns)
        except RuntimeError as error:
            found[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            if "CUDA error" in str(error) and "out of memory" not in str(error):
                raise
    return found


def channels(rng):
    return rng.choice((1, 2, 3, 4, 8, 12, 16, 17, 20, 24, 32, 36, 40, 48, 64, 64, 80, 96, 112, 128, 128, 160, 192, 256, 256, 320, 384, 512, 768, 1024, 2048, rng.randrange(1, 600)))


def shape_seen(rng):
    """A convolution as networks have them."""
    width = (8, 16, 24, 32, 40, 48, 64, 64, 96, 128, 128, 160, 192, 256, 256, 320, 384, 512, 512, 640, 768, 1024, 2048)
    style = rng.choice(("dense", "dense", "dense", "one", "one", "depthwise", "stem", "patch"))
    c, k, groups, stride, kernel = rng.choice(width), rng.choice(width), 1, rng.choice((1, 1, 1, 2)), rng.choice((3, 3, 3, 5, 7))
    if rng.random() < 0.5:
        k = c
    size = rng.choice((7, 8, 14, 16, 28, 32, 56, 64, 112, 128))
    if style == "one":
        kernel = 1
    elif style == "depthwise":
        k = groups = c
    elif style == "stem":
        c, size = rng.choice((1, 3, 3, 4)), rng.choice((28, 32, 64, 128, 224, 224, 256, 384, 512))
    elif style == "patch":
        kernel = stride = rng.choice((2, 4, 8, 14, 16))
        size = kernel * rng.choice((7, 8, 14, 16))
    padding = 0 if style == "patch" else rng.choice((kernel // 2, kernel // 2, kernel // 2, 0))
    return 2, c, k, groups, kernel, stride, padding, rng.choice((1,) * 9 + (2,)), rng.choice((1, 2, 4, 8, 16, 32, 64)), size, rng.choice(("fp32", "fp16", "bf16"))


def shape_any(rng):
    rank = rng.choice((1, 2, 2, 2, 3))
    style = rng.choice(("dense", "dense", "dense", "one", "depthwise", "grouped"))
    c, k, groups = channels(rng), channels(rng), 1
    if style == "depthwise":
        groups = c
        k = c * rng.choice((1, 1, 1, 2))
    elif style == "grouped":
        groups = rng.choice((2, 3, 4, 8, 16, 32))
        c, k = groups * rng.choice((1, 2, 4, 8, 16, 32)), groups * rng.choice((1, 2, 4, 8, 16, 32))
    kernel = 1 if style == "one" else rng.choice((1, 2, 3, 3, 3, 3, 4, 5, 7, 11, 16))
    dilation = rng.choice((1, 1, 1, 1, 2, 3))
    padding = rng.choice((0, kernel // 2, kernel // 2, dilation * (kernel - 1) // 2, rng.randrange(kernel)))
    size = rng.choice((7, 8, 14, 16, 28, 32, 56, 64, 112, 128, 224, 256, 512, 1024, 3000, rng.randrange(1, 300)))
    return rank, c, k, groups, kernel, rng.choice((1, 1, 1, 2, 2, 3, 4, kernel)), padding, dilation, rng.choice((1, 1, 2, 3, 4, 8, 16, 32, 64, rng.randrange(1, 100))), size, rng.choice(("fp32",) * 5 + ("fp16", "fp16", "bf16", "bf16", "fp64"))


def conv(rng):
    seen = rng.random() < 0.65
    rank, c, k, groups, kernel, stride, padding, dilation, n, size, label = (shape_seen if seen else shape_any)(rng)
    most = {1: 5000, 2: 512, 3: 40}[rank]
    least = max(1, dilation * (kernel - 1) + 1 - 2 * padding)
    size = min(max(size, least), most)
    space = [size] * rank
    if rank == 2 and rng.random() < 0.15:
        space[1] = min(max(least, rng.randrange(1, 200)), most)
    while n * max(c, k) * torch.Size(space).numel() > 1 << (26 if rng.random() < 0.2 else 24) and n > 1:
        n //= 2
    if n * max(c, k) * torch.Size(space).numel() > 1 << 26 or c * k // groups * kernel**rank > 1 << 25:
        return None
    last, tf32, transposed = rank > 1 and rng.random() < 0.35, rng.random() < 0.85, rng.random() < 0.1
    x, w, words = [n, c, *space], [*((c, k // groups) if transposed else (k, c // groups)), *[kernel] * rank], [[v] * rank for v in (stride, padding, dilation)]
    y = torch.ops.aten.convolution(torch.empty(x, device="meta"), torch.empty(w, device="meta"), None, *words, transposed, [0] * rank, groups)
    description = {
        "x": x, "w": w, "y": list(y.shape), "stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
        "dtype": label, "last": last, "tf32": tf32, "transposed": transposed, "bias": rng.random() < 0.5,
    }  # fmt: skip
    return description, attempt(calls.conv(description), turns=1)


def rnn(rng):
    kind, label, both = rng.choice(("LSTM", "GRU", "RNN")), rng.choice(("fp32", "fp32", "fp16", "bf16")), rng.random() < 0.4
    batch, length = rng.choice((1, 2, 4, 16, 32, 64, rng.randrange(1, 130))), rng.choice((1, 2, 10, 35, 50, 100, rng.randrange(1, 300)))
    inputs, hidden = (rng.choice((8, 16, 32, 64, 100, 128, 200, 256, 300, 512, 1024, rng.randrange(1, 700))) for _ in range(2))
    layers, project = rng.choice((1, 1, 2, 2, 3, 4)), 0
    if kind == "LSTM" and hidden > 2 and rng.random() < 0.15:
        project = rng.randrange(1, hidden)
    if batch * length * max(inputs, hidden) > 1 << 25:
        return None
    description = {"kind": kind, "batch": batch, "length": length, "inputs": inputs, "hidden": hidden, "layers": layers, "project": project,
                   "both": both, "dtype": label, "grad": rng.random() < 0.7}  # fmt: skip
    return description, attempt(calls.rnn(description))


def solver(rng):
    n = rng.choice((rng.randrange(1, 40), rng.randrange(1, 140), rng.randrange(1, 600), rng.randrange(1, 1000)))
    m = n if rng.random() < 0.7 else rng.choice((rng.randrange(1, 40), rng.randrange(1, 600)))
    batch = rng.choice((0, 0, 0, 1, 2, 3, 8, 16, 33, 64))
    label = rng.choice(("fp32", "fp32", "fp64", "c64", "c128"))
    while max(batch, 1) * n * max(m, n) > 1 << 21 and batch > 1:
        batch //= 2
    dtype, shape = DTYPES[label], (batch,) if batch else ()
    a, s = (torch.randn(*shape, rows, n, dtype=dtype, **CUDA) for rows in (m, n))
    s = s @ s.mH + n * torch.eye(n, dtype=dtype, **CUDA)
    b = torch.randn(*shape, n, rng.choice((1, 5, n)), dtype=dtype, **CUDA)
    c = torch.randn(*shape, m, rng.choice((1, 5)), dtype=dtype, **CUDA)
    description = {"m": m, "n": n, "batch": batch, "dtype": label, "full": rng.random() < 0.5, "b": list(b.shape), "c": list(c.shape)}
    known = calls.solver(description, a, s, b, c, torch.linalg.lu_factor(s), torch.linalg.cholesky(s))
    slow = n > 300 or batch > 16
    return description, attempt({name: known[name] for name in rng.sample(sorted(known), 6 if slow else 12)})


def fft(rng):
    def length(most):
        kind = rng.randrange(5)
        if kind == 0:
            return 1 << rng.randrange(0, most.bit_length())
        if kind == 1:
            n = 1
            while n < most and (n == 1 or rng.random() < 0.8):
                n *= rng.choice((2, 2, 2, 3, 3, 5, 7))
            return n if n <= most else n // 7 or 1
        if kind == 2:
            return rng.randrange(1, min(most, 300) + 1)
        return int(2 ** (rng.random() * (most.bit_length() - 1)))

    rank = rng.choice((1, 1, 1, 1, 2, 2, 3))
    space = [length({1: 1 << 20, 2: 2048, 3: 128}[rank]) for _ in range(rank)]
    if rng.random() < 0.5:
        space = space[:1] * rank
    batch = rng.choice((1, 1, 2, 3, 4, 8, 16, 32, 64, rng.randrange(1, 200)))
    while batch > 1 and batch * torch.Size(space).numel() > 1 << 22:
        batch //= 2
    if torch.Size(space).numel() > 1 << 23:
        return None
    description = {"batch": batch, "space": space, "double": rng.random() < 0.3}
    return description, attempt(calls.fft(description))


def sparse(rng):
    n, m, k = (rng.choice((rng.randrange(1, 100), rng.randrange(1, 3000), 1000)) for _ in range(3))
    part, label = rng.choice((0.001, 0.01, 0.1, 0.5)), rng.choice(("fp32", "fp64"))
    a = torch.randn(n, m, device="cuda", dtype=DTYPES[label])
    a[torch.rand(n, m, device="cuda") > part] = 0
    dense = torch.randn(m, k, device="cuda", dtype=DTYPES[label])
    csr, coo, vector = a.to_sparse_csr(), a.to_sparse(), dense[:, 0].contiguous()
    found = attempt({
        "csr mm": lambda: csr @ dense, "csr mv": lambda: csr @ vector, "coo mm": lambda: coo @ dense, "coo mv": lambda: coo @ vector,
        "coo dense": lambda: coo.to_dense(), "csr dense": lambda: csr.to_dense(), "to csr": lambda: a.to_sparse_csr(), "to coo": lambda: a.to_sparse(),
    })  # fmt: skip
    return {"shape": [n, m, k], "elements": int(csr.values().numel()), "dtype": label}, found


FAMILIES = {"conv": (conv, 16), "rnn": (rnn, 2), "solver": (solver, 2), "fft": (fft, 2), "sparse": (sparse, 1)}


def main():
    out, seed, seconds, *only = sys.argv[1:]
    begun, found, index = time.monotonic(), [], 0
    names = only or list(FAMILIES)
    while time.monotonic() - begun < float(seconds):
        rng, index = random.Random(f"{seed} {index}"), index + 1  # a case does not depend on whether others failed
        family = rng.choices(names, [FAMILIES[name][1] for name in names])[0]
        try:
            case = FAMILIES[family][0](rng)
        except RuntimeError as error:
            found.append([family, str(error).splitlines()[0][:200], {}])
            torch.cuda.empty_cache()
            if "CUDA error" in str(error) and "out of memory" not in str(error):
                break  # the context is lost
            continue
        if case:
            found.append([family, *case])
        if len(found) % 64 == 0:
            torch.cuda.empty_cache()
    with gzip.open(out, "wt") as file:
        json.dump({"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "device": torch.cuda.get_device_name(), "cases": found}, file)
    print(f"{len(found)} cases")


if __name__ == "__main__":
    main()
