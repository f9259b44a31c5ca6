"""Operations on special values on the simulated device, over random inputs, each beside PyTorch's own result on the CPU.

Prints one JSON object: for each operation "same", or its first difference.
"""

import json

import torch

NAN, INF = float("nan"), float("inf")
SPECIAL = torch.tensor([NAN, NAN, 0.0, -0.0, 1.0, -1.0, 2.0, INF, -INF])
NEAR_2_63 = (1 << 62) + torch.arange(8)


def truncated(x, scalar):
    """A GPU multiplies by the inverse, and rounds the product before it truncates: here, a CPU does so."""
    return torch.trunc(x.float() * (torch.ones(()) / torch.tensor(float(scalar)))).to(x.dtype)


def quotient(x, y):
    return torch.trunc((x.float() / y.float()).to(x.dtype))


def inputs(g):
    def whole(low, high, *shape):
        return torch.randint(low, high, shape, generator=g)

    def special(*shape):
        return SPECIAL[whole(0, len(SPECIAL), *shape)]

    return {
        "scalar": int(whole(1, 200, 1)),
        "multiples": whole(-9, 9, 64),
        "divisors": whole(1, 200, 64) / 7,
        "special": special(40),
        "runs": special(12).repeat_interleave(3),
        "large": torch.rand(5, 7, generator=g) * 10.0 ** whole(17, 39, 1),
        "half": torch.rand(4, 7, generator=g) * 10.0 ** whole(17, 39, 1).bfloat16(),
        "small": torch.rand(5, 7, generator=g) * 10.0 ** -whole(17, 38, 1),
        "signed": torch.randn(5, 7, generator=g),
        "factors": 0.5 + torch.rand(50, generator=g),
        "whole": NEAR_2_63[whole(0, 8, 6, 5)] * (1 - 2 * whole(0, 2, 6, 5)),
        "bounds": torch.unique(NEAR_2_63[whole(0, 8, 5)]),
        "place": whole(0, 4, 40),
        "unsigned": whole(-(1 << 63), (1 << 63) - 1, 30).view(torch.uint64),
        "torch": torch,
        "truncated": truncated,
        "quotient": quotient,
    }


# "a | b": a on the device, b on the CPU, where a GPU and a CPU differ.
OPERATIONS = """
torch.div(multiples.float() * scalar, scalar, rounding_mode="trunc") | truncated(multiples.float() * scalar, scalar)
torch.div(multiples.half() * scalar, scalar, rounding_mode="trunc") | truncated(multiples.half() * scalar, scalar)
torch.div(multiples.bfloat16() * scalar, scalar, rounding_mode="trunc") | truncated(multiples.bfloat16() * scalar, scalar)
torch.div(divisors * 7.1, divisors, rounding_mode="trunc") | quotient(divisors * 7.1, divisors)
torch.div(multiples * divisors, divisors, rounding_mode="trunc") | quotient(multiples * divisors, divisors)
torch.div((multiples * divisors).half(), (divisors * 1.001).half(), rounding_mode="trunc") | \
quotient((multiples * divisors).half(), (divisors * 1.001).half())
torch.div(multiples, scalar, rounding_mode="trunc")
torch.unique(special)
torch.unique(special, return_counts=True)
torch.unique(special, return_inverse=True)[1].max()
torch.unique(special.half(), return_counts=True)
torch.unique(special.bfloat16(), return_inverse=True)[1].max()
torch.unique(special.double())
torch.unique_consecutive(runs)
torch.unique_consecutive(runs, return_counts=True)
torch.unique_consecutive(special, return_inverse=True)
torch.linalg.vector_norm(large)
torch.linalg.vector_norm(large, dim=1)
torch.linalg.vector_norm(large, 3)
torch.linalg.vector_norm(large, 1)
torch.linalg.vector_norm(small)
torch.linalg.vector_norm(large.double())
large.sum()
large.sum(0)
large.mean(1)
large.bfloat16().sum(1)
large.double().sum()
large.nansum()
large.var(1)
large.double().std()
large.cumsum(1)
large.flatten().cumsum(0)
large.flatten().half().cumsum(0)
large.flatten().cumprod(0)
small.flatten().cumprod(0)
large.cumprod(1)
small.cumprod(1)
factors.cumprod(0)
factors.half().cumprod(0)
multiples.cumprod(0)
factors.double().cumprod(0)
factors.double().prod()
multiples.prod()
multiples.reshape(8, 8).prod(0)
multiples.int().reshape(8, 8).prod(1)
(multiples > -8).reshape(8, 8).prod(1)
multiples.reshape(8, 8)[:, ::3].t().prod(1)
large.double().prod(0)
torch.zeros(4, device=special.device).scatter_reduce(0, place, special, "amax")
torch.zeros(4, device=special.device).scatter_reduce(0, place, special, "amin")
torch.full((4,), float("nan"), device=special.device).scatter_reduce(0, place, special, "amax")
torch.zeros(4, device=special.device).scatter_reduce(0, place, special, "amax", include_self=False)
torch.zeros(4, device=special.device, dtype=torch.long).scatter_reduce(0, place[:30], whole.flatten(), "amin")
whole.aminmax()
whole.aminmax(dim=1)
whole.amax(0)
whole.argmax(1)
whole.sum(1)
signed.aminmax(dim=1)
unsigned.double()
unsigned.float()
unsigned.half()
unsigned / 3
unsigned.to(torch.int32)
unsigned.float().abs().to(torch.uint64)
unsigned.clamp(max=1 << 40)
torch.maximum(unsigned, unsigned.flip(0))
torch.unique(unsigned)
torch.searchsorted(bounds, whole)
torch.searchsorted(bounds, whole, right=True)
torch.bucketize(whole, bounds)
torch.searchsorted(signed[0].sort().values, signed)
""".strip().replace("\\\n", "").splitlines()


def plain(value):
    return [t for part in value for t in plain(part)] if isinstance(value, tuple) else [value.cpu()]


def differs(ours, theirs):
    for a, b in zip(plain(ours), plain(theirs)):  # noqa: B905, strict= is Python 3.10's
        exact = not a.is_floating_point()
        near = 2e-2 if a.dtype in (torch.half, torch.bfloat16) else 1e-5
        equal = a.equal(b) if exact else a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, near, 1e-42, equal_nan=True)
        if not equal:
            return f"{a.flatten()[:8].tolist()} for {b.flatten()[:8].tolist()}"
    return "same"


found = {}
for seed in range(20):
    cpu = inputs(torch.Generator().manual_seed(seed))
    gpu = {name: value.cuda() if isinstance(value, torch.Tensor) else value for name, value in cpu.items()}
    for line in OPERATIONS:
        device, _, host = line.partition(" | ")
        if found.get(line, "same") != "same":
            continue
        try:
            ours = eval(device, gpu)
        except NotImplementedError:  # an older PyTorch does not have the operation for the type on CUDA
            if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 15):
                raise
            continue
        found[line] = differs(ours, eval(host or device, cpu))
print(json.dumps(found, indent=0))
