"""What each operation asks of PyTorch's allocator: the sizes of its allocations and frees in order, as JSON.

    python workspaces.py OUT.json [PART of PARTS | only KIND…]      KIND: the first word of an operation's name

Run on a GPU and on the simulated device, and compared: they differ where a library asks for a workspace that the
simulated device guesses wrong. Forward and backward are run twice: the second time, what a first call makes once is there.
"""

import gc
import itertools
import json
import random
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64}
cases = {}


def case(name, make):
    """`make` gives (a function without arguments whose result is differentiated if it can be); called once before the record."""
    assert name not in cases, name
    cases[name] = make


def grad(*shape, dtype=torch.float32, device="cuda"):
    return torch.randn(*shape, device=device, dtype=dtype, requires_grad=True)


# --- convolutions ---------------------------------------------------------------------------------------------------

CONVOLUTIONS = [
    # batch, channels, size, filters, kernel, stride, padding, groups, dilation
    (8, 3, 224, 64, 7, 2, 3, 1, 1),
    (8, 64, 56, 64, 1, 1, 0, 1, 1),
    (8, 64, 56, 64, 3, 1, 1, 1, 1),
    (8, 256, 56, 128, 1, 2, 0, 1, 1),
    (8, 128, 28, 128, 3, 1, 1, 1, 1),
    (8, 256, 14, 256, 3, 1, 1, 1, 1),
    (8, 512, 7, 512, 3, 1, 1, 1, 1),
    (8, 512, 7, 2048, 1, 1, 0, 1, 1),
    (4, 32, 112, 32, 3, 1, 1, 32, 1),
    (4, 32, 112, 64, 3, 2, 1, 1, 1),
    (2, 16, 128, 32, 3, 1, 1, 1, 1),
    (2, 320, 64, 320, 3, 1, 1, 1, 1),
    (2, 4, 64, 320, 3, 1, 1, 1, 1),
    (1, 128, 256, 128, 3, 1, 1, 1, 1),
    (4, 64, 32, 64, 5, 1, 2, 1, 1),
    (4, 64, 32, 64, 3, 1, 2, 1, 2),
    (4, 64, 33, 96, 3, 1, 0, 4, 1),
    (16, 1, 28, 32, 3, 1, 0, 1, 1),
    (16, 32, 26, 64, 3, 1, 0, 1, 1),
    (1, 3, 512, 16, 11, 4, 2, 1, 1),
    (32, 3, 224, 768, 16, 16, 0, 1, 1),
    (3, 17, 19, 23, 3, 1, 1, 1, 1),
]


def convolution(shape, dtype, last, transposed=False, benchmark=False):
    n, c, s, k, kernel, stride, padding, groups, dilation = shape

    def make():
        memory = torch.channels_last if last else torch.contiguous_format
        x = torch.randn(n, c, s, s, device="cuda", dtype=dtype).contiguous(memory_format=memory).requires_grad_()
        kind = nn.ConvTranspose2d if transposed else nn.Conv2d
        layer = kind(c, k, kernel, stride, padding, groups=groups, dilation=dilation, device="cuda", dtype=dtype)
        layer = layer.to(memory_format=memory)
        torch.backends.cudnn.benchmark = benchmark
        return lambda: layer(x)

    return make


for shape, (label, dtype), last in itertools.product(CONVOLUTIONS, list(DTYPES.items())[:3], (False, True)):
    case(f"conv2d {'x'.join(map(str, shape))} {label}{' last' if last else ''}", convolution(shape, dtype, last))
for shape in CONVOLUTIONS[1:7]:
    case(f"conv2d {'x'.join(map(str, shape))} fp64", convolution(shape, torch.float64, False))
    for label in "fp32", "bf16":
        case(f"conv2d transposed {'x'.join(map(str, shape))} {label}", convolution(shape, DTYPES[label], False, True))
    case(f"conv2d benchmark {'x'.join(map(str, shape))} fp16 last", convolution(shape, torch.float16, True, benchmark=True))
