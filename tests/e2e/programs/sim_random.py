"""Chains of random operations on the simulated device, each step beside PyTorch's own result on the CPU, and again in a CUDA graph.

sim_random.py FIRST COUNT: one chain for each seed from FIRST. Prints one JSON object: what differed, by seed; which operations the
device did not compute (it knows which of its bytes were: gpumem_sim_computed); and how many steps were compared.

What a CPU and a GPU are known to do differently is left out of the inputs, or said beside the operation:
- halves: a CPU adds up in float, a GPU's scans in the half itself, and a variance of large values overflows a GPU's float: values
  are small; transcendental functions differ in the last bit;
- floats that an integer type cannot hold, division of integers by zero, and shifts by more than the bits are not defined;
- the sign of what is not a number decides where a GPU's radix sort puts it;
- of equal elements, topk and max(dim) may take any, so only the values are compared; argmax takes the first on both;
- what several writes to one element leave is not defined, so scattered places differ, but for sums.
"""

import ctypes
import json
import random
import sys
import warnings

import torch

warnings.simplefilter("ignore")
FLOATS = {torch.float: 1e-5, torch.double: 1e-10, torch.half: 4e-3, torch.bfloat16: 3e-2}
INTEGERS = [torch.long, torch.int, torch.short, torch.int8, torch.uint8]
TYPES = [torch.float, torch.float, torch.double, torch.half, torch.bfloat16, *INTEGERS, torch.bool]
NAN, INF = float("nan"), float("inf")
MOST = 1500  # elements: more are too large to be computed for some operations

