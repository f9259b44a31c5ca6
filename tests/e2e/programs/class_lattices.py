"""Modules of random classes: torch.nn.Module is one base among several, at any place and any depth.

class_lattices.py SEED COUNT: prints {"pid", "names"} and waits. Global variable `net_N` is an instance with one Linear."""

import abc
import json
import os
import random
import sys
import typing

import torch

seed, count = map(int, sys.argv[1:])
chance = random.Random(seed)


class Slotted:
    __slots__ = ()


class Plain:
    pass


class Abstract(abc.ABC):  # noqa: B024
    pass


class Of(typing.Generic[typing.TypeVar("T")]):
    pass


def make(number):
    others = chance.sample([Slotted, Plain, Abstract, Of], chance.randint(0, 3))
    made = torch.nn.Module
    for level in range(chance.randint(1, 3)):
        beside = [others.pop() for _ in range(chance.randint(0, len(others)))]
        bases = [made, *beside]
        chance.shuffle(bases)
        meta = type("Meta", tuple(dict.fromkeys(type(base) for base in bases if type(base) is not type)) or (type,), {})
        made = meta(f"Net{number}Level{level}", tuple(bases), {})
    return made


names = {}
for number in range(count):
    net = make(number)()
    torch.nn.Module.__init__(net)
    net.layer = torch.nn.Linear(8, 8, device="cuda")
    globals()[f"net_{number}"] = net
    names[f"net_{number}"] = [cls.__name__ for cls in type(net).__mro__]
del net
print(json.dumps({"pid": os.getpid(), "allocated": torch.cuda.memory_allocated(), "names": names}), flush=True)
sys.stdin.read()