rng = random.Random(11)
for index in range(60):
    groups = rng.choice((1, 1, 1, 2, 4))
    c, k = groups * rng.choice((4, 8, 16, 24, 48, 64)), groups * rng.choice((4, 8, 16, 32, 96))
    kernel = rng.choice((1, 2, 3, 3, 3, 4, 5, 7))
    shape = (rng.choice((1, 2, 3, 8, 16)), c, rng.randrange(kernel + 4, 100), k, kernel, rng.choice((1, 1, 2)), rng.randrange(kernel), groups, rng.choice((1, 1, 1, 2)))
    label, last = rng.choice(("fp32", "fp16", "bf16")), rng.random() < 0.4
    if shape[2] + 2 * shape[6] >= shape[8] * (kernel - 1) + 1:
        case(f"conv2d random{index} {'x'.join(map(str, shape))} {label}{' last' if last else ''}", convolution(shape, DTYPES[label], last))
for label in "fp32", "fp16", "bf16":
    dtype = DTYPES[label]
    for c, s, k, kernel in ((3, 16, 8, 3), (32, 16, 32, 3), (64, 8, 64, 1)):
        case(f"conv3d {c} {s} {k} {kernel} {label}", lambda c=c, s=s, k=k, kernel=kernel, dtype=dtype: (
            lambda x, layer: lambda: layer(x))(grad(2, c, s, s, s, dtype=dtype), nn.Conv3d(c, k, kernel, device="cuda", dtype=dtype)))
    for c, s, k, kernel in ((80, 3000, 384, 3), (512, 1000, 512, 3), (64, 4096, 64, 7)):
        case(f"conv1d {c} {s} {k} {kernel} {label}", lambda c=c, s=s, k=k, kernel=kernel, dtype=dtype: (
            lambda x, layer: lambda: layer(x))(grad(4, c, s, dtype=dtype), nn.Conv1d(c, k, kernel, padding=1, device="cuda", dtype=dtype)))

# --- recurrent networks ---------------------------------------------------------------------------------------------

for kind, label, (batch, length, inputs, hidden, layers), both in itertools.product(
    ("LSTM", "GRU", "RNN"), ("fp32", "fp16"), ((16, 35, 200, 200, 2), (4, 10, 32, 64, 1), (64, 100, 512, 1024, 2), (32, 50, 300, 128, 3)), (False, True)
):
    def make(kind=kind, label=label, batch=batch, length=length, inputs=inputs, hidden=hidden, layers=layers, both=both):
        layer = getattr(nn, kind)(inputs, hidden, layers, bidirectional=both, device="cuda", dtype=DTYPES[label])
        x = grad(length, batch, inputs, dtype=DTYPES[label])
        return lambda: layer(x)[0]

    case(f"{kind} {batch}x{length}x{inputs}x{hidden}x{layers}{' both' if both else ''} {label}", make)

# --- attention ------------------------------------------------------------------------------------------------------

for backend, label, (b, h, l, d), causal in itertools.product(
    (None, "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"), ("fp16", "bf16", "fp32"),
    ((2, 8, 128, 64), (1, 16, 1024, 128), (4, 4, 257, 32), (2, 2, 64, 96)), (False, True),
):
    if label == "fp32" and backend in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):
        continue

    def make(backend=backend, label=label, b=b, h=h, l=l, d=d, causal=causal):
        q, k, v = (grad(b, h, l, d, dtype=DTYPES[label]) for _ in range(3))

        def call():
            if backend is None:
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            with sdpa_kernel(getattr(SDPBackend, backend)):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return call

    case(f"sdpa {backend or 'chosen'} {b}x{h}x{l}x{d}{' causal' if causal else ''} {label}", make)
