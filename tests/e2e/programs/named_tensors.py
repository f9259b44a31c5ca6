"""A random tree of modules that is trained: named_tensors.py SEED OUT [STEPS [WAITS]]. Writes to OUT what named_parameters(), named_buffers(), .grad, the
optimizer's state and other attributes tell, as it stands when the second step of the optimizer has ended. After step WAITS it waits for a
line of standard input."""

import json
import random
import sys

import torch

seed, out = int(sys.argv[1]), sys.argv[2]
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 3
rng = random.Random(seed)
torch.manual_seed(seed)
WIDTH = rng.choice([8, 16, 24])
shared = []


class Part(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        for number in range(rng.randint(0, 2)):
            self.register_parameter(rng.choice(["weight", "scale", "bias"]) + str(number), leaf())
        if rng.random() < 0.3:
            self.register_parameter("nothing", None)
        if rng.random() < 0.4:
            self.register_buffer("mean", torch.zeros(rng.randint(1, 300)), persistent=rng.random() < 0.5)
        if shared and rng.random() < 0.3:
            self.tied = rng.choice(shared)
        if rng.random() < 0.4:
            self.kept = torch.zeros(rng.randint(1, 100))
        if rng.random() < 0.3:
            self.cache = {"k": torch.zeros(40), "list": [torch.zeros(10), 3, torch.zeros(20)]}
        if rng.random() < 0.3:
            self.frozen = torch.nn.Parameter(torch.zeros(WIDTH), requires_grad=False)
        children = [Part(depth - 1) for _ in range(rng.randint(0, 3))] if depth else []
        if children:
            kind = rng.choice(["list", "dict", "sequence", "names"])
            if kind == "list":
                self.parts = torch.nn.ModuleList(children)
            elif kind == "dict":
                self.parts = torch.nn.ModuleDict({f"part{i}": child for i, child in enumerate(children)})
            elif kind == "sequence":
                self.parts = torch.nn.Sequential(*children)
            else:
                for number, child in enumerate(children):
                    setattr(self, f"child_{number}", child)
        self.children_of = len(children)

    def forward(self, x):
        for parameter in self.parameters(recurse=False):
            x = x + parameter.float().sum() * 0.5
        for child in self.children():
            for one in child if isinstance(child, torch.nn.ModuleList) else child.values() if isinstance(child, torch.nn.ModuleDict) else [child]:
                x = one(x)
        return x


def leaf():
    parameter = torch.nn.Parameter(torch.zeros(*rng.choice([(WIDTH,), (WIDTH, 3), (2, 5, 7), (1,), (WIDTH, WIDTH)])))
    if rng.random() < 0.3:
        shared.append(parameter)
    return parameter


def move(value):
    """Module.cuda() moves parameters and buffers alone."""
    if isinstance(value, torch.Tensor):
        return value.cuda()
    if isinstance(value, list):
        return [move(item) for item in value]
    if isinstance(value, dict):
        return {key: move(item) for key, item in value.items()}
    return value


def tensors_in(value, path):
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors_in(item, f"{path}['{key}']")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from tensors_in(item, f"{path}[{index}]")


def tell(model, optimizer):
    found, names = [], {}

    def note(kind, name, tensor):
        if tensor.is_cuda and tensor.numel():
            size = tensor.numel() * tensor.element_size()
            offset = tensor.storage_offset() * tensor.element_size()
            found.append([kind, name, tensor.untyped_storage().data_ptr(), offset, size])

    for name, parameter in model.named_parameters():
        names[parameter] = name
        note("parameter", name, parameter)
        if parameter.grad is not None:
            note("gradient", name + ".grad", parameter.grad)
    for name, buffer in model.named_buffers():
        note("buffer", name, buffer)
    for path, module in model.named_modules():
        for attribute in ("kept", "cache"):
            if hasattr(module, attribute):
                for name, tensor in tensors_in(getattr(module, attribute), f"{path}.{attribute}" if path else attribute):
                    note("attribute", name, tensor)
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            if isinstance(value, torch.Tensor):
                note("optimizer_state", f"{key} of {names[parameter]}", value)
    return found


model = Part(3)
while not list(model.parameters()):
    model = Part(3)
model.first = torch.nn.Linear(WIDTH, WIDTH)
model = model.cuda()
for module in model.modules():
    for attribute in ("kept", "cache"):
        if hasattr(module, attribute):
            setattr(module, attribute, move(getattr(module, attribute)))
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizer = {
    "adam": lambda: torch.optim.Adam(trained, foreach=rng.random() < 0.5),
    "adamw": lambda: torch.optim.AdamW(trained, amsgrad=True),
    "sgd": lambda: torch.optim.SGD(trained, lr=0.01),
    "momentum": lambda: torch.optim.SGD(trained, lr=0.01, momentum=0.9),
    "rmsprop": lambda: torch.optim.RMSprop(trained, centered=True),
}[rng.choice(["adam", "adamw", "sgd", "momentum", "rmsprop"])]()
zero_first = rng.random() < 0.5
waits = int(sys.argv[4]) if len(sys.argv) > 4 else 0
losses = []
for step in range(1, steps + 1):
    if zero_first:
        optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16, enabled=seed % 2 == 1):
        loss = (model.first(model(torch.zeros(4, WIDTH, device="cuda")))).sum()
    loss.backward()
    optimizer.step()
    if step == 2:
        with open(out, "w") as file:
            json.dump(tell(model, optimizer), file)
    if not zero_first:
        optimizer.zero_grad()
    losses.append(loss.item())
    if step == waits:
        print("ready", flush=True)
        sys.stdin.readline()
print("losses", losses)