# Names: x is the step's input; o and z are of its shape and type, z without zeros; y can be broadcast to it and has any type, c is
# such with numbers that every type has; m is a mask that can be broadcast; d one of its dimensions; i some places along it, g one for
# each element, u for each element another, u1 each place once; k, n, s are
# numbers. Before the colon: the types of x (f, i, b), S where the host waits for the result, V where only the first result counts.
OPERATIONS = """
fi: x + y
fi: x - o
fib: x * y
fi: x.add(o, alpha=k)
fi: x / z
fi: y / z
fi: torch.div(x, z, rounding_mode="floor")
i: torch.div(x, z, rounding_mode="trunc")
fi: x % z
fi: torch.fmod(x, z)
fi: x // n
fi: x % n
fi: n - x
fi: x * s
f: s / z
fi: -x
fi: x.abs()
fi: x.square()
fib: x.sign()
f: x.exp()
f: (x.abs() + 0.1).log()
f: x.abs().sqrt()
f: z.reciprocal()
f: z.abs().rsqrt()
fi: x.sigmoid()
fi: x.tanh()
f: x.sin()
f: x.erf()
f: x.expm1()
f: (x.abs() + 0.1).log1p()
f: x.floor()
f: x.ceil()
f: x.round()
f: x.trunc()
f: x.frac()
f: x ** 2
f: x ** 3
f: (x.abs() + 0.1) ** s
i: (x % 5) ** k
fi: x.clamp(min=-2)
fi: x.clamp(max=n)
fi: x.clamp(-3, 5)
f: x.clamp(min=o.abs())
fi: torch.clamp(x, o, z)
f: F.relu(x)
f: F.silu(x)
f: F.gelu(x.nan_to_num(0, 0, 0))
f: F.gelu(x, approximate="tanh")
f: F.leaky_relu(x, 0.2)
f: F.softplus(x)
f: F.threshold(x, 0.1, 3.0)
f: x.nan_to_num(1.0, 2.0, -3.0)
fib: x > y
fib: x <= o
fib: x == y
fib: x != o
fi: x < k
fi: x >= s
fib: x.logical_not()
fib: x.logical_and(y)
fib: x.logical_or(o)
fib: x.logical_xor(y)
ib: ~x
ib: x & o
ib: x | o
ib: x ^ o
i: x << k
i: x >> k
f: x.isnan()
f: x.isinf()
f: x.isfinite()
f: x.signbit()
fi: torch.maximum(x, o)
fi: torch.minimum(x, y)
f: torch.fmax(x, o)
f: torch.fmin(x, o)
f: torch.copysign(x, o)
f: torch.hypot(x, o)
f: torch.atan2(x, z)
fib: torch.where(m, x, o)
fi: torch.where(m, x, k)
fib: torch.where(x > 0, x, y)
fib: x.masked_fill(m, k % 2)
fi: torch.addcmul(x, o, z, value=k)
f: torch.addcdiv(x, o, z, value=s)
f: torch.lerp(x, o, 0.3)
f: torch.lerp(x, o, z)
fib: x.clone()
fib: x.contiguous()
fib: x.float()
fib: x.double()
fib: x.bool()
ib: x.half()
ib: x.bfloat16()
fib: x.nan_to_num(1.0, 2.0, -3.0).clamp(0, 100).to(torch.long) if x.dtype != torch.bool else x.long()
ib: x.to(torch.int8)
ib: x.to(torch.uint8)
ib: x.to(torch.short).to(torch.int)
i: x.to(torch.uint64).double()
fib: x.sum()
fib: x.sum(d)
fib: x.sum(d, keepdim=True)
f: x.mean()
f: x.mean(d)
f: x.nansum()
f: x.nansum(d)
f: x.clamp(-1e4, 1e4).std()
f: x.clamp(-1e4, 1e4).var(d)
f: torch.var_mean(x.clamp(-1e4, 1e4), d)
f: x.norm()
f: torch.linalg.vector_norm(x, k, d)
f: torch.linalg.vector_norm(x, INF)
f: x.logsumexp(d)
ib: x.prod()
ib: x.prod(d)
fib: x.max()
fib: x.min()
fib: x.amax(d)
fib: x.amin(d)
fiV: x.max(d)
fiV: x.min(d)
fib: x.amax()
fi: x.aminmax()
fi: x.aminmax(dim=d)
fi: x.argmax()
fi: x.argmax(d)
fi: x.argmin(d, keepdim=True)
fib: x.any()
fib: x.any(d)
fib: x.all()
fib: x.all(d)
fib: x.count_nonzero()
fib: x.count_nonzero(d)
fi: x.cumsum(d)
b: x.cumsum(d)
fi: x.cumprod(d)
fi: x.cummax(d).values
fi: x.cummin(d).values
fi: x.diff(dim=d)
f: x.softmax(d)
f: x.log_softmax(d)
fib: x.sort(d, stable=True)
fi: x.sort(d, descending=True, stable=True)
fi: x.flatten().sort(stable=True)
fi: x.argsort(d, stable=True)
fiV: x.topk(min(k, x.size(d)) if x.dim() else 1, d)
fiV: x.topk(min(k, x.size(d)) if x.dim() else 1, d, largest=False)
fS: torch.unique(x.nan_to_num(7))
ibS: torch.unique(x)
ibS: torch.unique(x, return_counts=True)
ibS: torch.unique(x, return_inverse=True, return_counts=True)
ibS: torch.unique_consecutive(x, return_inverse=True, return_counts=True)
fibS: x.nonzero()
fibS: x[m.expand(x.shape)]
fibS: torch.masked_select(x, m)
iS: torch.bincount(x.flatten().long().abs() % 20)
iS: torch.bincount(x.flatten().long().abs() % 20, minlength=k * 10)
fi: torch.isin(x, o.flatten()[:k])
f: torch.searchsorted(o.flatten().nan_to_num(0).sort().values, x.nan_to_num(0), right=k > 1)
i: torch.searchsorted(o.flatten().sort().values, x)
fib: x.index_select(d, i)
fib: torch.gather(x, d, g)
fib: x.take(g.flatten() % max(x.numel(), 1)) if x.numel() else x
fib: x.take_along_dim(g, d)
fib: x[i] if x.dim() and d in (0, -x.dim()) else x.clone()
fib: x.flatten()[g.flatten()] if x.dim() < 2 else x.clone()
fib: x.scatter(d, u, o)
fi: x.scatter(d, u, k)
fi: x.scatter_add(d, g, o)
fi: x.scatter_reduce(d, g, o, "amax")
fi: x.index_add(d, i, o.index_select(d, i))
fib: x.index_fill(d, i, k % 2)
fib: x.index_copy(d, u1, o)
fib: torch.cat([x, o], d) if x.dim() else torch.stack([x, o])
fib: torch.cat([x, o.narrow(d, 0, k % (x.size(d) + 1)), x], d) if x.dim() else x.clone()
fib: torch.stack([x, o, x], d) if x.dim() else torch.stack([x, o])
fib: x.flip(d) if x.dim() else x.flip(())
fib: x.roll(k, d) if x.dim() else x.clone()
fib: x.roll(n)
fib: x.tril(k - 1) if x.dim() > 1 else x.clone()
fib: x.triu(k - 1) if x.dim() > 1 else x.clone()
fib: x.repeat(2, *[1] * x.dim())
fib: x.repeat_interleave(2, d) if x.dim() else x.clone()
fib: F.pad(x, (k, 1)) if x.dim() else x.clone()
fi: F.pad(x, (1, k), value=7) if x.dim() else x.clone()
fib: x.new_zeros(k, 3)
fib: x.new_full((k, 3), k)
fib: torch.ones_like(x)
fi: torch.arange(k, k + 7 + abs(n), 2, device=x.device, dtype=x.dtype)
f: torch.linspace(k, n, 5 + k, device=x.device, dtype=x.dtype)
fib: torch.eye(k, k + 1, device=x.device, dtype=x.dtype)
f: F.mse_loss(x, o)
fi: x.add_(o)
fi: x.mul_(k)
f: x.div_(z)
fi: x.clamp_(-1, 3)
fib: x.copy_(c)
fib: x.zero_()
fi: x.fill_(n)
fib: x.masked_fill_(m, 1)
f: x.exp_()
fib: x.index_copy_(d, u1, o)
fib: x.scatter_(d, u, o)
fi: x.index_add_(d, i, o.index_select(d, i))
fib: x.logical_not_()
f: x.prod(d)
fiV: x.median(d)
f: x.logcumsumexp(d)
""".strip().splitlines()
VIEWS = """
x.transpose(d, e)
x.transpose(d, e)
x.movedim(d, 0)
x.unsqueeze(d)
x.squeeze()
x[..., ::2] if x.dim() else x
x.narrow(d, 0, (x.size(d) + 1) // 2) if x.dim() else x
x.narrow(d, x.size(d) // 3, x.size(d) - x.size(d) // 3) if x.dim() else x
x.select(d, x.size(d) // 2) if x.dim() and x.size(d) else x
x.unsqueeze(0).expand(3, *x.shape) if x.numel() < 500 else x
x.unsqueeze(-1).expand(*x.shape, 2) if x.numel() < 500 else x
x.diagonal(0, d, e) if x.dim() > 1 and d % x.dim() != e % x.dim() else x
x.unfold(d, 2, 1) if x.dim() and x.size(d) > 1 else x
x.flatten()
x.t() if x.dim() < 3 else x
""".strip().splitlines()

