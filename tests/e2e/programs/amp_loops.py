"""Random training loops with mixed precision that log what their scaler did: amp_loops.py FOLDER DEVICE FIRST COUNT.

Each seed is a process of its own, forked, so that PyTorch is imported once. It writes FOLDER/SEED.json: the process's id, its
settings, and for each step what hooks saw of each optimizer (did it run, was a gradient inf or NaN, did a bit of its parameters
change), and the scale and the growth tracker that follow. On the simulated device gradients overflow by --overflow-at; on the
CPU, whose arithmetic is real, some losses are multiplied by infinity.
"""

import json
import os
import random
import sys
from pathlib import Path

import torch
import torch._dynamo  # noqa: F401  the first optimizer imports it, a second of work: here once for all
from torch import nn

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def settings_of(seed, device, overflows):
    pick = random.Random(seed)
    steps = pick.randint(3, 8)
    kind = pick.choice(["scaler"] * 6 + ["disabled", "bfloat16", "plain"])
    parts = pick.choice([1, 1, 2, 3])
    makers = ["adam", "adamw", "sgd", "momentum", "rmsprop", "for_loop"] + ["fused"] * (device == "cuda")
    bad = [[pick.random() < 0.3 for _ in range(parts)] for _ in range(steps)]
    return {
        "seed": seed, "device": device, "steps": steps, "kind": kind, "parts": parts, "bad": bad, "overflows": overflows,
        "optimizers": [pick.choice(makers) for _ in range(parts)],
        "layers": pick.randint(1, 3),
        "old_class": pick.random() < 0.2 and device == "cuda",
        "init_scale": 2.0 ** pick.randint(4, 12), "growth_factor": pick.choice([2.0, 1.5]), "backoff_factor": pick.choice([0.5, 0.25]),
        "growth_interval": pick.choice([1, 2, 3, 2000]),
        "accumulate": pick.choice([1, 1, 1, 2, 3]),
        "unscale": pick.random() < 0.4, "clip": pick.random() < 0.7,
        "loop_over_optimizers": pick.random() < 0.5,
        "not_asked": [pick.random() < 0.12 and kind == "scaler" for _ in range(steps)],
        "zero_grad": pick.choice(["start", "before_backward", "end"]), "set_to_none": pick.random() < 0.75,
        "looks": pick.random() < 0.3,  # the program itself reads found_inf and the scale
        "cache": pick.random() < 0.85,
    }  # fmt: skip


def make_optimizer(name, parameters):
    optim = torch.optim
    return {
        "adam": lambda: optim.Adam(parameters), "adamw": lambda: optim.AdamW(parameters, foreach=True),
        "sgd": lambda: optim.SGD(parameters, lr=0.1), "momentum": lambda: optim.SGD(parameters, lr=0.1, momentum=0.9),
        "rmsprop": lambda: optim.RMSprop(parameters), "for_loop": lambda: optim.Adam(parameters, foreach=False),
        "fused": lambda: optim.AdamW(parameters, fused=True),
    }[name]()  # fmt: skip


def make_scaler(given):
    keys = {name: given[name] for name in ("init_scale", "growth_factor", "backoff_factor", "growth_interval")}
    keys["enabled"] = given["kind"] == "scaler"
    return torch.cuda.amp.GradScaler(**keys) if given["old_class"] else torch.amp.GradScaler(given["device"], **keys)


