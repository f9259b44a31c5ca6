"""Training programs made at random whose loops are a library's: one loop trains and evaluates, gradients accumulate by the
library's count, an optimizer calls a closure, callbacks run in loops.

`make(seed)` gives (source of the script, source of the library). The library calls begin() and end() of the truth around each
step, as the programs of step_loops.py do, whose model and comments `# KEPT` these scripts have too.
"""

import random

import step_loops
from step_loops import indent

SCRIPT_HEAD = step_loops.HEAD[: step_loops.HEAD.index("def batches")]


class Maker(step_loops.Maker):
    """A library of one of several kinds; what is the same in all of them first."""

    def __init__(self, seed):
        super().__init__(seed)
        self.library, self.closure = [], False

    def loader(self, count):
        """An expression of the batches of one epoch, made in the script."""
        return self.pick(
            f"[torch.randn(16, 32) for _ in range({count})]",
            f"torch.utils.data.DataLoader(torch.randn({16 * count}, 32), batch_size=16)",
            f"(torch.randn(16, 32) for _ in range({count}))",
            f"map(torch.Tensor.float, [torch.randn(16, 32) for _ in range({count})])",
        )

    def callbacks(self):
        """The script's class of callbacks: what it keeps after a batch, after an epoch, and whether that piles up."""
        kind = self.pick("none", "none", "last", "batch", "epoch")
        self.leak = kind
        lines = ["class Callbacks:", "    def __init__(self):", "        self.kept, self.last = [], None", "",
                 "    def on_batch_end(self, out):"]  # fmt: skip
        lines += {
            "batch": ["        extra = out.detach() * 2  # KEPT", "        self.kept.append(extra)"],
            "last": ["        self.last = out.detach() + 1"],
        }.get(kind, ["        pass"])
        lines += ["", "    def on_epoch_end(self, model):"]
        lines += {"epoch": ["        self.kept.append(torch.randn(64, 32, device='cuda'))  # KEPT"]}.get(kind, ["        pass"])
        return [*lines, "", ""], kind in ("batch", "epoch")

    def call(self, name, *values):
        """A line of the library that calls all callbacks."""
        arguments = ", ".join(values)
        return self.pick(
            ["for callback in self.callbacks:", f"    callback.{name}({arguments})"],
            [f"[callback.{name}({arguments}) for callback in self.callbacks]"],
            [f"self.notify({name!r}, {arguments})"],
        )

    def work(self):
        """How the library does a step, given model, x and self.optimizer."""
        loss = ["out = model(x)", self.pick("loss = out.square().mean()", "loss = self.loss(out)")]
        if self.closure:
            return ["def closure():", *indent(["self.optimizer.zero_grad()", "nonlocal out", *loss, "loss.backward()", "return loss"]),
                    "out = None", "self.optimizer.step(closure)"]  # fmt: skip
        if self.odds(0.5):
            return ["self.optimizer.zero_grad()", *loss, "loss.backward()", "self.optimizer.step()"]
        return [*loss, "loss.backward()", "self.optimizer.step()", "self.optimizer.zero_grad()"]

    def train_step(self):
        self.closure = self.odds(0.25)
        return [*self.work(), "return out"]

    HEAD = ["import torch", "", "", "class Trainer:", "    def __init__(self, model, optimizer, callbacks, truth):",
            "        self.model, self.optimizer, self.callbacks, self.truth = model, optimizer, callbacks, truth", "",
            "    def notify(self, name, *values):", "        for callback in self.callbacks:",
            "            getattr(callback, name)(*values)", "", "    def loss(self, out):", "        return out.abs().mean()", ""]  # fmt: skip

    def method(self, head, lines):
        self.library += [*indent([f"def {head}:", *indent(lines)]), ""]

    # ---- kinds of libraries

    def shared_loop(self):
        """One loop trains and evaluates, as ignite's, skorch's and fastai's do."""
        body = ["if training:", "    self.truth.begin()", "x = batch.cuda()", "out = step(self.model, x)",
                *self.call("on_batch_end", "out"), "if training:", "    self.truth.end()"]  # fmt: skip
        if self.odds(0.5):
            run = ["for batch in loader:", *indent(body)]
        elif self.odds(0.5):
            run = ["for self.index, batch in enumerate(loader):", *indent(body)]
        else:
            run = ["batches = iter(loader)", "while True:", *indent(["try:", "    batch = next(batches)", "except StopIteration:", "    break", *body])]
        self.method("run(self, loader, step, training)", run)
        self.method("train_step(self, model, x)", ["model.train()", *self.train_step()])
        self.method("evaluation_step(self, model, x)", ["model.eval()", "with torch.no_grad():", "    out = model(x)", "    return out.argmax(-1)"])
        evaluate = ["self.run(valid(), self.evaluation_step, False)"]
        if self.odds(0.4):  # from deeper: by an event of the library
            self.method("after_epoch(self, valid)", [*evaluate, *self.call("on_epoch_end", "self.model")])
            after = ["self.after_epoch(valid)"]
        else:
            after = [*evaluate, *self.call("on_epoch_end", "self.model")]
        before = evaluate if self.odds(0.2) else []
        self.method("fit(self, train, valid, epochs)", [*before, "for epoch in range(epochs):",
                    *indent(["self.run(train(), self.train_step, True)", *after])])  # fmt: skip

    def accumulating(self):
        """Gradients add up over some batches, as Lightning and accelerate do it."""
        micro = self.chance.randint(2, 4)
        closure = self.odds(0.5)
        add = ["out = self.model(x)", f"loss = out.square().mean() / {micro}", "loss.backward()"]
        if closure:
            self.method("closure(self, x, first)", ["if first:", "    self.optimizer.zero_grad()", *add, "self.out = out", "return loss"])
            step = ["if last:", "    self.optimizer.step(lambda: self.closure(x, first))", "else:", "    self.closure(x, first)", "return self.out"]
        else:
            step = [*add, "if last:", "    self.optimizer.step()", "    self.optimizer.zero_grad()", "return out"]
        self.method("advance(self, batch, first, last)", ["x = batch.cuda()", *step])
        body = [f"first, last = index % {micro} == 0, index % {micro} == {micro - 1}", "if first:", "    self.truth.begin()",
                "out = self.advance(batch, first, last)", *self.call("on_batch_end", "out"), "if last:", "    self.truth.end()"]  # fmt: skip
        if self.odds(0.5):
            loop = ["for index, batch in enumerate(train()):", *indent(body)]
        else:
            loop = ["index, batches = -1, list(train())", "while index + 1 < len(batches):", *indent(["index += 1", "batch = batches[index]", *body])]
        self.method("evaluate(self, valid)", ["self.model.eval()", "with torch.no_grad():", "    for batch in valid():",
                    "        out = self.model(batch.cuda())", "self.model.train()", "return out"])  # fmt: skip
        self.method("fit(self, train, valid, epochs)", ["for epoch in range(epochs):",
                    *indent([*loop, "self.evaluate(valid)", *self.call("on_epoch_end", "self.model")])])  # fmt: skip
        return micro

    def rollouts(self):
        """Data are made by the model, and trained on in several epochs of minibatches, as stable-baselines3 does."""
        self.method("collect(self)", ["found = []", "with torch.no_grad():", "    for _ in range(4):",
                    "        found.append(self.model(torch.randn(16, 32, device='cuda')))", "return len(found)"])  # fmt: skip
        self.method("train_step(self, model, x)", self.train_step())
        self.method("train(self, train)", [f"for epoch in range({self.chance.randint(1, 3)}):", "    for batch in train():",
                    *indent(["self.truth.begin()", "x = batch.cuda()", "out = self.train_step(self.model, x)",
                             *self.call("on_batch_end", "out"), "self.truth.end()"], 2)])  # fmt: skip
        self.method("fit(self, train, valid, epochs)", ["done = 0", "while done < epochs:",
                    *indent(["self.collect()", "self.train(train)", "done += 1", *self.call("on_epoch_end", "self.model")])])  # fmt: skip

    def smaller(self):
        """A training is begun again with a smaller batch until it fits, as accelerate does it."""
        fails = self.chance.randint(2, 6)
        self.method("train_step(self, model, x)", self.train_step())
        self.method("attempt(self, train, fits)", ["for batch in train():", *indent([
            "self.truth.begin()", "x = batch.cuda()", "if not fits:", "    out = self.model(x)", "    raise RuntimeError('too much')",
            "out = self.train_step(self.model, x)", *self.call("on_batch_end", "out"), "self.truth.end()"])])  # fmt: skip
        self.method("fit(self, train, valid, epochs)", ["attempts = 0", "while True:", *indent([
            "try:", "    for epoch in range(epochs):", f"        self.attempt(train, attempts == {fails})",
            *indent(self.call("on_epoch_end", "self.model"), 2), "    return", "except RuntimeError:", "    attempts += 1"])])  # fmt: skip

    def constructing(self):
        """Each round builds a model, which calls its layers meanwhile, and trains weights without calling a module."""
        self.method("build(self)", ["class Built(torch.nn.Module):", *indent([
            "def __init__(self):", *indent(["super().__init__()", "self.layer = torch.nn.Linear(32, 8).cuda()",
                                            "self.out = self.layer(torch.zeros(2, 32, device='cuda')).shape[1]"])]), "return Built()"])  # fmt: skip
        self.method("fit(self, train, valid, epochs)", ["for epoch in range(epochs):", *indent([
            "weight = self.build().layer.weight", "optimizer = torch.optim.AdamW([weight])", "for batch in train():", *indent([
                "self.truth.begin()", "x = batch.cuda()", "out = x @ weight.T", "loss = self.loss(out)", "loss.backward()", "optimizer.step()",
                "optimizer.zero_grad()", *self.call("on_batch_end", "out"), "self.truth.end()"]),
            *self.call("on_epoch_end", "self.model")])])  # fmt: skip

    def program(self):
        kinds = [self.shared_loop, self.shared_loop, self.shared_loop, self.accumulating, self.accumulating, self.rollouts, self.smaller,
                 self.constructing]  # fmt: skip
        make = self.chance.choice(kinds)
        self.shape = make.__name__
        forward = indent(self.pick(*step_loops.FORWARDS).splitlines(), 2)
        self.library += self.HEAD
        micro = make() or 1
        callbacks, piles = self.callbacks()
        count, epochs = micro * self.chance.randint(2, 4), self.chance.randint(5, 6)
        main = [f"model = Model(layers={self.chance.randint(1, 3)}).cuda()",
                f"optimizer = {self.optimizer().format('model.parameters()')}", "callbacks = Callbacks()",
                "trainer = library.Trainer(model, optimizer, [callbacks], truth)",
                f"trainer.fit(lambda: {self.loader(count)}, lambda: {self.loader(self.chance.randint(1, 3))}, {epochs})",
                "truth.hold()", "return locals()"]  # fmt: skip
        head = f'"""shape: {self.shape}; leak: {self.leak}; piles up: {piles}"""\n'
        script = head + SCRIPT_HEAD.format(forward="\n".join(forward))
        return script + "\n".join([*callbacks, "def main(truth, library):", *indent(main), ""]), "\n".join([*self.library, ""])


def make(seed):
    return Maker(seed).program()


if __name__ == "__main__":
    import sys

    print(*make(int(sys.argv[1])), sep="\n# ---- the library\n\n")
