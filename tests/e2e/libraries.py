"""libraries.py FOLDER SEED...: makes small packages and scripts of one line that they drive; the truth stands in truth.json.

A seed makes a model's package (modules within modules, decorated forwards, helpers), a driver that calls the model, glue
that only passes calls on, and perhaps a launcher above the driver; their files lie in folders of random depth. Each
allocation asks for a number of bytes of its own, so that it is known by its size. The truth of one is the line where
its bytes belong: of the innermost frame of the model's or the driver's package. Then run.py runs the scripts.
"""

import json
import random
import sys
from pathlib import Path

RUN = """import json, runpy, sys, torch
sys.path.insert(0, {site!r})
torch.KEPT = []
torch.cuda.memory._record_memory_history(stacks=sys.argv[2])
for script in {scripts!r}:
    torch.KEPT.clear()
    runpy.run_path(script)
torch.cuda.memory._dump_snapshot(sys.argv[1])
"""


class File:
    """A module of a package that is written line by line; lines are counted."""

    def __init__(self, site, package, rng):
        folders = [f"part{rng.randrange(100)}" for _ in range(rng.randrange(4))]
        self.path = site.joinpath(package, *folders, f"code{rng.randrange(10**6)}.py")
        self.module = ".".join(self.path.relative_to(site).with_suffix("").parts)
        self.lines = []

    def add(self, text):
        self.lines.append(text)
        return len(self.lines)

    def write(self, site):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for folder in self.path.parents:
            if folder == site:
                break
            (folder / "__init__.py").touch()
        self.path.write_text("\n".join(self.lines) + "\n")


