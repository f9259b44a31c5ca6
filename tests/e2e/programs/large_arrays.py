"""Large containers of one kind of object each, with a tensor as their last item. Prints where the tensors are."""

import json
import os
import sys

import torch

COUNT = 60_000
FILLERS = {
    "nones": lambda i: None,
    "bools": lambda i: i % 2 == 0,
    "small_ints": lambda i: i % 200,
    "ints": lambda i: i + (1 << 40),
    "floats": float,
    "strings": str,
    "one_string": lambda i: "interned",
    "bytes": lambda i: b"%d" % i,
    "tuples": lambda i: (i,),
    "types": lambda i: (int, str, dict, type)[i % 4],
    "functions": lambda i: (len, print, json.dumps)[i % 3],
    "objects": lambda i: object(),
    "empty": lambda i: () if i % 2 else frozenset(),
}
held, where = {}, {}
for kind, filler in FILLERS.items():
    for container in (list, tuple, dict, set):
        if container is set and kind not in ("ints", "strings", "tuples", "objects"):
            continue
        tensor = torch.ones(128, device="cuda")
        where[f"{kind} {container.__name__}"] = hex(tensor.data_ptr())
        items = [*map(filler, range(COUNT)), tensor]
        held[f"{kind} {container.__name__}"] = dict(enumerate(items)) if container is dict else container(items)
        del tensor, items
print(json.dumps({"pid": os.getpid(), "where": where}), flush=True)
sys.stdin.read()
