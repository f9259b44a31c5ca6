"""Training programs made at random whose loops are those of fastai's Learner and of transformers' Trainer, which the kinds of
library_loops.py do not have.

One loop function trains and validates, called from two lines. It keeps what it works with in the trainer (`self.x`), so that
nothing is released between the training and the validation. It may keep the tuple of enumerate() in a variable. Loaders may
put the batches on the device. Gradients may accumulate by count, or over micro-batches that a helper fetches before the loop over
them. All combinations occur.

`make(seed)` gives (source of the script, source of the library), as that of library_loops.py does.
"""

import library_loops
import step_loops
from step_loops import indent

ONE_LINE = 2_500_000  # seeds from here on train and validate by the same line, as PyTorch's tutorial on transfer learning does

LOADER = '''\
class OnDevice:
    """Batches of a loader, on the device. `begin` is called before the first of each step."""

    def __init__(self, batches, begin=None, micro=1):
        self.batches, self.begin, self.micro = batches, begin, micro

    def __iter__(self):
        for index, batch in enumerate(self.batches):
            if self.begin and index % self.micro == 0:
                self.begin()
'''


class Maker(library_loops.Maker):
    def __init__(self, seed):
        super().__init__(seed)
        self.seed = seed

    def name_of(self, name):
        """Of a value of one batch: kept in the trainer, or not."""
        return f"self.{name}" if self.keeps else name

    def one_batch(self):
        """A batch in training and in validation. `last`: of those whose gradients accumulate."""
        x, out, loss = map(self.name_of, ("x", "out", "loss"))
        forward = [f"{out} = self.model({x})"]
        train = [*forward, f"{loss} = {out}.square().mean()", f"{loss}.backward()"]
        zero = self.pick("self.optimizer.zero_grad()", "self.optimizer.zero_grad()", "self.model.zero_grad()")
        update = ["self.optimizer.step()", zero]
        if self.micro == 1 and self.keeps and self.odds(0.15):
            self.method("closure(self)", ["self.optimizer.zero_grad()", *train, "return self.loss"])
            train = ["self.optimizer.step(self.closure)"]
        elif self.fetch != "ahead" or self.inside:
            train += update if self.micro == 1 else ["if last:", *indent(update)]
        lines = [f"{x} = {'batch' if self.on_device else 'batch.cuda()'}", "if self.training:", *indent(train), "else:"]
        self.method("one_batch(self, batch, last)", [*lines, *indent(forward), f"return {out}"])
        return update

    def head(self, batches):
        """A loop over batches: its line, what its body starts with, and expressions of the index and the batch."""
        if self.pair == "unpacked":
            return f"for index, batch in enumerate({batches}):", [], "index", "batch"
        pair = {"kept": "pair", "kept by the trainer": "self.pair"}[self.pair]
        head = f"for {pair} in enumerate({batches}):"
        return (head, [f"index, batch = {pair}"], "index", "batch") if self.odds(0.5) else (head, [], f"{pair}[0]", f"{pair}[1]")

    def call_of_batch(self, index, batch):
        return f"{self.name_of('out')} = self.one_batch({batch}, {index} % {self.micro} == {self.micro - 1})"

    def all_batches(self):
        update = self.one_batch()
        loader, first = ("self.loader", ["self.loader = loader"]) if self.keeps else ("loader", [])
        if self.fetch == "one by one":
            head, start, index, batch = self.head(loader)
            begin = [f"if self.training and {index} % {self.micro} == 0:", "    self.truth.begin()"]
            self.method("all_batches(self, loader, updates)", [*first, head, *indent([
                *start, *([] if self.on_device else begin), self.call_of_batch(index, batch), *self.call("on_batch_end", self.name_of("out")),
                f"if self.training and {index} % {self.micro} == {self.micro - 1}:", "    self.truth.end()"])])  # fmt: skip
            return
        fetch, item = self.pick(
            (["samples = []", "for _ in range(count):", "    try:", "        samples.append(next(batches))", "    except StopIteration:", "        break",
              "return samples"], ""),
            (["return [next(batches) for _ in range(count)]"], ""), (["return list(zip(range(count), batches))"], "[1]"),
        )  # fmt: skip
        self.method("get_samples(self, batches, count)", fetch)
        samples = "self.samples" if self.keeps and self.odds(0.5) else "samples"  # they may live on, too
        head, start, index, batch = self.head(samples)
        loop = [head, *indent([*start, self.call_of_batch(index, f"{batch}{item}")])]
        if not self.inside:
            loop += ["if self.training:", *indent(update)]
        outer = ["for update in range(updates):"] if self.odds(0.6) else ["update = 0", "while update < updates:", "    update += 1"]
        self.method("all_batches(self, loader, updates)", [*first, f"batches = iter({loader})", *outer, *indent([
            "if self.training:", "    self.truth.begin()", f"{samples} = self.get_samples(batches, {self.micro})", *loop,
            *self.call("on_batch_end", self.name_of("out")), "if self.training:", "    self.truth.end()"])])  # fmt: skip

    def calls(self, updates, tests):
        """How an epoch trains and validates."""
        train, valid = f"self.all_batches(train(), {updates})", f"self.all_batches(valid(), {tests})"
        on, off = ["self.training = True"], ["self.training = False"]
        if self.lines == "one_line":
            order = self.pick("(True, False)", "(True, False)", "[False, True]")
            arguments = f"*((train(), {updates}) if self.training else (valid(), {tests}))"
            return [f"for self.training in {order}:", "    with torch.set_grad_enabled(self.training):", f"        self.all_batches({arguments})"]
        if self.lines == "of two methods":
            if self.odds(0.5):
                self.method("with_events(self, run, *values)", ["try:", "    run(*values)", "except KeyError:", "    pass"])
                train, valid = (line.replace("self.all_batches(", "self.with_events(self.all_batches, ") for line in (train, valid))
            self.method("do_train(self, train)", [*on, train])
            self.method("do_validate(self, valid)", [*off, "with torch.no_grad():", f"    {valid}"])
            train, valid = ["self.do_train(train)"], ["self.do_validate(valid)"]
        else:
            train, valid = [*on, train], [*off, "with torch.no_grad():", f"    {valid}"]
        return [*valid, *train] if self.odds(0.2) else [*train, *valid]

    def loader_of(self, count, trains):
        made = self.loader(count)
        if not self.on_device:
            return made
        begin = f", truth.begin, {self.micro}" if trains and self.fetch == "one by one" else ""
        return f"OnDevice({made}{begin})"

    def program(self):
        self.fetch = self.pick("one by one", "one by one", "ahead")
        self.micro = self.chance.randint(2, 4) if self.fetch == "ahead" or self.odds(0.2) else 1
        self.pair = self.pick("unpacked", "kept", "kept", "kept by the trainer")
        self.keeps, self.on_device, self.inside = self.odds(0.7), self.odds(0.6), self.odds(0.7)
        self.lines = self.pick("of one method", "of two methods") if self.seed < ONE_LINE else "one_line"
        self.shape = ", ".join([self.lines.replace("of ", "called from lines of "), f"fetched {self.fetch}", f"pair {self.pair}", f"micro {self.micro}",
                                "kept in the trainer" if self.keeps else "not kept", "on the device" if self.on_device else "moved"])  # fmt: skip
        self.library += self.HEAD
        updates, tests, epochs = self.chance.randint(2, 5), self.chance.randint(1, 3), self.chance.randint(4, 6)
        self.all_batches()
        self.method("fit(self, train, valid, epochs)", ["for epoch in range(epochs):", *indent([
            *self.calls(updates, tests), *self.call("on_epoch_end", "self.model")])])  # fmt: skip
        callbacks, piles = self.callbacks()
        loader = [*LOADER.splitlines(), *indent(self.pick(["yield batch.cuda()"], ["batch = batch.cuda()", "yield batch"]), 3), "", ""]
        of_train, of_valid = self.loader_of(updates * self.micro, True), self.loader_of(tests * self.micro, False)
        main = [f"model = Model(layers={self.chance.randint(1, 3)}).cuda()",
                f"optimizer = {self.optimizer().format('model.parameters()')}", "callbacks = Callbacks()",
                "trainer = library.Trainer(model, optimizer, [callbacks], truth)",
                f"trainer.fit(lambda: {of_train}, lambda: {of_valid}, {epochs})", "truth.hold()", "return locals()"]  # fmt: skip
        head = f'"""shape: {self.shape}; leak: {self.leak}; piles up: {piles}"""\n'
        forward = indent(self.pick(*step_loops.FORWARDS).splitlines(), 2)
        script = head + library_loops.SCRIPT_HEAD.format(forward="\n".join(forward))
        return script + "\n".join([*loader, *callbacks, "def main(truth, library):", *indent(main), ""]), "\n".join([*self.library, ""])


def make(seed):
    return Maker(seed).program()


if __name__ == "__main__":
    import sys

    print(*make(int(sys.argv[1])), sep="\n# ---- the library\n\n")