for label in "bf16", "fp32":
    def make(label=label):
        q, k, v = grad(2, 8, 256, 64, dtype=DTYPES[label]), grad(2, 2, 256, 64, dtype=DTYPES[label]), grad(2, 2, 256, 64, dtype=DTYPES[label])
        return lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    case(f"sdpa grouped {label}", make)

    def make(label=label):
        q, k, v = (grad(2, 8, 200, 64, dtype=DTYPES[label]) for _ in range(3))
        mask = torch.randn(2, 1, 200, 200, device="cuda", dtype=DTYPES[label])
        return lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.1)
    case(f"sdpa masked dropout {label}", make)

# --- products -------------------------------------------------------------------------------------------------------

for label, (m, n, k) in itertools.product(DTYPES, ((16, 16, 16), (1024, 1024, 1024), (5000, 777, 33), (1, 4096, 4096), (8192, 64, 8192))):
    dtype = DTYPES[label]
    case(f"mm {m}x{n}x{k} {label}", lambda m=m, n=n, k=k, dtype=dtype: (lambda a, b: lambda: a @ b)(grad(m, k, dtype=dtype), grad(k, n, dtype=dtype)))
    case(f"linear {m}x{n}x{k} {label}", lambda m=m, n=n, k=k, dtype=dtype: (
        lambda x, layer: lambda: layer(x))(grad(m, k, dtype=dtype), nn.Linear(k, n, device="cuda", dtype=dtype)))
    case(f"bmm {m}x{n}x{k} {label}", lambda m=m, n=n, k=k, dtype=dtype: (
        lambda a, b: lambda: torch.bmm(a, b))(grad(3, m, k, dtype=dtype), grad(3, k, n, dtype=dtype)))
case("mv", lambda: (lambda a, b: lambda: a @ b)(grad(512, 512), grad(512)))
case("dot", lambda: (lambda a, b: lambda: a @ b)(grad(100000), grad(100000)))
case("einsum", lambda: (lambda a, b: lambda: torch.einsum("bhqd,bhkd->bhqk", a, b))(grad(2, 4, 128, 64), grad(2, 4, 128, 64)))
case("complex mm", lambda: (lambda a: lambda: (a @ a).real)(torch.randn(256, 256, dtype=torch.complex64, device="cuda", requires_grad=True)))
case("int8 mm", lambda: (lambda a: lambda: torch._int_mm(a, a.t().contiguous().t()))(torch.ones(256, 256, dtype=torch.int8, device="cuda")))
case("fp8 mm", lambda: (lambda a, b, s: lambda: torch._scaled_mm(a, b.t(), s, s, out_dtype=torch.bfloat16))(
    torch.ones(256, 256, device="cuda").to(torch.float8_e4m3fn), torch.ones(256, 256, device="cuda").to(torch.float8_e4m3fn), torch.ones((), device="cuda")))
case("addmm relu", lambda: (lambda a, b, c: lambda: torch._addmm_activation(c, a, b))(grad(512, 256).detach(), grad(256, 128).detach(), grad(128).detach()))
case("autocast linear", lambda: (lambda x, layer: lambda: autocast(layer, x))(grad(512, 256), nn.Linear(256, 128, device="cuda")))


def autocast(layer, x):
    with torch.autocast("cuda", torch.bfloat16):
        return layer(x)


# --- linear algebra -------------------------------------------------------------------------------------------------

