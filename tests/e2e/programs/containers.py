"""containers.py SEED: global variables c0, c1, ... that are containers of tensors, of kinds chosen at random.

One line of JSON: for each variable the form of its parts, as `retained` should name them, and how many there are.
"""

import json
import random
import sys
import time

import torch

rng = random.Random(int(sys.argv[1]))
truth = {}


def tensors(count):
    return [torch.empty(1 << 20, dtype=torch.uint8, device="cuda") for _ in range(count)]


for number in range(24):
    count = rng.randrange(2, 7)
    made, form = tensors(count), rng.choice(["items", "values", "keys", "key"])
    if form == "items":
        container = rng.choice([list, tuple, set, frozenset])(made)
    elif form == "values":
        container = dict(zip([(i, i) for i in range(count)], made))
    elif form == "keys":
        container = dict.fromkeys(made, rng.choice([None, 0, "name"]))
    else:
        container = dict(zip(rng.choice([range(count), [f"name{i}" for i in range(count)]]), made))  # such keys are names
    globals()[f"c{number}"] = container
    truth[f"c{number}"] = {"form": form, "count": count}
del made, container
print(json.dumps(truth), flush=True)
time.sleep(3600)
