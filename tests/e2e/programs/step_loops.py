"""Training programs made up by chance, which know their own steps and what they keep.

`make(seed)` gives the source of one. It calls begin() and end() of the truth around each of its steps (an update of the
weights and all that leads to it; without an optimizer, an iteration around the model's call), and has the comment
`# KEPT` on the lines whose blocks pile up. The header says which shape it is and whether anything piles up at all.
"""

import random
import textwrap

HEAD = '''\
import asyncio
import collections
import threading

import torch
from torch import nn


class Block(nn.Module):
    """Loops of many kinds, none of which is a step's."""

    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.gates = nn.Linear(width, 3)

    def forward(self, x):
{forward}


class Model(nn.Module):
    def __init__(self, width=32, layers=2, blocks=1):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, layers) for _ in range(blocks))
        self.head = nn.Linear(width, 8)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batches(count, truth=None):
    for index in range(count):
        if truth:
            truth.begin()
        yield torch.randn(16, 32, device="cuda")


class Loader:
    def __init__(self, count, truth):
        self.count, self.truth = count, truth

    def __iter__(self):
        self.left = self.count
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        self.truth.begin()
        return torch.randn(16, 32, device="cuda")

'''

FORWARDS = [
    "for layer in self.layers:\n    x = torch.relu(layer(x))\nreturn x",
    "for time in range(4):\n    x = torch.tanh(self.layers[0](x) + x)\nreturn x",
    "weights = self.gates(x).softmax(-1)\nreturn sum(weights[:, i : i + 1] * layer(x) for i, layer in enumerate([*self.layers, *self.layers][:3]))",
    "return torch.cat([self.layers[0](chunk) for chunk in x.chunk(4)])",
    "left = len(self.layers)\nwhile left:\n    left -= 1\n    x = x + torch.sigmoid(self.layers[left](x))\nreturn x",
    "def deep(x, level):\n    return x if level == len(self.layers) else deep(torch.relu(self.layers[level](x)), level + 1)\nreturn deep(x, 0)",
    "return torch.stack(list(map(self.layers[0], x.chunk(2)))).flatten(0, 1)",
]


def indent(lines, depth=1):
    return textwrap.indent("\n".join(lines), "    " * depth).splitlines()


