"""weight_copies.py SEED: prints a program that trains, and makes copies of the model's weights, or new weights computed from them.

The line that makes copies ends with the comment WEIGHTS, the line that makes a batch with BATCH. `main(seed)` returns the text;
`by_chance(seed)` that of one whose batch has by chance the sizes of three parameters in a row.
"""

import random
import sys

MODELS = {
    "mlp": "nn.Sequential(*[layer for _ in range({layers}) for layer in (nn.Linear({width}, {width}), nn.ReLU())])",
    "funnel": "nn.Sequential(nn.Linear({width}, {half}), nn.Tanh(), nn.Linear({half}, {width}))",
    "norms": "nn.Sequential(nn.Linear({width}, {width}), nn.BatchNorm1d({width}), nn.ReLU(), nn.Linear({width}, {width}))",
    "convolutions": "nn.Sequential(nn.Unflatten(1, (4, {quarter})), nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(),"
    " nn.Conv1d(8, 4, 3, padding=1), nn.Flatten())",
    "encoder": "nn.Sequential(nn.TransformerEncoderLayer({width}, 4, {half}, 0.0, batch_first=True), nn.Linear({width}, {width}))",
}

HEAD = """
import copy
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = {model}.to("cuda")
optimizer = torch.optim.{optimizer}(model.parameters(), lr=1e-4)
best = None


def batch():
    host = {{name: torch.randn({rows}, {width}) for name in ("x", "y", "z")}}
    return {{name: tensor.to("cuda") for name, tensor in host.items()}}  # BATCH


def loss_of(data, output):
    return (output - data["y"] + data["z"]).square().mean()


for step in range({steps}):
    data = batch()
"""

TRAIN = """
    optimizer.zero_grad()
    loss = loss_of(data, model(data["x"]))
    loss.backward()
"""
STEP = """
    optimizer.step()
"""

# name: (before the training step, between backward and the optimizer, after it)
COPIES = {
    "best": ("", "", "    best = copy.deepcopy(model.state_dict())  # WEIGHTS\n"),
    "sometimes the best": ("", "", "    if step % 3 == 1:\n        best = copy.deepcopy(model.state_dict())  # WEIGHTS\n"),
    "before": ("    best = {name: tensor.clone() for name, tensor in model.state_dict().items()}  # WEIGHTS\n", "", ""),
    "restored": (
        "    best = [p.detach().clone() for p in model.parameters()]  # WEIGHTS\n",
        "",
        "    with torch.no_grad():\n        for p, old in zip(model.parameters(), best):\n            p.lerp_(old, 0.5)\n",
    ),
    "average": (
        "",
        "",
        "    now = {name: tensor.detach() for name, tensor in model.named_parameters()}\n"
        "    best = {name: 0.9 * best[name] + 0.1 * now[name] if best else now[name].clone() for name in now}  # WEIGHTS\n",
    ),
    "gradients": ("", "    best = [p.grad.clone() for p in model.parameters()]  # WEIGHTS\n", ""),
    "sharpness": (
        "",
        "    moved = [p.detach() + 0.05 * p.grad for p in model.parameters()]  # WEIGHTS\n"
        "    names = [name for name, _ in model.named_parameters()]\n"
        "    loss_of(data, functional_call(model, dict(zip(names, moved)), (data['x'],)))\n",
        "",
    ),
}

META = """
    optimizer.zero_grad()
    fast = dict(model.named_parameters())
    for _ in range({inner}):
        loss = loss_of(data, functional_call(model, fast, (data["x"],)))
        gradients = torch.autograd.grad(loss, list(fast.values()), create_graph={graph}, allow_unused=True)
        fast = {{name: p - 0.01 * g for (name, p), g in zip(fast.items(), gradients)}}  # WEIGHTS
    data = batch()
    loss_of(data, functional_call(model, fast, (data["x"],))).backward()
    optimizer.step()
"""


BY_CHANCE = """
import copy
import torch
from torch import nn

widths = {widths}
model = nn.Sequential(*[nn.Linear(a, b) for a, b in zip(widths, widths[1:])]).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
shapes = [tuple(p.shape) for p in model.parameters()][{first}:][:3]
best = None
for step in range({steps}):
    host = [torch.randn(shape) for shape in shapes]
    data = [tensor.to("cuda") for tensor in host]  # BATCH
    optimizer.zero_grad()
    rows = max(data, key=torch.numel).flatten()[:widths[0]].view(1, -1)
    (model(rows).sum() * sum(tensor.sum() for tensor in data)).backward()
    optimizer.step()
    best = copy.deepcopy(model.state_dict())  # WEIGHTS
"""


def by_chance(seed):
    rng = random.Random(seed)
    widths = [rng.randrange(16, 65) for _ in range(rng.randint(5, 9))]
    return BY_CHANCE.format(widths=widths, first=rng.randrange(2 * (len(widths) - 1) - 2), steps=rng.randint(6, 9))


def main(seed):
    rng = random.Random(seed)
    width = rng.choice([64, 96, 128, 256])
    sizes = {"layers": rng.randint(2, 4), "width": width, "half": width // 2, "quarter": width // 4}
    kind = rng.choice(list(MODELS))
    head = HEAD.format(
        model=MODELS[kind].format(**sizes),
        optimizer=rng.choice(["SGD", "Adam", "AdamW"]),
        # as many rows as a layer has, too: each batch then has the shape of a weight
        rows=rng.choice([8, 32, 100, width, 3 * width]),
        width=width,
        steps=rng.randint(6, 9),
    )
    way = [*COPIES, "meta"][seed % (len(COPIES) + 1)]
    if way == "meta":
        graph = kind != "encoder" and rng.choice([True, False])  # PyTorch's attention cannot be differentiated twice
        return head + META.format(inner=rng.randint(1, 3), graph=graph)
    before, between, after = COPIES[way]
    return head + before + TRAIN + between + STEP + after


if __name__ == "__main__":
    print(main(int(sys.argv[1])))