class Loop:
    def __init__(self, given):
        self.given = given
        device, width = given["device"], 32
        self.parts = [nn.Sequential(*[nn.Linear(width, width + i) if i == given["layers"] - 1 else nn.Linear(width, width)
                      for i in range(given["layers"])]).to(device) for _ in range(given["parts"])]  # fmt: skip
        self.optimizers = [make_optimizer(name, list(part.parameters())) for name, part in zip(given["optimizers"], self.parts)]
        self.scaler = make_scaler(given) if given["kind"] in ("scaler", "disabled") else None
        self.ran = [0] * given["parts"]
        for index, optimizer in enumerate(self.optimizers):
            optimizer.register_step_post_hook(lambda *_, index=index: self.count(index))
        self.updates = 0

    def count(self, index):
        self.ran[index] += 1

    def loss(self, step, micro):
        given = self.given
        dtype = DTYPES["bfloat16" if given["kind"] == "bfloat16" or given["device"] == "cpu" else "float16"]
        total = 0
        with torch.autocast(given["device"], dtype=dtype, enabled=given["kind"] != "plain", cache_enabled=given["cache"]):
            for index, part in enumerate(self.parts):
                inputs = torch.randn(8, 32, device=given["device"])
                value = part(inputs).float().mean()
                if given["device"] == "cpu" and given["bad"][step][index] and micro == 0 and self.scaler:
                    value = value * float("inf")
                total = total + value
        return total / given["accumulate"]

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=self.given["set_to_none"])

    def found(self, index):
        """What the check of an optimizer found: on the CPU by the loss that was spoiled, else as it was ordered."""
        return self.given["bad"][self.step][index] if self.given["device"] == "cpu" else self.updates + 1 in self.given["overflows"]

    def step_optimizers(self, step):
        given, scaler = self.given, self.scaler
        if scaler is None:
            for optimizer in self.optimizers:
                optimizer.step()
            return
        if given["unscale"] and scaler.is_enabled():
            for optimizer, part in zip(self.optimizers, self.parts):
                scaler.unscale_(optimizer)
                if given["clip"]:
                    nn.utils.clip_grad_norm_(part.parameters(), 1.0)
        if given["not_asked"][step]:
            if not given["unscale"]:
                for optimizer in self.optimizers:
                    scaler.unscale_(optimizer)
        elif given["loop_over_optimizers"]:
            for optimizer in self.optimizers:
                scaler.step(optimizer)
        else:
            scaler.step(self.optimizers[0])
            for optimizer in self.optimizers[1:]:
                scaler.step(optimizer)
        if given["looks"] and scaler.is_enabled():
            [value.item() for state in scaler._per_optimizer_states.values() for value in state["found_inf_per_device"].values()]
        scaler.update()
        self.updates += 1
        if given["looks"]:
            scaler.get_scale()

    def train(self):
        given, told = self.given, []
        scale, tracker = given["init_scale"], 0
        for step in range(given["steps"]):
            self.step = step
            if given["zero_grad"] == "start":
                self.zero_grad()
            for micro in range(given["accumulate"]):
                loss = self.loss(step, micro)
                if given["zero_grad"] == "before_backward" and micro == 0:
                    self.zero_grad()
                (self.scaler.scale(loss) if self.scaler else loss).backward()
            found = [bool(self.scaler and self.scaler.is_enabled() and self.found(index)) for index in range(given["parts"])]
            before = [[value.detach().cpu().clone() for value in part.parameters()] for part in self.parts]
            ran = list(self.ran)
            self.step_optimizers(step)
            after = [[value.detach().cpu() for value in part.parameters()] for part in self.parts]
            if given["zero_grad"] == "end":
                self.zero_grad()
            if self.scaler and self.scaler.is_enabled():
                tracker = 0 if any(found) else tracker + 1
                scale *= given["backoff_factor"] if any(found) else given["growth_factor"] if tracker == given["growth_interval"] else 1
                tracker = 0 if tracker == given["growth_interval"] else tracker
            told.append({
                "ran": [now - then for now, then in zip(self.ran, ran)],
                "found": found,
                "asked": not given["not_asked"][step],
                "changed": [any(not torch.equal(a, b) for a, b in zip(x, y)) for x, y in zip(before, after)],
                "scale": scale, "tracker": tracker,
            })  # fmt: skip
        if self.scaler and self.scaler.is_enabled():
            assert (self.scaler.get_scale(), self.scaler._get_growth_tracker()) == (scale, tracker), "the truth is wrong"
        return told


def main(folder, device, first, count, overflows):
    for seed in range(first, first + count):
        if os.fork() == 0:
            torch.manual_seed(seed)
            loop = Loop(settings_of(seed, device, overflows))
            told = loop.train()
            text = json.dumps({"pid": os.getpid(), "given": loop.given, "steps": told})
            (folder / f"{seed}.json").write_text(text)
            sys.stdout.flush()
            return 0
        assert os.wait()[1] == 0, seed
    return 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[5].split(",")] if len(sys.argv) > 5 and sys.argv[5] else []
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), numbers))
