"""Programs of which public snapshots from real GPUs exist (tests/e2e/data/real_gpu/), written anew.

    python as_on_a_gpu.py PROGRAM OUT       runs one and writes what PyTorch recorded of it, as figures, to OUT

What counts is the order in which tensors are made and let go: each function here does the same operations in the same
order as the program that the snapshot is of, and keeps its results in variables as long as that one does.
"""

import json
import math
import sys

import torch
from torch import nn


def linear_loop(grad=True):
    torch.cuda.memory._record_memory_history(max_entries=100000)
    model = nn.Linear(10_000, 50_000, device="cuda")
    with torch.set_grad_enabled(grad):
        for _ in range(3):
            inputs = torch.randn(5_000, 10_000, device="cuda")
            outputs = model(inputs)  # kept until the next pass
    return figures(), inputs, outputs


def softmax(x):
    x = x - x.max(dim=-1, keepdim=True)[0]
    powers = torch.exp(x)
    return powers / torch.sum(powers, dim=-1, keepdim=True)


def attention():
    """Of 8 x 4,096 x 16 elements in single precision, forward and backward."""

    def probabilities(x):
        highest = x.max(dim=-1, keepdim=True).values
        powers = torch.exp(x - highest)
        total = torch.sum(powers, dim=-1, keepdim=True)
        return powers / total

    def attend(q, k, v):
        scores = torch.einsum("bqd,bkd->bqk", q, k)
        scores = scores / q.shape[-1] ** 0.5
        weights = probabilities(scores)
        return torch.einsum("bqk,bkd->bqd", weights, v)

    torch.cuda.memory._record_memory_history(max_entries=100000)
    q, k, v = (torch.randn(8, 4096, 16, device="cuda", requires_grad=True) for _ in range(3))
    output = attend(q, k, v)
    loss = output.sum()
    loss.backward()
    return figures(), output, loss


class Projection(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outer, inner))

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        before = x.dtype
        x = x.to(torch.float32)
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        x = x * scale
        return (self.weight * x).to(before)


class Attention(nn.Module):
    def __init__(self, width, heads, turns):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (Projection(width, width) for _ in range(4))
        self.turns = turns

    def turn(self, x):
        a, b = x.unflatten(-1, (-1, 2)).movedim(-1, 0).unbind(0)
        cosine, sine = self.turns[:, : x.size(-2), :].unbind(0)
        first = cosine * a - sine * b
        second = sine * a + cosine * b
        result = torch.cat((first, second), dim=-1)
        return result

    def attend(self, q, k, v, mask):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(k.shape[-1])
        scores = torch.where(mask, scores, float("-inf"))
        weights = softmax(scores)
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)

    def forward(self, x):
        q = self.q(x)
        k = self.k(x)
        v = self.v(x)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(-3, -2) for y in (q, k, v))
        q = self.turn(q)
        k = self.turn(k)
        places = torch.arange(x.size(1), device=x.device)
        mask = places[:, None] >= places[None, :]
        mixed = self.attend(q, k, v, mask[None])
        mixed = mixed.transpose(1, 2).flatten(-2).contiguous()
        output = self.out(mixed)
        return output