for n, batch in ((8, 1), (64, 1), (512, 1), (1500, 1), (32, 16), (200, 4)):
    def matrix(n=n, batch=batch, dtype=torch.float32):
        a = torch.randn(*((batch,) if batch > 1 else ()), n, n, device="cuda", dtype=dtype)
        return (a @ a.mT + n * torch.eye(n, device="cuda", dtype=dtype)).requires_grad_()

    for name, function in {
        "inv": torch.linalg.inv,
        "cholesky": torch.linalg.cholesky,
        "qr": lambda a: torch.linalg.qr(a)[0],
        "svd": lambda a: torch.linalg.svdvals(a),
        "svd full": lambda a: torch.linalg.svd(a)[1],
        "eigh": lambda a: torch.linalg.eigh(a)[0],
        "eigvals": lambda a: torch.linalg.eigvals(a.detach()).abs(),
        "solve": lambda a: torch.linalg.solve(a, a.detach()),
        "lu": lambda a: torch.linalg.lu_factor(a)[0],
        "det": torch.linalg.det,
        "lstsq": lambda a: torch.linalg.lstsq(a, a.detach())[0],
        "pinv": torch.linalg.pinv,
        "matrix_exp": torch.linalg.matrix_exp,
        "triangular": lambda a: torch.linalg.solve_triangular(a, a.detach(), upper=False),
        "cholesky_inverse": lambda a: torch.cholesky_inverse(a.detach()),
    }.items():
        case(f"linalg {name} {batch}x{n}", lambda matrix=matrix, function=function: (lambda a: lambda: function(a))(matrix()))
        if n in (64, 200) and name in ("inv", "cholesky", "qr", "svd", "eigh", "solve"):
            case(f"linalg {name} {batch}x{n} fp64", lambda matrix=matrix, function=function: (lambda a: lambda: function(a))(matrix(dtype=torch.float64)))

# --- Fourier transforms ---------------------------------------------------------------------------------------------

for n in (8, 64, 100, 1000, 1024, 4096, 4099, 8192, 10000, 65536, 100003, 1 << 20):
    case(f"fft {n}", lambda n=n: (lambda x: lambda: torch.fft.fft(x).abs())(grad(4, n)))
    case(f"rfft {n}", lambda n=n: (lambda x: lambda: torch.fft.rfft(x).abs())(grad(4, n)))
    case(f"irfft {n}", lambda n=n: (lambda x: lambda: torch.fft.irfft(x))(torch.randn(4, n, dtype=torch.complex64, device="cuda", requires_grad=True)))
for n in (16, 100, 256, 512, 1000, 2048):
    case(f"fft2 {n}", lambda n=n: (lambda x: lambda: torch.fft.fft2(x).abs())(grad(2, n, n)))
    case(f"rfft2 {n}", lambda n=n: (lambda x: lambda: torch.fft.irfft2(torch.fft.rfft2(x)))(grad(2, n, n)))