class Maker:
    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.functions, self.leak, self.shape = [], "none", ""
        self.counter = 0

    def pick(self, *choices):
        return self.chance.choice(choices)

    def odds(self, share):
        return self.chance.random() < share

    def name(self, stem):
        self.counter += 1
        return f"{stem}_{self.counter}"

    # ---- what a step does

    def optimizer(self):
        return self.pick("torch.optim.SGD({}, lr=0.1)", "torch.optim.SGD({}, lr=0.1, momentum=0.9)", "torch.optim.AdamW({})",
                         "torch.optim.Adam({}, foreach=False)")  # fmt: skip

    def load(self):
        return self.pick(["x = torch.randn(16, 32, device='cuda')"], ["x = torch.randn(16, 32).cuda()"], ["x = next(batches(1))"])

    def forward(self):
        return self.pick(
            ["out = model(x)", "loss = out.square().mean()"],
            ["out = torch.cat([model(c) for c in x.chunk(4)])", "loss = out.square().mean()"],
            ["with torch.autocast('cuda', dtype=torch.bfloat16):", "    out = model(x)", "    loss = out.float().square().mean()"],
            ["out = model(x)", "loss = sum(nn.functional.mse_loss(part, torch.zeros_like(part)) for part in out.chunk(2))"],
        )

    def update(self, optimizer="optimizer"):
        return self.pick(
            [f"{optimizer}.step()", f"{optimizer}.zero_grad()"],
            [f"{optimizer}.step()", f"{optimizer}.zero_grad(set_to_none=False)"],
            [f"{optimizer}.step()", "model.zero_grad()"],
        )

    def plain_step(self):
        forward = self.forward()
        if self.odds(0.3):
            return ["optimizer.zero_grad()", *forward, "loss.backward()", "optimizer.step()"]
        return [*forward, "loss.backward()", *self.update()]

    def retried(self, lines):
        """A loop that repeats a step where it failed."""
        fails = self.pick("False", "index == 2 and attempt == 0")
        return ["for attempt in range(3):", "    try:", *indent(lines, 2), f"        if {fails}:",
                "            raise RuntimeError('again')", "        break", "    except RuntimeError:", "        continue"]  # fmt: skip

    def step(self, deep=True):
        """The lines of one step, given x (a batch), model and optimizer; it may be in functions."""
        lines = self.plain_step()
        if deep and self.odds(0.5):
            name = self.name("train_step")
            self.functions += [f"def {name}(model, optimizer, x, index):", *indent([*lines, "return out, loss"]), "", ""]
            lines = [f"out, loss = {name}(model, optimizer, x, index)"]
            if self.odds(0.3):
                outer = self.name("process")
                self.functions += [f"def {outer}(model, optimizer, x, index):", *indent([*lines, "return out, loss"]), "", ""]
                lines = [f"out, loss = {outer}(model, optimizer, x, index)"]
            elif self.odds(0.2):
                lines = [f"out, loss = (lambda x: {name}(model, optimizer, x, index))(x)"]
        if deep and self.odds(0.15):
            lines = self.retried(lines)
        return lines

    # ---- what is kept

    def keep_each_step(self):
        """Lines at a step's end and their set-up; whether they pile up."""
        kind = self.pick("none", "none", "none", "extra", "graph", "cat", "window", "last", "cache", "total", "freed", "wide", "longer")
        self.leak = kind
        if kind == "extra":
            return ["kept = []"], ["extra = out.detach() * 2  # KEPT", "kept.append(extra)"], True
        if kind == "graph":
            return ["losses = []"], ["kept_loss = (model(x).sum() * 2)", "losses.append(kept_loss)"], True
        if kind == "cat":
            return ["history = torch.zeros(1, 8, device='cuda')"], ["history = torch.cat([history, out.detach()])  # KEPT"], True
        if kind == "wide":
            return ["kept = {}"], ["kept[len(kept)] = torch.zeros(100 + len(kept), 64, device='cuda')  # KEPT"], True
        if kind == "longer":
            return [], ["sample = torch.randn(8 + 8 * index, 32, device='cuda')", "outside = model(sample).detach()"], False
        if kind == "window":
            return ["window = collections.deque(maxlen=2)"], ["window.append(out.detach() + 1)"], False
        if kind == "last":
            return ["last = None"], ["last = out.detach() + 1"], False
        if kind == "cache":
            return ["cache = {}"], ["if index % 2 not in cache:", "    cache[index % 2] = out.detach() + 1"], False
        if kind == "total":
            return ["total = torch.zeros((), device='cuda')"], ["total = total + loss.detach()"], False
        if kind == "freed":
            return [], ["several = [out.detach() + i for i in range(4)]", "whole = torch.cat(several)", "del several, whole"], False
        return [], [], False

    def keep_each_epoch(self):
        kind = self.pick("none", "none", "predictions", "dataset", "joined", "best", "unfreeze")
        self.leak = kind
        if kind == "predictions":
            self.functions += ["def validate(model):", "    model.eval()", "    found = []", "    with torch.no_grad():",
                               "        for x in batches(2):", "            found.append(model(x).softmax(-1))  # KEPT",
                               "    model.train()", "    return found", "", ""]  # fmt: skip
            return ["predictions = []"], ["predictions.append(validate(model))"], True
        if kind == "dataset":
            return ["dataset = []"], ["dataset.append(torch.randn(64, 32, device='cuda'))  # KEPT"], True
        if kind == "joined":
            return ["dataset = torch.zeros(8, 32, device='cuda')"], [
                "fresh = torch.randn(64, 32, device='cuda')", "dataset = torch.cat([dataset, fresh])  # KEPT"], True  # fmt: skip
        if kind == "best":
            return ["best = None"], ["best = {name: p.detach().clone() for name, p in model.named_parameters()}"], False
        if kind == "unfreeze":
            return ["for p in list(model.parameters())[:-2]:", "    p.requires_grad_(False)"], [
                "frozen = [p for p in model.parameters() if not p.requires_grad]", "for p in frozen[-2:]:",
                "    p.requires_grad_(True)"], False  # fmt: skip
        return [], [], False

    def validation(self):
        if self.odds(0.5):
            return []
        name = self.name("check")
        self.functions += [f"def {name}(model):", "    with torch.no_grad():", "        for x in batches(3):",
                           "            score = model(x).argmax(-1)", "    return score", "", ""]  # fmt: skip
        return [f"score = {name}(model)"]

    # ---- shapes

    def head(self, count):
        """How a loop over batches begins: its line, and what its body starts with."""
        return self.pick(
            ([f"for index in range({count}):"], ["truth.begin()", *self.load()]),
            (["index = -1", f"for x in batches({count}, truth):"], ["index += 1"]),
            ([f"for index, x in enumerate(batches({count}, truth)):"], []),
            ([f"for index, x in enumerate(Loader({count}, truth)):"], []),
            (["index = -1", f"while index < {count - 1}:"], ["truth.begin()", "index += 1", *self.load()]),
            ([f"for index, x in enumerate(torch.utils.data.DataLoader(torch.randn({count * 4}, 32), batch_size=4)):"],
             ["truth.begin()", "x = x.cuda()"]),
        )  # fmt: skip

    def loop(self, count, leaks=True):
        before, keep, piles = self.keep_each_step() if leaks else ([], [], False)
        head, start = self.head(count)
        return before, [*head, *indent([*start, *self.step(), *keep, "truth.end()"])], piles

    def make_loop(self):
        before, loop, piles = self.loop(self.chance.randint(6, 10))
        return [*before, *loop, *self.validation()], piles

    def make_epochs(self):
        per_epoch = self.odds(0.6)
        if per_epoch:
            before, keep, piles = self.keep_each_epoch()
            _, inner, _ = self.loop(self.chance.randint(2, 4), leaks=False)
            epochs = self.chance.randint(5, 7)
        else:
            keep = []
            before, inner, piles = self.loop(self.chance.randint(2, 5))
            epochs = self.chance.randint(3, 4)
        lines = [f"for epoch in range({epochs}):", *indent([*inner, *self.validation(), *keep])]
        if self.odds(0.3):
            name = self.name("train_epoch")
            self.functions += [f"def {name}(truth, model, optimizer):", *indent(inner if per_epoch else ["pass"]), "", ""]
            if per_epoch:
                lines = [f"for epoch in range({epochs}):", *indent([f"{name}(truth, model, optimizer)", *self.validation(), *keep])]
        return [*before, *lines], piles

    def make_accumulation(self):
        updates, micro = self.chance.randint(4, 6), self.chance.randint(2, 4)
        inner = [*self.load(), *self.forward(), f"(loss / {micro}).backward()"]
        if self.odds(0.5):
            return [f"for index in range({updates}):", "    truth.begin()", f"    for part in range({micro}):", *indent(inner, 2),
                    *indent([*self.update(), "truth.end()"])], False  # fmt: skip
        begin = [f"if index % {micro} == 0:", "    truth.begin()"]
        head, inner = [f"for index in range({updates * micro}):"], [*begin, *inner]
        last = [f"if index % {micro} == {micro - 1}:", *indent([*self.update(), "truth.end()"])]
        if self.odds(0.4):
            inner = [*begin, "    optimizer.zero_grad()", *inner[2:]]
            last = [f"if index % {micro} == {micro - 1}:", "    optimizer.step()", "    truth.end()"]
        return [*head, *indent([*inner, *last])], False

    def make_phases(self):
        lines = []
        for _ in range(self.pick(2, 2, 3)):
            _, loop, _ = self.loop(self.chance.randint(2, 5), leaks=False)
            if self.odds(0.5):
                name = self.name("phase")
                self.functions += [f"def {name}(truth, model, optimizer):", *indent(loop), "", ""]
                loop = [f"{name}(truth, model, optimizer)"]
            lines += [*loop, *self.validation()]
        return lines, False

    def make_thread(self):
        lines, piles = self.pick(self.make_loop, self.make_epochs)()
        self.functions += ["def work(truth, model, optimizer):", *indent(lines), "", ""]
        return ["worker = threading.Thread(target=work, args=(truth, model, optimizer))", "worker.start()", "worker.join()"], piles

    def make_two_threads(self):
        count = self.chance.randint(5, 8)
        self.functions += ["def work(truth):", *indent([
            "model = Model().cuda()", "optimizer = torch.optim.AdamW(model.parameters())", f"for index in range({count}):",
            "    truth.begin()", *indent([*self.load(), *self.step(deep=False), "truth.end()"])]), "", ""]  # fmt: skip
        return ["workers = [threading.Thread(target=work, args=(truth,)) for _ in range(2)]", "for worker in workers:",
                "    worker.start()", "for worker in workers:", "    worker.join()"], False  # fmt: skip

    def make_task(self):
        count = self.chance.randint(5, 8)
        self.functions += ["async def work(truth, model, optimizer):", f"    for index in range({count}):", "        truth.begin()",
                           *indent([*self.load(), *self.step(), "truth.end()", "await asyncio.sleep(0)"], 2), "", ""]  # fmt: skip
        return ["asyncio.run(work(truth, model, optimizer))"], False

    def make_created_tasks(self):
        """Each step is a task of its own, one after another."""
        count = self.chance.randint(4, 7)
        self.functions += ["async def handle(truth, model, optimizer, index):", *indent(["truth.begin()", *self.load(), *self.step(deep=False)]),
                           "    truth.end()", "", "", "async def work(truth, model, optimizer):", f"    for index in range({count}):",
                           "        await asyncio.create_task(handle(truth, model, optimizer, index))", "", ""]  # fmt: skip
        return ["asyncio.run(work(truth, model, optimizer))"], False

    def make_tasks(self):
        """Tasks that take turns: they run one coroutine, and wait anywhere in a step."""
        turn = ["truth.leave()", "await asyncio.sleep(0)", "truth.enter()"]
        parts = [self.load(), self.forward(), ["loss.backward()"], self.update()]
        body = [line for part in parts for line in [*(turn if self.odds(0.4) else []), *part]]
        lines = ["truth.begin()", *body, "truth.end()", "await asyncio.sleep(0)"]
        make = ["model = Model().cuda()", f"optimizer = {self.optimizer().format('model.parameters()')}"]
        lines = [*make, f"{self.pick('for index in range(count):', 'while (count := count - 1) >= 0:')}", *indent(lines)]
        if self.odds(0.4):  # a coroutine that a task's own awaits
            self.functions += ["async def train(truth, count):", *indent(lines), "", ""]
            lines = ["await train(truth, count)"]
        counts = [self.chance.randint(4, 8) for _ in range(self.pick(2, 2, 3))]
        both = f"asyncio.gather({', '.join(f'work(truth, {count})' for count in counts)})"
        self.functions += ["async def work(truth, count):", *indent(lines), "", "", "async def both(truth):", f"    await {both}", "", ""]
        return ["asyncio.run(both(truth))"], False

    def make_attempts(self):
        before, loop, piles = self.loop(self.chance.randint(6, 9))
        self.functions += ["def train(truth, model, optimizer, fails):", *indent([*before, *loop, "if fails:", "    raise RuntimeError('again')"]),
                           "", ""]  # fmt: skip
        fails = self.pick("False", "False", "attempt == 0")
        piles = piles and fails == "False"
        if fails != "False":
            self.leak = "none"
        return ["for attempt in range(2):", "    try:", f"        train(truth, model, optimizer, {fails})", "        break",
                "    except RuntimeError:", "        model.zero_grad()"], piles  # fmt: skip

    def make_calls(self):
        name, kind = self.name("train_step"), self.pick("lines", "map", "comprehension", "recursion", "dict")
        body = ["truth.begin()", *self.load(), "index = 0", *self.step(deep=False), "truth.end()"]
        self.functions += [f"def {name}(truth, model, optimizer):", *indent(body), "", ""]
        call, count = f"{name}(truth, model, optimizer)", self.chance.randint(3, 6)
        if kind == "lines":
            return [call] * count, False
        if kind == "map":
            return [f"done = list(map(lambda _: {call}, range({count})))"], False
        if kind == "comprehension":
            return [f"done = [{call} for _ in range({count})]"], False
        if kind == "dict":
            return [f"done = {{i: {call} for i in range({count})}}"], False
        self.functions += ["def again(truth, model, optimizer, left):", "    if left:", f"        {call}",
                           "        again(truth, model, optimizer, left - 1)", "", ""]  # fmt: skip
        return [f"again(truth, model, optimizer, {count})"], False

    def make_once(self):
        lines = [*self.load(), "truth.work()", "index = 0", *self.step(deep=self.odds(0.5))]
        if self.odds(0.5):
            return ["for index in range(1):", *indent(["truth.begin()", *lines, "truth.end()"])], False
        return ["truth.begin()", *lines, "truth.end()"], False

    def make_adversaries(self):
        """A generator and its critic."""
        critic = [*self.load(), "critic_loss = critic(model(x).detach()).mean()", "critic_loss.backward()", "critic_optimizer.step()",
                  "critic_optimizer.zero_grad()"]  # fmt: skip
        generator = [*self.load(), "loss = -critic(model(x)).mean()", "loss.backward()", "optimizer.step()",
                     "optimizer.zero_grad()", "critic_optimizer.zero_grad()"]  # fmt: skip
        if self.odds(0.5):
            critic = [f"for turn in range({self.chance.randint(2, 4)}):", *indent(critic)]
        return ["critic = nn.Linear(8, 1).cuda()", "critic_optimizer = torch.optim.AdamW(critic.parameters())",
                f"for index in range({self.chance.randint(4, 7)}):", *indent(["truth.begin()", *critic, *generator, "truth.end()"])], False  # fmt: skip

    def make_closure(self):
        inner = ["def closure():", "    optimizer.zero_grad()", "    loss = model(x).square().mean()", "    loss.backward()",
                 "    return loss", "optimizer.step(closure)"]  # fmt: skip
        return ["optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", f"for index in range({self.chance.randint(4, 7)}):",
                *indent(["truth.begin()", *self.load(), *inner, "truth.end()"])], False  # fmt: skip

    def make_inference(self):
        count, inside = self.chance.randint(4, 7), self.pick(
            ["out = model(x)"], ["out = torch.cat([model(c) for c in x.chunk(4)])"], ["out = model(x)", "out = out.softmax(-1)"])
        before, keep, piles = [], [], False
        if self.odds(0.3):
            before, keep, piles, self.leak = ["kept = []"], ["kept.append(out + 1)  # KEPT"], True, "extra"
        loop = [f"for index in range({count + 1}):", *indent(["truth.begin()", *self.load(), *inside, *keep, "truth.end()"])]
        if self.odds(0.3):
            loop = ["for round in range(3):", *indent(loop)]
        return [*before, "with torch.no_grad():", *indent(loop)], piles

    def make_without_modules(self):
        count = self.chance.randint(4, 7)
        return ["weight = torch.randn(32, 8, device='cuda', requires_grad=True)", "optimizer = torch.optim.SGD([weight], lr=0.1)",
                f"for index in range({count}):", *indent(["truth.begin()", *self.load(), "loss = (x @ weight).relu().sum()",
                                                           "loss.backward()", "optimizer.step()", "optimizer.zero_grad()", "truth.end()"])], False  # fmt: skip

    def make_by_hand(self):
        """No optimizer: the weights are updated by hand."""
        hand = ["with torch.no_grad():", "    for p in model.parameters():", "        if p.grad is not None:",
                "            p -= 0.1 * p.grad", "        p.grad = None"]  # fmt: skip
        return [f"for index in range({self.chance.randint(4, 7)}):",
                *indent(["truth.begin()", *self.load(), *self.forward(), "loss.backward()", *hand, "truth.end()"])], False  # fmt: skip

    SHAPES = [
        ("loop", make_loop, 5), ("epochs", make_epochs, 6), ("accumulation", make_accumulation, 3), ("phases", make_phases, 2),
        ("thread", make_thread, 2), ("two_threads", make_two_threads, 1), ("task", make_task, 1), ("created_tasks", make_created_tasks, 1), ("tasks", make_tasks, 2), ("attempts", make_attempts, 2),
        ("calls", make_calls, 3), ("once", make_once, 2), ("adversaries", make_adversaries, 1), ("closure", make_closure, 1),
        ("inference", make_inference, 2), ("without_modules", make_without_modules, 1), ("by_hand", make_by_hand, 1),
    ]  # fmt: skip

    def program(self):
        self.shape, make, _ = self.chance.choices(self.SHAPES, [weight for *_, weight in self.SHAPES])[0]
        forward = indent(self.pick(*FORWARDS).splitlines(), 2)
        lines, piles = make(self)
        blocks = self.chance.randint(1, 3)
        main = [f"model = Model(layers={self.chance.randint(1, 3)}, blocks={blocks}).cuda()",
                f"optimizer = {self.optimizer().format('model.parameters()')}", *lines, "truth.hold()", "return locals()"]  # fmt: skip
        head = f'"""shape: {self.shape}; leak: {self.leak}; piles up: {piles}"""\n'
        return head + HEAD.format(forward="\n".join(forward)) + "\n".join(["", *self.functions, "def main(truth):", *indent(main), ""])


def make(seed):
    maker = Maker(seed)
    return maker.program()


if __name__ == "__main__":
    import sys

    print(make(int(sys.argv[1])))