class Gated(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.one, self.two, self.three = Projection(width, inner), Projection(inner, width), Projection(width, inner)

    @staticmethod
    def silu(x):
        return x * torch.sigmoid(x)

    def forward(self, x):
        return self.two(self.silu(self.one(x)) * self.three(x))


class Block(nn.Module):
    def __init__(self, width, inner, heads, turns):
        super().__init__()
        self.attention, self.gated = Attention(width, heads, turns), Gated(width, inner)
        self.before, self.between = Norm(width), Norm(width)

    def forward(self, x):
        attended = self.attention(self.before(x))
        middle = x + attended
        fed = self.gated(self.between(middle))
        last = middle + fed
        return last


class Transformer(nn.Module):
    """430 million parameters in single precision: a pre-norm decoder, rotary positions, nothing fused."""

    def __init__(self, context, words=10_000, width=1024, inner=4096, layers=24, heads=16):
        super().__init__()
        self.words = nn.Parameter(torch.empty(words, width))
        self.register_buffer("turns", torch.empty(2, context, width // heads // 2))
        self.layers = nn.ModuleList([Block(width, inner, heads, self.turns) for _ in range(layers)])
        self.last, self.head = Norm(width), Projection(width, words)

    def forward(self, tokens):
        embedded = self.words[tokens, :]
        x = embedded  # it lives as long as the pass
        for layer in self.layers:
            x = layer(x)
        x = self.last(x)
        logits = self.head(x)
        return logits


def cross_entropy(logits, targets):
    def logarithms(x):
        highest = torch.max(x, dim=-1, keepdim=True)[0]
        x = x - highest
        return x - torch.log(torch.sum(torch.exp(x), dim=-1, keepdim=True))

    surprise = -logarithms(logits)
    return torch.mean(torch.gather(surprise, -1, targets.unsqueeze(-1)))


class Adam(torch.optim.Optimizer):
    """With weight decay; parameter by parameter, every intermediate result a tensor of its own."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-3})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad.data
                state = self.state[p]
                rate = group["lr"]
                t = state.get("t", 1)
                now = rate * (math.sqrt(1 - 0.999**t) / (1 - 0.9**t))
                p.data -= rate * 0.01 * p.data
                m_before = state.get("m", torch.zeros_like(grad))
                v_before = state.get("v", torch.zeros_like(grad))
                m = 0.9 * m_before + (1 - 0.9) * grad
                v = 0.999 * v_before + (1 - 0.999) * torch.square(grad)
                p.data -= now * m / (torch.sqrt(v) + 1e-8)
                state["m"] = m
                state["v"] = v
                state["t"] = t + 1


def transformer(context, train, autocast, warm=5):
    with torch.device("cuda"):
        model = Transformer(context)
        inputs, last = (torch.randint(0, 10_000, (count, 4, context)) for count in (warm, 1))
        if train:
            targets, last_targets = (torch.randint(0, 10_000, (count, 4, context)) for count in (warm, 1))
    for block in model.layers:
        block.attention.turns = model.turns
    optimizer = Adam(model.parameters())

    def low():
        return torch.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=autocast)

    if not train:
        with torch.inference_mode():
            for i in range(warm):
                with low():
                    model(inputs[i])
            torch.cuda.memory._record_memory_history(max_entries=1000000)
            with low():
                model(last[0])
                torch.cuda.synchronize()
        return figures(), model
    for i in range(warm):
        with low():
            output = model(inputs[i])
            loss = cross_entropy(output, targets[i])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    del output, loss
    torch.cuda.memory._record_memory_history(max_entries=1000000)
    with low():
        output = model(last[0])
        loss = cross_entropy(output, last_targets[0])
    loss.backward()
    optimizer.step()
    return figures(), model, output, loss


def figures():
    """What PyTorch recorded, in the order of a figures file."""
    snapshot = torch.cuda.memory._snapshot()
    (trace,) = (trace for trace in snapshot["device_traces"] if trace)
    return {
        "torch": torch.__version__.split("+")[0],
        "events": [[entry["action"], entry["size"]] for entry in trace if entry["action"] != "snapshot"],
        "reserved": sum(segment["total_size"] for segment in snapshot["segments"]),
        "requested": sum(segment["requested_size"] for segment in snapshot["segments"]),
    }


PROGRAMS = {
    "linear_loop": linear_loop,
    "linear_loop_no_grad": lambda: linear_loop(grad=False),
    "attention": attention,
    "transformer_128": lambda: transformer(128, False, False),
    "transformer_128_training": lambda: transformer(128, True, False),
    "transformer_512_bf16": lambda: transformer(512, False, True),
    "transformer_512_bf16_training": lambda: transformer(512, True, True),
}

if __name__ == "__main__":
    result = PROGRAMS[sys.argv[1]]()[0]
    with open(sys.argv[2], "w") as out:
        json.dump(result, out)