computed = ctypes.CDLL(None).gpumem_sim_computed
computed.argtypes, computed.restype = (ctypes.c_void_p, ctypes.c_uint64), ctypes.c_bool


def kind(dtype):
    return "b" if dtype == torch.bool else "f" if dtype.is_floating_point else "i"


def values(r, dtype, shape, special=False, zeros=True):
    g = torch.Generator().manual_seed(r.randrange(1 << 30))
    order = list(range(len(shape)))
    r.shuffle(order)  # of its dimensions in memory
    laid = [shape[at] for at in order]
    if dtype == torch.bool:
        made = torch.rand(laid, generator=g) > r.choice([0.1, 0.5, 0.9])
    elif dtype.is_floating_point:
        made = torch.randn(laid, generator=g) if r.random() < 0.5 else torch.randint(-12, 13, laid, generator=g) / 4
        if special:
            chosen = torch.tensor([NAN, INF, -INF, -0.0])[torch.randint(0, 4, laid, generator=g)]
            made = torch.where(torch.rand(laid, generator=g) < 0.2, chosen, made)
        if not zeros:
            made = torch.where(made.abs() < 0.25, 0.75, made)
    else:
        low, high = (0 if dtype == torch.uint8 else -9), 10
        if zeros and r.random() < 0.3:
            low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        made = torch.randint(low, high, laid, generator=g)
        if not zeros:
            made = torch.where(made == 0, 3, made)
    return made.to(dtype).permute([order.index(at) for at in range(len(shape))])


