"""Tensors that only objects of C++ hold, in a random tree: native_graph.py LIBRARY SEED COUNT. Prints as JSON the process id and
for each tensor its address, the classes that lead to it from the tensor outwards, and the static variable at the end."""

import ctypes
import json
import os
import random
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "ways"))
from implementation import implementation  # noqa: E402

LEAVES, INNER = ["Holder", "Bag", "Table"], ["Link", "List", "Shared", "Index"]
ROOTS = ["pointer", "unique", "shared", "vector", "map"]
MANY = {"List", "Index", "vector", "map"}  # have more than one child

library = ctypes.CDLL(sys.argv[1])
library.make.restype = ctypes.c_void_p
chance = random.Random(int(sys.argv[2]))
device = "cuda" if torch.cuda.is_available() else "cpu"
DEPTH = 3


class Node:
    def __init__(self, kind, parent=None, root=None):
        self.kind, self.parent, self.root = kind, parent, root
        self.at = ctypes.c_void_p(library.make((LEAVES + INNER).index(kind)))
        if parent:
            library.add(parent.at, self.at)
        else:
            library.root(ROOTS.index(root[0]), root[1], self.at)

    def depth(self):
        return 1 + self.parent.depth() if self.parent else 1

    def chain(self):
        """Classes from this node outwards, and the name of the static variable."""
        if not self.parent:
            return [self.kind], f"graph::{self.root[0]}_{self.root[1]}"
        classes, root = self.parent.chain()
        return [self.kind, *classes], root


def new_parent():
    """A place for one more object: (inner node, None), or (None, static variable). None: there is none left."""
    places = [node for node in inner if node.depth() < DEPTH and (node.kind in MANY or node not in used)]
    free = [(kind, number) for kind in ROOTS for number in range(4) if kind in MANY or (kind, number) not in used]
    if places and chance.random() < 0.6:
        return chance.choice(places), None
    return None, chance.choice(free)


inner, used, nodes, held, old = [], set(), [], [], []
for _ in range(int(sys.argv[3])):
    parent, root = new_parent()
    while chance.random() < 0.5 and (parent.depth() if parent else 0) < DEPTH - 1:
        made = Node(chance.choice(INNER), parent, root)
        used.add(parent or root)
        inner.append(made)
        parent, root = made, None
    leaf = Node(chance.choice(LEAVES), parent, root)
    used.add(parent or root)
    tensors = [torch.ones(300, 300 + chance.randrange(8), device=device) for _ in range(1 if leaf.kind == "Holder" else chance.randint(1, 3))]
    for tensor in tensors:
        made = implementation(tensor)
        library.hold(leaf.at, made)
        held.append((tensor.data_ptr(), leaf))
        for word in (made.value, leaf.at.value, parent.at.value if parent else leaf.at.value):
            if chance.random() < 0.5:
                library.forget(ctypes.c_uint64(word), chance.choice([48, 64, 96, 160, 320]))
    del tensors, tensor

facts = [{"address": address, "classes": leaf.chain()[0], "root": leaf.chain()[1]} for address, leaf in held]
print(json.dumps({"pid": os.getpid(), "tensors": facts}), flush=True)
time.sleep(1000)