class Program:
    def __init__(self, site, scripts, seed, sizes, truth):
        self.rng = random.Random(seed)
        self.site, self.seed, self.sizes, self.truth = site, seed, sizes, truth
        self.model_package = f"net{seed}"
        self.driver_package = self.model_package if self.rng.random() < 0.3 else f"drive{seed}"
        self.glue = File(site, f"glue{seed}", self.rng)
        self.model = File(site, self.model_package, self.rng)
        self.driver = File(site, self.driver_package, self.rng)
        self.script = scripts / f"script{seed}.py"
        self.own = []  # of this program: sizes
        self.write()

    def take(self, file, line, modules, called=True):
        size = next(self.sizes)
        self.own.append(size)
        self.truth[size] = {
            "file": str(file.path), "line": line, "modules": modules, "called_by": str(self.script) if called else None,
        }  # fmt: skip
        return size

    def put(self, file, indent, modules):
        """A statement that allocates at the line that it is added as, by itself or by what only passes calls on."""
        line = len(file.lines) + 1
        size = self.take(file, line, modules)
        empty = f"torch.empty({size}, dtype=torch.uint8, device='cuda')"
        form = self.rng.choice(
            [
                empty,
                f"glue.make({size})",
                f"glue.call(lambda_of_torch, {size})",
                f"glue.Holder({size}).tensor",
                f"hooked.new_empty({size})",
                f"torch.nn.functional.pad({empty.replace(str(size), '1')}, (0, {size - 1}))",
            ]
        )
        assert file.add(f"{indent}torch.KEPT.append({form})") == line

    def write_glue(self):
        for line in (
            "import functools, torch",
            "lambda_of_torch = functools.partial(torch.empty, dtype=torch.uint8, device='cuda')",
            "def make(n):",
            "    return lambda_of_torch(n)",
            "def call(function, *arguments):",
            "    return function(*arguments)",
            "class Holder:",
            "    def __init__(self, n):",
            "        self.tensor = call(make, n)",
            "def passes(function):",
            "    @functools.wraps(function)",
            "    def wrapper(*arguments, **keys):",
            "        return function(*arguments, **keys)",
            "    return wrapper",
        ):
            self.glue.add(line)

    def head(self, file):
        file.add("import functools, torch, torch.utils.checkpoint")
        file.add(f"import {self.glue.module} as glue")
        file.add("lambda_of_torch = glue.lambda_of_torch")
        # a tensor of a subclass: PyTorch calls the package's own function for each operator on it
        file.add("class Hooked(torch.Tensor):")
        file.add("    @classmethod")
        file.add("    def __torch_function__(cls, function, types, arguments=(), keys=None):")
        file.add("        return cls.compute(function, types, arguments, keys or {})")
        file.add("    @classmethod")
        file.add("    def compute(cls, function, types, arguments, keys):")
        file.add("        return super().__torch_function__(function, types, arguments, keys)")
        file.add("hooked = torch.empty(1, dtype=torch.uint8, device='cuda').as_subclass(Hooked)")

    def write_helper(self, file, name, modules):
        """A function of the package: what it allocates is at its own line."""
        file.add(f"def {name}():")
        self.put(file, "    ", modules)

    def write_class(self, index, names):
        """Module `index` of the chain, which calls the next one; the truth of its paths is the chain of names."""
        file, rng = self.model, self.rng
        path = [part for at, name in enumerate(names[: index + 1]) for part in ((["Sequential"] if self.within[at] else []) + [name])]
        helper = f"help{index}" if rng.random() < 0.5 else None
        if helper:
            self.write_helper(file, helper, path)
        decorator = rng.choice([None, None, "glue", "own", "no_grad", "two"])
        if decorator in ("own", "two"):
            file.add(f"def own{index}(function):")
            file.add("    @functools.wraps(function)")
            file.add("    def wrapper(*arguments, **keys):")
            if rng.random() < 0.5:  # which module it wraps is not on the stack while forward() is not
                self.put(file, "        ", path[:-1])
            file.add("        return function(*arguments, **keys)")
            file.add("    return wrapper")
        if rng.random() < 0.2:  # a class within a function
            file.add(f"def define{index}():")
            indent = "    "
        else:
            indent = ""
        file.add(f"{indent}class {names[index]}(torch.nn.Module):")
        file.add(f"{indent}    def __init__(self):")
        file.add(f"{indent}        super().__init__()")
        if index + 1 < len(names):
            child = f"{names[index + 1]}()"
            file.add(f"{indent}        self.child = {f'torch.nn.Sequential({child})' if self.within[index + 1] else child}")
        for one in {"glue": ["glue.passes"], "own": [f"own{index}"], "no_grad": ["torch.no_grad()"], "two": ["glue.passes", f"own{index}"]}.get(decorator, []):
            file.add(f"{indent}    @{one}")
        file.add(f"{indent}    def forward(self, x):")
        body = indent + "        "
        for _ in range(rng.randrange(1, 3)):
            self.put(file, body, path)
        if helper:
            file.add(f"{body}{helper}()")
        if index + 1 < len(names):
            file.add(
                body
                + rng.choice(
                    [
                        "x = self.child(x)",
                        "x = glue.call(self.child, x)",
                        "x = torch.utils.checkpoint.checkpoint(self.child, x, use_reentrant=False)",
                        "x = [self.child(x) for _ in range(1)][0]",
                    ]
                )
            )
            if rng.random() < 0.5:
                self.put(file, body, path)
        file.add(f"{body}return x")
        if indent:
            file.add(f"    return {names[index]}")
            file.add(f"{names[index]} = define{index}()")

    def write_model(self):
        file, rng = self.model, self.rng
        self.head(file)
        names = [f"M{self.seed}_{i}" for i in range(rng.randrange(1, 6))]
        self.within = [False] + [rng.random() < 0.3 for _ in names[1:]]
        for index in reversed(range(len(names))):
            self.write_class(index, names)
        self.root = names[0]
        self.backward = rng.random() < 0.5
        if self.backward:
            file.add("class Double(torch.autograd.Function):")
            file.add("    @staticmethod")
            file.add("    def forward(context, x):")
            file.add("        return x * 2")
            file.add("    @staticmethod")
            file.add("    def backward(context, gradient):")
            size = self.take(file, len(file.lines) + 1, None, called=False)
            file.add(f"        torch.KEPT.append(torch.empty({size}, dtype=torch.uint8, device='cuda'))")
            file.add("        return gradient * 2")

    def write_driver(self):
        file, rng = self.driver, self.rng
        self.head(file)
        file.add(f"import {self.model.module} as net")
        file.add("class Driver:")
        depth = rng.randrange(1, 6)
        for level in range(depth):
            file.add(f"    def level{level}(self):")
            if rng.random() < 0.5:
                self.put(file, "        ", None)
            if level + 1 < depth:
                # glue, standing for what passes a call on, may lie between the driver's own functions
                file.add(f"        {rng.choice(['self.level{}()', 'glue.call(self.level{})', 'glue.passes(self.level{})()'])}".format(level + 1))
            else:
                file.add(f"        net.{self.root}()(torch.empty(1, device='cuda'))")
                if self.backward:
                    file.add("        x = torch.ones(3, device='cuda', requires_grad=True)")
                    file.add("        net.Double.apply(x).sum().backward()")
            if rng.random() < 0.5:
                self.put(file, "        ", None)
        file.add("def run():")
        file.add("    Driver().level0()")

    def write(self):
        self.write_glue()
        self.write_model()
        self.write_driver()
        for file in (self.glue, self.model, self.driver):
            file.write(self.site)
        entry = self.driver.module
        if self.rng.random() < 0.4:  # a launcher: it calls no module
            launcher = File(self.site, f"launch{self.seed}", self.rng)
            launcher.add(f"import {entry} as started")
            launcher.add("def run():")
            launcher.add("    started.run()")
            launcher.write(self.site)
            entry = launcher.module
        self.script.write_text(f"import {entry} as library\nlibrary.run()\n")


def make(folder, seeds):
    """-> [(script, sizes of its allocations)], {size: truth}"""
    site, scripts = folder / "lib" / "site-packages", folder / "scripts"
    site.mkdir(parents=True)
    scripts.mkdir()
    truth, programs = {}, []
    sizes = iter(range(100_000, 10**9, 1000))
    for seed in seeds:
        program = Program(site, scripts, seed, sizes, truth)
        programs.append((str(program.script), program.own))
    (folder / "run.py").write_text(RUN.format(site=str(site), scripts=[script for script, _ in programs]))
    return programs, truth


if __name__ == "__main__":
    made, known = make(Path(sys.argv[1]), [int(seed) for seed in sys.argv[2:]])
    Path(sys.argv[1], "truth.json").write_text(json.dumps({"programs": made, "truth": known}))
