"""Text is generated in the way that is asked for, and the allocations of each forward pass are counted:
{"prefill": [[first, last + 1], …], "decode": …}."""

import json
import random
import sys

import torch
from torch import nn

way, seed, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
chance = random.Random(seed)
WIDTH, LAYERS, TOKENS, PROMPTS = 64, chance.randint(1, 4), chance.randint(3, 6), chance.randint(2, 3)
truth = {"prefill": [], "decode": []}


def allocations():
    return torch.cuda.memory_stats()["allocation.all.allocated"]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache):
        cache.append(x * 2)
        for _ in range(2):
            x = x + self.outer(torch.relu(self.inner(x)))
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(100, WIDTH), nn.Linear(WIDTH, 100)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, tokens, cache):
        before = allocations()
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x, cache)
        logits = self.head(x[:, -1])
        truth["prefill" if tokens.shape[1] > 1 else "decode"].append([before, allocations()])
        return logits


def chosen(logits):
    return logits.argmax(-1, keepdim=True)


def before_the_loop(tokens):
    cache = []
    token = chosen(model(tokens, cache))
    for _ in range(TOKENS):
        token = chosen(model(token, cache))


def first_iteration(tokens):
    cache = []
    for _ in range(1 + TOKENS):
        tokens = chosen(model(tokens, cache))


def branches(tokens):
    cache, token = [], None
    for i in range(1 + TOKENS):
        logits = model(tokens, cache) if i == 0 else model(token, cache)
        token = chosen(logits)


def read(tokens, cache):
    return model(tokens, cache)


def next_of(token, cache):
    return chosen(model(token, cache))


def functions(tokens):
    cache = []
    token = chosen(read(tokens, cache))
    while len(cache) < (1 + TOKENS) * LAYERS:
        token = next_of(token, cache)


def sample(tokens):
    cache = []
    logits, read_yet = read(tokens, cache), False
    while len(cache) < (1 + TOKENS) * LAYERS:
        if read_yet:
            logits = model(token, cache)
        read_yet = True
        token = chosen(logits)


def in_another(tokens):
    sample(tokens)


def several(prompts):
    for tokens in prompts:
        cache = []
        token = chosen(model(tokens.cuda(), cache))
        for _ in range(TOKENS):
            token = chosen(model(token, cache))


def several_in_another(prompts):
    for tokens in prompts:
        sample(tokens.cuda())


def named(function):
    """All of them are called so."""
    names = {"co_name": "generate"}
    if sys.version_info >= (3, 11):
        names["co_qualname"] = "generate"
    function.__code__ = function.__code__.replace(**names)
    return torch.no_grad()(function)


model = Model().cuda().eval()
generate = named(globals()[way])
prompts = [torch.ones(2, chance.randint(5, 30), dtype=torch.long) for _ in range(PROMPTS)]
if way.startswith("several"):
    generate(prompts)
else:
    for prompt in prompts:
        generate(prompt.cuda())
with open(out, "w", encoding="ascii") as file:
    json.dump(truth, file)
