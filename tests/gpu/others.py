"""Programs that are not PyTorch's, or that die on the device, with their own word on what they allocated (JSON on the last line).

    python others.py cupy | jax | numba | assert | illegal | busy | kernel | capture
"""

import json
import os
import sys
import time


def cupy():
    import cupy as cp

    pool = cp.get_default_memory_pool()
    kept = [cp.zeros((1000, 1000), dtype=cp.float32) for _ in range(5)]
    product = kept[0] @ kept[1]
    freed = cp.ones(3_000_000)
    del freed
    cp.cuda.runtime.deviceSynchronize()
    return {"held": pool.total_bytes(), "used": pool.used_bytes(), "sum": float(product.sum())}


def jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp

    @jax.jit
    def step(w, x):
        return w - 0.1 * jax.grad(lambda w: jnp.square(x @ w).mean())(w)

    w, x = jnp.ones((2048, 2048)), jnp.ones((512, 2048))
    for _ in range(3):
        w = step(w, x)
    w.block_until_ready()
    return {k: v for k, v in jax.devices()[0].memory_stats().items() if isinstance(v, int)}


def numba():
    import numpy as np
    from numba import cuda

    @cuda.jit
    def double(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= 2

    kept = [cuda.to_device(np.ones(1_000_000, dtype=np.float32)) for _ in range(3)]
    double[4000, 256](kept[0])
    cuda.synchronize()
    return {"used": sum(a.nbytes for a in kept), "sum": float(kept[0].copy_to_host().sum())}


def failing(kind):
    import torch

    kept = [torch.zeros(1 << 20, device="cuda") for _ in range(4)]
    if kind == "assert":
        try:
            kept[0][torch.tensor([1 << 30], device="cuda")].sum().item()
        except RuntimeError as error:  # torch.AcceleratorError
            print("caught:", str(error).splitlines()[0], flush=True)
        for call in (lambda: torch.zeros(10, device="cuda"), torch.cuda.synchronize, torch.cuda.empty_cache):
            try:
                call()
                print("no error", flush=True)
            except RuntimeError as error:
                print("then:", str(error).splitlines()[0], flush=True)
    else:
        from torch.cuda import _compile_kernel

        wild = _compile_kernel('extern "C" __global__ void wild(float *to) { to[(1ull << 40) + threadIdx.x] = 1; }', "wild")
        wild((1, 1, 1), (32, 1, 1), (kept[0],))
        torch.cuda.synchronize()
    return {"held": sum(t.nbytes for t in kept)}


def busy(seconds=14.0):
    """Trains until it is told to stop; the time of each step is kept, so that a pause of an observer shows."""
    import torch
    from torch import nn

    net = nn.Sequential(*[layer for _ in range(12) for layer in (nn.Linear(1024, 1024), nn.GELU())]).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    print(json.dumps({"pid": os.getpid(), "weight": hex(net[0].weight.data_ptr())}), flush=True)
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        loss = net(torch.randn(512, 1024, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        times.append(time.monotonic() - begun)
    times = times[20:]
    return {"steps": len(times), "longest": sorted(times)[-5:], "median": sorted(times)[len(times) // 2], "loss": loss.item(),
            "stats": {k: v for k, v in torch.cuda.memory_stats().items() if isinstance(v, int)}}  # fmt: skip


def kernel():
    """A kernel of its own in a PyTorch program, built with debug information, in which cuda-gdb can stop."""
    import torch
    from torch.utils.cpp_extension import load_inline

    source = """
    __global__ void stop_here(float *to, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) to[i] += 1; }
    void add_one(torch::Tensor t) { stop_here<<<(t.numel() + 255) / 256, 256>>>(t.data_ptr<float>(), t.numel()); }
    """
    module = load_inline("gpumem_stop", "void add_one(torch::Tensor t);", source, functions=["add_one"], extra_cuda_cflags=["-g", "-G"], verbose=False)
    held = {"batch": torch.zeros(1 << 20, device="cuda")}
    module.add_one(held["batch"])
    torch.cuda.synchronize()
    return {"sum": held["batch"].sum().item()}


def capture():
    """CUDA graphs, by hand and by torch.compile: what their private pools hold."""
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda()
    x = torch.randn(256, 512, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            net(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = net(x)
    graph.replay()
    fast = torch.compile(net, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(4):
            z = fast(x).clone()
    torch.cuda.synchronize()
    return {"y": y.sum().item(), "z": z.sum().item(), "stats": {k: v for k, v in torch.cuda.memory_stats().items() if isinstance(v, int)}}


if __name__ == "__main__":
    name = sys.argv[1]
    found = failing(name) if name in ("assert", "illegal") else globals()[name]()
    print(json.dumps(found), flush=True)
