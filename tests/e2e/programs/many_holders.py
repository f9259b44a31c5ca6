"""many_holders.py SEED: one list of tensors is held by variables of the program, by those of packages and by loggers, as what a
logging handler kept is in a process with many libraries. Prints the truth as JSON: the program's own variables, the
modules' by how many parts their names have."""

import json
import logging
import random
import sys
import time
import types

import torch

rng = random.Random(int(sys.argv[1]))
count = rng.choice([2, 3, 9, 30, 60])


class Keep(logging.Handler):
    def __init__(self):
        super().__init__()
        self.kept = []

    def emit(self, record):
        self.kept.append(record)


logging.getLogger().addHandler(Keep())
modules = []
for i in range(count):
    parts = [f"pack{i}", *(rng.choice(["core", "utils", "io"]) for _ in range(rng.randrange(4)))]
    module = types.ModuleType(".".join(parts))
    sys.modules[module.__name__] = module
    variable = rng.choice(["logger", "log", "__logger"])
    setattr(module, variable, logging.getLogger(module.__name__))
    modules.append([module.__name__, variable])
own = [f"own{i}" for i in range(rng.randrange(3))]
for name in own:
    globals()[name] = logging.getLogger(f"pack0.{name}")
del module  # the last of them


def work():
    for i in range(3):
        logging.getLogger("pack0").warning("tensor %s", torch.zeros(1 << 20, device="cuda"))


work()
print(json.dumps({"own": own, "modules": modules}), flush=True)
time.sleep(600)