def shape_of(r):
    sizes = [r.choice([1, 2, 3, 4, 5, 7, 9, 17, 33] + [0] * (r.random() < 0.1)) for _ in range(r.choice([0, 1, 1, 2, 2, 2, 3, 4]))]
    if r.random() < 0.05:
        sizes = [r.choice([130, 600, 1025, 1500])]
    while len(sizes) > 1 and torch.Size(sizes).numel() > 1500:
        sizes.pop(r.randrange(len(sizes)))
    return sizes


def broadcast(r, shape):
    sizes = [1 if r.random() < 0.3 else size for size in shape]
    return sizes[r.randrange(len(sizes)) :] if sizes and r.random() < 0.3 else sizes


def small(x):
    """What every type holds."""
    return x if x.dtype == torch.bool else x.abs() % 50


def names(r, x):
    """What a step's expression may name, on the CPU."""
    dims, shape, special = max(x.dim(), 1), list(x.shape), r.random() < 0.2
    d = r.randrange(-dims, dims)
    size = x.size(d) if x.dim() else 1
    g = torch.Generator().manual_seed(r.randrange(1 << 30))
    places = torch.rand(shape, generator=g).argsort(d) if x.dim() else torch.zeros((), dtype=torch.long)
    return {
        "d": d,
        "e": r.randrange(-dims, dims),
        "k": r.randrange(4),
        "n": r.choice([-7, -3, -2, 2, 3, 5]) if x.dtype != torch.uint8 else r.choice([2, 3, 5]),
        "s": r.choice([-1.5, 0.3, 0.5, 2.25]),
        "o": values(r, x.dtype, shape, special),
        "z": values(r, x.dtype, shape, zeros=False),
        "y": values(r, r.choice(TYPES), broadcast(r, shape), special),
        "c": small(values(r, r.choice(TYPES), broadcast(r, shape))),
        "m": values(r, torch.bool, broadcast(r, shape)),
        "i": torch.randint(0, max(size, 1), (r.randrange(6) if size else 0,), generator=g),
        "g": torch.randint(0, max(size, 1), shape, generator=g),
        "u": places,
        "u1": torch.randperm(size, generator=g),
    }


FIXED = {"torch": torch, "F": torch.nn.functional, "INF": INF}


def evaluate(line, x, others):
    try:
        found = eval(line, {**FIXED, **others, "x": x})
    except Exception as error:  # noqa: BLE001, which one it is is compared
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return [part for part in found if isinstance(part, torch.Tensor)] if isinstance(found, (tuple, list)) else [found]


def known(t):
    size = (sum((size - 1) * stride for size, stride in zip(t.shape, t.stride())) + 1) * t.itemsize  # noqa: B905
    return not t.numel() or computed(t.data_ptr(), size)


def overlaps(x):
    """True where several of its elements are one in memory."""
    places = torch.zeros((), dtype=torch.long)
    for size, stride in zip(x.shape, x.stride()):  # noqa: B905
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    return places.unique().numel() < x.numel()


