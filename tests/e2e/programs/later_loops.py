"""later_loops.py SEED: prints a program that trains and then evaluates, and keeps something of the evaluation, or only seems to.

A line whose blocks accumulate ends with the comment LEAK; one that keeps as much, but in no loop that gpumem can examine, with
UNKNOWN. The program prints as JSON the bytes that each of these lines has kept. `main(seed)` returns the text.
"""

import random
import sys

HEAD = """
import collections, contextlib, json
import torch
from torch import nn

model = nn.Sequential(nn.Linear({width}, {width}), nn.ReLU(), nn.Linear({width}, {width})).to("cuda")
optimizer = torch.optim.{optimizer}(model.parameters(), lr=1e-4)
kept = {{}}


def tell(name, values):
    tensors = list(values)
    kept[name] = sum(t.untyped_storage().nbytes() for t in tensors)


def batch(rows={rows}):
    return torch.randn(rows, {width}, device="cuda")


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()


"""


METRIC = """class Metric{number}:
    def __init__(self):
        self.states = []

    def update(self, value):
        self.states.append(value * 2)  # LEAK


"""


def evaluation(rng, number):
    """(functions, what begins it, its loop, what tells the bytes that it kept): one evaluation."""
    mode = rng.choice(["torch.no_grad()", "torch.inference_mode()", "contextlib.nullcontext()"])
    # up to 1 MiB, as the allocator does not split larger blocks exactly
    count, rows, name = rng.randint(4, 12), rng.choice([512, 768, 1024]), f"of{number}"
    made = f"model(batch({rows}))" if "null" not in mode else f"model(batch({rows})).detach()"
    told = [f"tell('{name}', {name})"]
    loop = [f"with {mode}:", f"    for i in range({count}):"]
    outer = [f"for fold in range({rng.randint(2, 4)}):", *(f"    {line}" for line in loop)]
    kind = rng.choice(["list", "dict", "state", "local", "last", "window", "sum", "nested", "reset", "comprehension", "half"])
    if kind == "list":
        return "", [f"{name} = []"], [*loop, f"        {name}.append({made})  # LEAK"], told
    if kind == "nested":
        return "", [f"{name} = []"], [*outer, f"            {name}.append({made})  # LEAK"], told
    if kind == "dict":
        return "", [f"{name} = {{}}"], [*loop, f"        {name}[len({name})] = {made}  # LEAK"], [f"tell('{name}', {name}.values())"]
    if kind == "half":
        loop[1] = f"    for i in range({2 * count}):"
        lines = [*loop, f"        out = {made}  # LEAK", f"        if i % 2 == 0: {name}.append(out)", "del out"]
        return "", [f"{name} = []"], lines, told
    if kind == "state":
        return METRIC.format(number=number), [f"{name} = Metric{number}()"], [*loop, f"        {name}.update({made})"], [f"tell('{name}', {name}.states)"]
    if kind == "comprehension":
        return "", [], [f"with {mode}:", f"    {name} = [{made} for _ in range({2 * count})]  # UNKNOWN"], told
    if kind == "local":
        body = "\n".join(["    found = []", *(f"    {line}" for line in loop), f"            found.append({made})"])
        return f"def evaluate{number}():\n{body}\n    return torch.cat(found).mean().item()\n\n\n", [], [f"evaluate{number}()"], []
    if kind == "last":
        return "", [], [*loop, f"        latest{number} = {made}"], []
    if kind == "window":
        return "", [f"window{number} = collections.deque(maxlen=2)"], [*loop, f"        window{number}.append({made})"], []
    if kind == "sum":
        return "", [f'total{number} = torch.zeros(WIDTH, device="cuda")'], [*loop, f"        total{number} += {made}.sum(0)"], []
    return "", [], [outer[0], f"    parts{number} = []", *outer[1:], f"            parts{number}.append({made})"], []


def main(seed):
    rng = random.Random(seed)
    width = rng.choice([128, 256])
    functions, before, after, epochs = "", [], [], rng.random() < 0.3
    lines = [f"train({rng.choice([2, 5, 8])})"] if not epochs else [f"train({rng.randint(5, 8)})"]
    for number in range(rng.choice([1, 1, 2])):
        function, begins, loop, told = evaluation(rng, number)
        if epochs and begins and rng.random() < 0.5:
            # what begins empty in each epoch does not accumulate
            function, loop, told = function.replace("  # LEAK", ""), [line.replace("  # LEAK", "") for line in [*begins, *loop]], []
        else:
            before += begins
        functions, lines, after = functions + function, lines + loop, after + told
    if epochs:  # two of them, which are too few to show growth themselves
        lines = ["for epoch in range(2):", *(f"    {line}" for line in lines)]
    body = [*before, *lines, *after, "print(json.dumps(kept))"]
    if rng.random() < 0.5:
        body = ["def run():", *(f"    {line}" for line in body), "", "", "run()"]
    head = HEAD.format(width=width, rows=rng.choice([64, 256]), optimizer=rng.choice(["SGD", "Adam"]))
    return (head + functions + "\n".join(body) + "\n").replace("WIDTH", str(width))


if __name__ == "__main__":
    sys.stdout.write(main(int(sys.argv[1])))