case("fftn 64", lambda: (lambda x: lambda: torch.fft.fftn(x).abs())(grad(64, 64, 64)))
for n in (400, 1024, 2048):
    case(f"stft {n}", lambda n=n: (lambda x, w: lambda: torch.stft(x, n, n // 4, window=w, return_complex=True).abs())(grad(4, 48000), torch.hann_window(n, device="cuda")))

# --- sparse ---------------------------------------------------------------------------------------------------------


def sparse(layout, n=1000, dtype=torch.float32):
    torch.manual_seed(1)
    a = torch.randn(n, n, dtype=dtype)
    a[torch.rand(n, n) > 0.02] = 0
    return (a.to_sparse() if layout == "coo" else a.to_sparse_csr()).cuda()


for layout in "coo", "csr":
    case(f"sparse mm {layout}", lambda layout=layout: (lambda a, b: lambda: a @ b)(sparse(layout), grad(1000, 64)))
    case(f"sparse mv {layout}", lambda layout=layout: (lambda a, b: lambda: a @ b)(sparse(layout), torch.randn(1000, device="cuda")))
    case(f"sparse dense {layout}", lambda layout=layout: (lambda a: lambda: a.to_dense())(sparse(layout)))
case("sparse coalesce", lambda: (lambda a: lambda: (a + a).coalesce().values())(sparse("coo")))
case("sparse sparse", lambda: (lambda a: lambda: (a @ a).values())(sparse("csr")))
case("sparse sampled", lambda: (lambda a, b: lambda: torch.sparse.sampled_addmm(a, b, b).values())(sparse("csr"), torch.randn(1000, 1000, device="cuda")))

# --- the rest -------------------------------------------------------------------------------------------------------

for n in (10, 1000, 5000, 100_000, 3_000_000):
    def keys(n=n):
        return torch.randint(0, 1000, (n,), device="cuda")

    for name, function in {
        "sort": lambda x: x.sort()[0],
        "sort stable down": lambda x: x.sort(stable=True, descending=True)[0],
        "argsort": lambda x: x.argsort(),
        "topk": lambda x: x.topk(min(10, len(x)))[0],
        "kthvalue": lambda x: x.kthvalue(5)[0],
        "median": lambda x: x.median(),
        "mode": lambda x: x.mode()[0],
        "cumsum": lambda x: x.cumsum(0),
        "cummax": lambda x: x.cummax(0)[0],
        "bincount": lambda x: x.bincount(minlength=1000),
        "histc": lambda x: x.float().histc(100),
        "multinomial": lambda x: (x.float() + 1)[: 1 << 20].multinomial(5),
        "searchsorted": lambda x: torch.searchsorted(torch.arange(1000, device="cuda"), x),
        "std": lambda x: x.float().std(),
        "norm": lambda x: x.float().norm(),
        "logsumexp": lambda x: x.float().logsumexp(0),
        "flip": lambda x: x.flip(0),
        "max": lambda x: x.max(0)[0],
        "argmax": lambda x: x.argmax(),
        "all": lambda x: (x > 0).all(),
        "prod": lambda x: x.float().prod(),
        "renorm": lambda x: x.float().view(1, -1).renorm(2, 0, 1.0),
    }.items():
        if name == "mode" and n > 100_000:
            continue
        case(f"{name} {n}", lambda keys=keys, function=function: (lambda x: lambda: function(x))(keys()))
    case(f"randperm {n}", lambda n=n: lambda: torch.randperm(n, device="cuda"))
    case(f"scatter_add {n}", lambda n=n: (lambda i, v: lambda: torch.zeros(1000, device="cuda").scatter_add(0, i, v))(torch.randint(0, 1000, (n,), device="cuda"), grad(n)))
    case(f"index_put {n}", lambda n=n: (lambda i, v: lambda: torch.zeros(1000, device="cuda").index_put((i,), v, accumulate=True))(torch.randint(0, 1000, (n,), device="cuda"), grad(n)))
    case(f"index {n}", lambda n=n: (lambda i, v: lambda: v[i])(torch.randint(0, 1000, (n,), device="cuda"), grad(1000)))
    case(f"index_select {n}", lambda n=n: (lambda i, v: lambda: v.index_select(0, i))(torch.randint(0, 1000, (n,), device="cuda"), grad(1000, 4)))
    case(f"gather {n}", lambda n=n: (lambda i, v: lambda: v.gather(0, i))(torch.randint(0, 1000, (n,), device="cuda"), grad(1000)))
    case(f"cross_entropy {n}", lambda n=n: (lambda x, y: lambda: F.cross_entropy(x, y))(grad(min(n, 5000), 1000), torch.randint(0, 1000, (min(n, 5000),), device="cuda")))
for words, batch, length in ((1000, 4, 10), (50_000, 8, 512), (32_000, 2, 4096), (100, 64, 64)):
    case(f"embedding {words} {batch}x{length}", lambda words=words, batch=batch, length=length: (
        lambda t, layer: lambda: layer(t))(torch.randint(0, words, (batch, length), device="cuda"), nn.Embedding(words, 128, device="cuda")))
    case(f"embedding_bag {words} {batch}x{length}", lambda words=words, batch=batch, length=length: (
        lambda t, layer: lambda: layer(t))(torch.randint(0, words, (batch, length), device="cuda"), nn.EmbeddingBag(words, 128, device="cuda")))
    case(f"embedding frequency {words} {batch}x{length}", lambda words=words, batch=batch, length=length: (
        lambda t, layer: lambda: layer(t))(torch.randint(0, words, (batch, length), device="cuda"), nn.Embedding(words, 128, scale_grad_by_freq=True, device="cuda")))
    case(f"embedding sparse {words} {batch}x{length}", lambda words=words, batch=batch, length=length: (
        lambda t, layer: lambda: layer(t))(torch.randint(0, words, (batch, length), device="cuda"), nn.Embedding(words, 128, sparse=True, device="cuda")))
for label in "fp32", "bf16":
    dtype = DTYPES[label]
    for name, shape, build in (
        ("batch_norm", (8, 64, 56, 56), lambda: nn.BatchNorm2d(64)),
        ("batch_norm small", (64, 100), lambda: nn.BatchNorm1d(100)),
        ("layer_norm", (64, 128, 768), lambda: nn.LayerNorm(768)),
        ("layer_norm wide", (4, 20000), lambda: nn.LayerNorm(20000)),
        ("rms_norm", (64, 128, 768), lambda: nn.RMSNorm(768)),
        ("group_norm", (8, 64, 32, 32), lambda: nn.GroupNorm(8, 64)),
        ("instance_norm", (8, 64, 32, 32), lambda: nn.InstanceNorm2d(64)),
        ("softmax", (64, 8, 128, 128), lambda: nn.Softmax(-1)),
        ("log_softmax", (128, 50257), lambda: nn.LogSoftmax(-1)),
        ("dropout", (64, 128, 768), lambda: nn.Dropout(0.1)),
        ("gelu", (64, 128, 768), lambda: nn.GELU()),
        ("glu", (64, 128, 768), lambda: nn.GLU()),
        ("prelu", (8, 64, 32, 32), lambda: nn.PReLU(64)),
        ("max_pool", (8, 64, 56, 56), lambda: nn.MaxPool2d(3, 2, 1)),
        ("avg_pool", (8, 64, 56, 56), lambda: nn.AvgPool2d(3, 2, 1)),
        ("adaptive_avg_pool", (8, 64, 56, 56), lambda: nn.AdaptiveAvgPool2d(7)),
        ("adaptive_max_pool", (8, 64, 56, 56), lambda: nn.AdaptiveMaxPool2d(7)),
        ("upsample bilinear", (2, 16, 56, 56), lambda: nn.Upsample(scale_factor=2, mode="bilinear")),
        ("upsample nearest", (2, 16, 56, 56), lambda: nn.Upsample(scale_factor=2)),
        ("pixel_shuffle", (2, 16, 56, 56), lambda: nn.PixelShuffle(2)),
        ("unfold", (2, 16, 56, 56), lambda: nn.Unfold(3)),
        ("local_response", (8, 64, 28, 28), lambda: nn.LocalResponseNorm(5)),
        ("transformer layer", (8, 128, 256), lambda: nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)),
        ("multihead", (8, 128, 256), lambda: Attend(256)),
    ):
        case(f"{name} {label}", lambda shape=shape, build=build, dtype=dtype: (lambda x, layer: lambda: layer(x))(grad(*shape, dtype=dtype), build().to("cuda", dtype)))


class Attend(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.MultiheadAttention(width, 4, batch_first=True)

    def forward(self, x):
        return self.inner(x, x, x)[0]


case("cdist", lambda: (lambda a: lambda: torch.cdist(a, a))(grad(300, 16)))
case("pdist", lambda: (lambda a: lambda: torch.pdist(a))(grad(300, 16)))
case("grid_sample", lambda: (lambda a, g: lambda: F.grid_sample(a, g, align_corners=False))(grad(4, 16, 32, 32), grad(4, 24, 24, 2)))
case("affine_grid", lambda: (lambda t: lambda: F.affine_grid(t, (4, 3, 32, 32), align_corners=False))(grad(4, 2, 3)))
case("ctc", lambda: (lambda x, y: lambda: F.ctc_loss(x.log_softmax(2), y, (50,) * 4, (10,) * 4))(grad(50, 4, 20), torch.randint(1, 20, (4, 10))))
case("ctc cuda", lambda: (lambda x, y, l, m: lambda: F.ctc_loss(x.log_softmax(2), y, l, m))(
    grad(50, 4, 20), torch.randint(1, 20, (4, 10), device="cuda"), torch.full((4,), 50, device="cuda"), torch.full((4,), 10, device="cuda")))
case("roll", lambda: (lambda a: lambda: a.roll(3, 1))(grad(64, 64)))
case("tril", lambda: (lambda a: lambda: a.tril())(grad(500, 500)))
case("cat", lambda: (lambda a, b: lambda: torch.cat([a, b, a]))(grad(64, 64), grad(64, 64)))
case("cat many", lambda: (lambda many: lambda: torch.cat(many))([grad(7, 64) for _ in range(300)]))
case("nested", lambda: (lambda a: lambda: torch.nested.to_padded_tensor(torch.nested.nested_tensor([a.detach()[:i] for i in (1, 5, 9)]), 0.0))(grad(64, 64)))
case("normal", lambda: lambda: torch.randn(1000, 1000, device="cuda").exponential_())
case("pinned copy", lambda: (lambda host: lambda: host.cuda(non_blocking=True))(torch.randn(1 << 20).pin_memory()))
case("foreach", lambda: (lambda many: lambda: torch._foreach_norm(many)[0])([torch.randn(100, 100, device="cuda") for _ in range(200)]))
case("clip_grad", lambda: (lambda layer: lambda: clip(layer))(nn.Sequential(*[nn.Linear(64, 64) for _ in range(20)]).cuda()))


def clip(layer):
    layer(torch.randn(4, 64, device="cuda")).sum().backward()
    nn.utils.clip_grad_norm_(layer.parameters(), 1.0)


for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD", "LBFGS", "Adafactor", "Muon"):
    for option in ({}, {"foreach": False}, {"fused": True}):
        if option.get("fused") and name not in ("SGD", "Adam", "AdamW", "Adagrad"):
            continue
        if name in ("LBFGS", "Adafactor", "Muon") and option or not hasattr(torch.optim, name):
            continue

        def make(name=name, option=option):
            layer = nn.Sequential(nn.Linear(256, 512, bias=name != "Muon"), nn.Linear(512, 64, bias=name != "Muon")).cuda()
            optimizer, x = getattr(torch.optim, name)(layer.parameters(), lr=1e-3, **option), torch.randn(32, 256, device="cuda")

            def closure():
                optimizer.zero_grad()
                loss = layer(x).square().mean()
                loss.backward()
                return loss

            return lambda: (optimizer.step(closure), None)[1]

        case(f"optimizer {name} {'/'.join(option) or 'default'}", make)

# --- the measuring --------------------------------------------------------------------------------------------------


def run(call):
    result = call()
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.backward(torch.ones_like(result))


def measure(make):
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(0)
    call = make()
    found = []
    for _ in range(2):
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        torch.cuda.memory._record_memory_history(context=None, max_entries=100_000)
        run(call)
        torch.cuda.synchronize()
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        torch.cuda.memory._record_memory_history(enabled=None)
        events = [e["size"] if e["action"] == "alloc" else -e["size"] for e in trace if e["action"] in ("alloc", "free_requested")]
        found.append({"events": events, "peak": torch.cuda.max_memory_allocated() - before, "reserved": torch.cuda.max_memory_reserved()})
    return found


def main():
    words, asked = sys.argv[2:], list(cases)
    if words[:1] == ["only"]:
        asked = [name for name in cases if name.split()[0] in words[1:]]
    elif words:
        asked = asked[int(words[0]) :: int(words[2])]
    found, begun = {}, time.monotonic()
    for name in asked:
        try:
            found[name] = measure(cases[name])
        except Exception as error:  # noqa: BLE001 - what it says is the result
            found[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
            torch.cuda.memory._record_memory_history(enabled=None)
            if "CUDA error" in str(error) and "out of memory" not in str(error):
                break  # the context is lost
    with open(sys.argv[1], "w") as file:
        json.dump(found, file)
    print(f"{len(found)} cases, {sum(isinstance(f, str) for f in found.values())} failed, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