def near(a, b, scale):
    """a on the device, b on the CPU."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.dtype.is_floating_point:
        return torch.equal(a, b)
    near = FLOATS[a.dtype]
    a, b = a.double(), b.double()
    return torch.allclose(a, b, rtol=near, atol=near * scale, equal_nan=True)


def magnitude(x):
    finite = x.double().abs().nan_to_num(0, 0, 0)
    return 1 + finite.sum().item()


def brief(t):
    return f"{str(t.dtype)[6:]} {tuple(t.shape)} {t.flatten()[:8].tolist()}"


def moved(others):
    return {name: value.cuda() if isinstance(value, torch.Tensor) else value for name, value in others.items()}


def the_same(a, b):
    return a.shape == b.shape and torch.equal(a.isnan(), b.isnan()) and torch.equal(a[~a.isnan()], b[~b.isnan()])


class Chain:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.steps, self.compared, self.wrong, self.unknown = [], 0, None, set()
        dtype = self.r.choice(TYPES)
        shape = shape_of(self.r)
        self.inputs = [values(self.r, dtype, shape, self.r.random() < 0.2) for _ in range(2)]

    def view(self, cpu, gpu):
        others = {name: value for name, value in names(self.r, cpu).items() if name in "de"}
        line = self.r.choice(VIEWS)
        a, b = evaluate(line, gpu, others), evaluate(line, cpu, others)
        if isinstance(a, str) or isinstance(b, str) or b[0].numel() > MOST:
            return cpu, gpu
        self.steps.append((line, others, None, 0))
        return b[0], a[0]

    def run(self):
        cpu = self.inputs[0].clone()
        gpu = cpu.cuda()
        root = cpu, gpu
        for _ in range(self.r.choice([1, 2, 3, 4, 5])):
            while self.r.random() < 0.4:
                cpu, gpu = self.view(cpu, gpu)
            lines = [line.split(": ", 1) for line in OPERATIONS]
            flags, line = self.r.choice([one for one in lines if kind(cpu.dtype) in one[0]])
            if "_(" in line and overlaps(cpu):
                continue
            others = names(self.r, cpu)
            scale = magnitude(cpu) + magnitude(others["o"])
            theirs = evaluate(line, cpu, others)
            others = moved(others)
            ours = evaluate(line, gpu, others)
            if isinstance(ours, str) or isinstance(theirs, str):
                # Types that only one of them has are PyTorch's matter.
                said = [found if isinstance(found, str) else "works" for found in (ours, theirs)]
                if "works" in said and not any("not implemented for" in text for text in said):
                    self.wrong = f"{line}: {said[0]}, CPU: {said[1]}"
                return
            if not all(map(known, (*ours, root[1]))):
                self.unknown.add(line)
                return
            if "V" in flags:
                ours, theirs = ours[:1], theirs[:1]
            at = self.r.randrange(len(ours))
            self.steps.append((line, others, flags, at))
            for a, b in zip([*ours, root[1]], [*theirs, root[0]]):  # noqa: B905
                self.compared += 1
                if not near(a.cpu(), b, scale):
                    numbers = {name: others[name] for name in "dkn"}
                    self.wrong = f"{line}: {brief(a)}, CPU: {brief(b)}, x: {brief(cpu)} {cpu.stride()}, {numbers}"
                    return
            new = theirs[at], ours[at]
            if new[0].numel() > MOST or kind(new[0].dtype) not in "fib" or new[0].dtype not in TYPES:
                return
            if not torch.equal(new[0], new[1].cpu()):
                if overlaps(new[0]):
                    return
                if new[0].is_floating_point():
                    new[0].masked_fill_(new[0].isnan(), NAN)
                new[1].copy_(new[0])  # so that the last bits do not add up
            if new[0] is not cpu:
                root = new
            cpu, gpu = new

    def again(self, x):
        """The chain on the device; the results of its operations."""
        made = []
        for line, others, flags, at in self.steps:
            found = evaluate(line, x, others)
            if isinstance(found, str):
                raise RuntimeError(f"{line}: {found}")
            if flags:
                made += found[:1] if "V" in flags else found
            x = found[at]
        return made

    def in_graph(self):
        """The same results from a graph as without, also from other values than those it was captured with."""
        if any("S" in flags for _, _, flags, _ in self.steps if flags):
            return False
        x = self.inputs[0].cuda()
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            graph.capture_begin()
            made = self.again(x)
            graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)
        for given in reversed(self.inputs):
            x.copy_(given)
            eager = [t.clone() for t in self.again(x)]
            x.copy_(given)
            graph.replay()
            for at, (a, b) in enumerate(zip(made, eager)):  # noqa: B905
                if known(b) and not (known(a) and the_same(a.cpu(), b.cpu())):
                    self.wrong = f"in a graph, result {at}: {brief(a)}, without: {brief(b)}; {[step[0] for step in self.steps]}"
                    return True
        return True


def main():
    first, count = map(int, sys.argv[1:3])
    wrong, unknown, compared, graphs = {}, {}, 0, 0
    for seed in range(first, first + count):
        chain = Chain(seed)
        chain.run()
        compared += chain.compared
        for line in chain.unknown:
            unknown[line] = unknown.get(line, 0) + 1
        if not chain.wrong and chain.steps:
            graphs += chain.in_graph()
        if chain.wrong:
            wrong[seed] = chain.wrong
    print(json.dumps({"wrong": wrong, "not_computed": unknown, "compared": compared, "graphs": graphs}, indent=0))


main()
