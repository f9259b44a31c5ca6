"""Operations on small tensors on the simulated device, each beside PyTorch's own result on the CPU.

Prints one JSON object: for each operation "same", or how it differs.
"""

import json
import sys

import torch

torch.manual_seed(1)


def on(device):
    """The operations' inputs, the same on every device."""
    g = torch.Generator().manual_seed(3)
    real = torch.randn(6, 10, generator=g)
    return {
        "r": real.to(device),
        "p": (real.abs() + 0.1).to(device),
        "u": torch.rand(6, 10, generator=g).to(device),
        "h": real.half().to(device),
        "b": real.bfloat16().to(device),
        "d": real.double().to(device),
        "i": torch.randint(-50, 50, (6, 10), generator=g).to(device),
        "j": torch.randint(1, 9, (6, 10), generator=g).to(device),
        "m": (torch.rand(6, 10, generator=g) > 0.5).to(device),
        "x": torch.randint(0, 6, (7,), generator=g).to(device),
        "y": torch.randint(0, 10, (6, 4), generator=g).to(device),
        "n": torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 0.0, -0.0]).to(device),
        "device": device,
        "torch": torch,
        "F": torch.nn.functional,
    }


# Names are those of on(); one operation a line.
OPERATIONS = """
torch.arange(5, device=device)
torch.arange(2, 20, 3, device=device)
torch.arange(0, 1, 0.1, device=device)
torch.linspace(0, 1, 11, device=device)
torch.linspace(-3, 5, 11, device=device, dtype=torch.half)
torch.linspace(2, 1, 7, device=device, dtype=torch.bfloat16)
torch.linspace(-3, 50, 7, device=device, dtype=torch.double)
torch.linspace(-3, 50, 7, device=device, dtype=torch.int8)
torch.full((3, 4), 7, device=device)
torch.ones(5, device=device, dtype=torch.bfloat16)
torch.eye(4, device=device)
r + r.t().contiguous().t()
r + 1.5
r - p
1 - r
r.add(p, alpha=0.25)
i + j
i - 3
m + m
r * p
r * 2
h * 2.5
b * b
i * j
r / p
r / 3
1 / p
i / j
i // j
i % j
i // 7
r // 0.3
r % 0.7
r.fmod(0.7)
i % 7
torch.remainder(i, -3)
torch.div(r, p, rounding_mode="trunc")
-r
-i
r.abs()
i.abs()
r.sign()
r.exp()
p.log()
p.log2()
p.log1p()
p.sqrt()
p.rsqrt()
p.reciprocal()
r.sigmoid()
r.tanh()
r.sin() + r.cos()
r.erf()
r.ceil()
r.floor()
r.round()
r.trunc()
r ** 2
r ** 3
p ** 1.7
2 ** r
i ** 2
p ** r
r.clamp(min=0)
r.clamp(max=0.5)
r.clamp(-0.5, 0.5)
i.clamp(min=-3, max=3)
h.clamp(min=-0.5)
r.clamp(-p, p)
r.relu()
F.silu(r)
F.gelu(r)
F.gelu(r, approximate="tanh")
F.leaky_relu(r, 0.1)
F.softplus(r)
F.threshold(r, 0.1, 20.0)
n.nan_to_num(1.0, 2.0, 3.0)
r > 0
r >= p
i == 3
i != j
r < 0.5
i.eq(j).logical_not()
m & (i > 0)
m | (i > 0)
m ^ (i > 0)
~m
~i
i & 7
i | 8
i << 2
m.logical_and(r > 0)
i.logical_or(m)
n.isnan()
n.isinf()
n.isfinite()
n.isposinf()
torch.maximum(r, p)
torch.minimum(i, j)
torch.where(m, r, p)
torch.where(m, r, 0.0)
torch.where(r > 0, i, j)
r.masked_fill(m, 4.0)
i.masked_fill(m, -1)
m.masked_fill(i > 0, True)
torch.addcmul(r, p, u, value=0.5)
torch.addcdiv(r, u, p, value=2)
torch.lerp(r, p, 0.3)
torch.lerp(r, p, u)
r.half()
r.double()
r.long()
i.float()
i.bool()
m.long()
h.float()
b.float()
d.half()
r.bfloat16()
i.to(torch.int32)
r[:, ::2].contiguous()
r.t().contiguous()
i.t().to(torch.float32)
r.expand(2, 6, 10).clone()
h.t().float()
r.sum()
r.sum(0)
r.sum(1)
r.sum(1, keepdim=True)
i.sum()
m.sum()
m.sum(1)
h.sum()
b.sum(0)
r.mean()
r.mean(-1)
h.mean(0)
r.max()
r.min()
i.max()
i.min()
r.max(1)
r.min(0)
i.max(dim=1)
r.argmax()
r.argmax(-1)
h.argmax(1)
i.argmin(0)
r.amax(1)
r.amin()
r.aminmax()
m.any()
m.all()
m.any(1)
m.all(0)
i.any()
(i > 100).any()
n.isnan().any()
r.norm()
r.norm(dim=1)
r.norm(1)
r.norm(float("inf"))
r.norm(3)
torch.linalg.vector_norm(r, 0)
r.std()
r.var(1)
torch.var_mean(r, 1)
torch.std_mean(r)
r.nansum()
n.nansum()
h.nansum(1)
(b * float("inf")).nan_to_num(posinf=2.0).nansum(0)
m.count_nonzero()
torch.nonzero(m)
torch.nonzero(i)
torch.nonzero(r > 100)
r[m]
i[i > 0]
torch.masked_select(r, m)
r[x % 6]
r[x % 6, x]
r.index_select(0, x % 6)
r.index_select(1, x)
i[:, x]
torch.gather(r, 1, y)
torch.gather(i, 1, y)
r.scatter(1, y, 5.0)
r.scatter(1, y[:, :1], u)
i.scatter_add(1, y[:, :1], j)
r.index_fill(1, x, 3.0)
r.index_add(0, x[:1] % 6, p[:1])
d.reshape(3, 2, 5, 2).permute(3, 1, 0, 2).index_add(0, x[1:3] % 2, d.reshape(2, 2, 3, 5))
torch.ones(2, 9, 3, 17, device=device).permute(1, 3, 0, 2).index_add(0, x[:2] % 6, torch.ones(2, 17, 2, 3, device=device))
r.repeat(1, 16).index_add(0, x % 6, r.repeat(2, 16)[:7])
d.repeat(1, 8).index_add_(0, x.int() % 6, d.repeat(2, 8)[:7])
h.repeat(9, 16).index_add(0, torch.arange(40, device=device) % 7, h.repeat(9, 16)[:40])
b.repeat(1, 16)[:, :128].index_add(0, x[:2].int() % 6, b.repeat(1, 16)[:2, 16:144])
r.repeat(1, 16).scatter_add(0, (x % 6)[:, None].expand(-1, 160), r.repeat(2, 16)[:7])
h.repeat(1, 16).scatter_reduce(0, (x % 6)[:, None].expand(-1, 160), h.repeat(2, 16)[:7] + 1, "amax")
b.repeat(1, 16).scatter_reduce(0, (x % 6)[:, None].expand(-1, 160), b.repeat(2, 16)[:7] - 1, "amin")
r.index_copy(0, x[:1] % 6, p[:1])
torch.index_put(r, (x[:1] % 6, x[:1]), r.new_tensor([9.0]))
F.embedding(y, r.t().contiguous())
F.one_hot(y, 10)
torch.cat([r, p])
torch.cat([r, p], 1)
torch.cat([i, j, i])
torch.cat([i, i.new_ones(6, 1)], dim=-1)
torch.stack([r, p])
torch.cat([h, h], 1)
torch.cat([m, m], 1)
r.flip(0)
r.roll(1, 0)
r.tril()
r.triu(1)
torch.ones(5, 5, device=device, dtype=torch.bool).tril()
r.repeat(2, 3)
F.pad(r, (1, 2))
F.pad(i, (1, 0), value=9)
r.sort(1)
r.sort(1, descending=True)
i.flatten().sort(stable=True)
r.flatten().sort()
r.topk(3)
r.topk(3, dim=0, largest=False)
h.topk(2)
u.topk(10).values
r.cumsum(0)
r.cumsum(1)
i.cumsum(1)
m.cumsum(-1)
i.flatten().cumsum(0)
m.long().cumsum(-1) - 1
u.cumprod(1)
r.cummax(1)
torch.unique(j)
torch.unique(j, return_inverse=True)
torch.unique(j, return_counts=True)
torch.unique(m)
torch.unique(m, return_inverse=True, return_counts=True)
torch.unique(m | True, return_counts=True, return_inverse=True)
torch.unique_consecutive(m)
torch.unique_consecutive(m, return_inverse=True, return_counts=True)
torch.unique_consecutive(j.flatten().sort().values)
torch.bincount(j.flatten())
torch.isin(i, j)
torch.searchsorted(torch.arange(0, 10, device=device).float(), u * 9)
torch.searchsorted(u.new_zeros(0), u)
torch.searchsorted(u.new_zeros(0), u, right=True)
r.softmax(1)
r.log_softmax(1)
r.softmax(0)
h.log_softmax(0)
r[:, None, :].expand(6, 3, 10).softmax(1)
r[:1, ::5].flatten()[:1].roll(3, 0)
p.index_copy(0, torch.arange(6, device=device), r)
torch.ones(140, 2, device=device).index_copy(0, torch.arange(139, -1, -1, device=device), r.repeat(24, 1)[:140, :2])
torch.unique(torch.cat([n - n, p[0]]), return_counts=True)[1]
b.softmax(-1)
F.cross_entropy(r, x[:6])
F.nll_loss(r, x[:6])
F.mse_loss(r, p)
F.cross_entropy(r, x[:6], ignore_index=int(x[0]))
r.logsumexp(1)
torch.equal(r, r.clone())
torch.equal(r, p)
torch.allclose(r, r + 1e-9)
r.diff(dim=1)
torch.tensor(3, device=device).item()
i.unfold(1, 3, 2).contiguous()
""".strip().splitlines()


def plain(value):
    if isinstance(value, torch.Tensor):
        return [value.cpu()]
    if isinstance(value, (tuple, list)):
        return [t for part in value for t in plain(part)]
    return [torch.tensor(value)]


def differs(ours, theirs):
    ours, theirs = plain(ours), plain(theirs)
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    for a, b in zip(ours, theirs):  # noqa: B905, strict= is Python 3.10's
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype} {tuple(a.shape)} for {b.dtype} {tuple(b.shape)}"
        near = 2e-2 if a.dtype in (torch.half, torch.bfloat16) else 1e-5
        if not torch.allclose(a.double(), b.double(), rtol=near, atol=near * 1e-1, equal_nan=True):
            return f"{a.flatten()[:8].tolist()} for {b.flatten()[:8].tolist()}"
    return "same"


def main():
    gpu, cpu = on("cuda"), on("cpu")
    chosen = [line for line in OPERATIONS if len(sys.argv) < 2 or sys.argv[1] in line]
    found = {}
    for line in chosen:
        try:
            found[line] = differs(eval(line, gpu), eval(line, cpu))
        except Exception as error:
            found[line] = f"{type(error).__name__}: {error}".splitlines()[0]
    print(json.dumps(found, indent=0))


main()
