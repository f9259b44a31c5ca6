"""Old words that lead to what the other modules made, and hold nothing: by random, of WAYS_OLD_WORDS, a seed. Imported last."""

import ctypes
import gc
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from hold import Skip, where

buffers = []  # objects of Python whose memory has numbers in it that are addresses


def library():
    made = Path(tempfile.mkdtemp(prefix="gpumem-ways-"), "libplanter.so")
    try:
        source = Path(__file__).parent / "planter.c"
        subprocess.run(["cc", "-O0", "-g0", "-shared", "-fPIC", "-o", made, source], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Skip(f"no C compiler: {error}") from None
    return ctypes.CDLL(str(made))


def words_at(address, count):
    return list((ctypes.c_uint64 * count).from_address(address))


def heap():
    """Where malloc's memory is."""
    ranges = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split()
        if fields[1].startswith("rw") and (len(fields) == 5 or fields[5] == "[heap]"):
            ranges.append([int(end, 16) for end in fields[0].split("-")])
    return ranges


def targets():
    """Addresses of objects of PyTorch and Python, and what these point at: each a list of addresses of one thing."""
    ranges = heap()

    def is_heap(word):
        return not word % 8 and any(start <= word and word + 128 <= end for start, end in ranges)

    found = []
    for thing in gc.get_objects():
        if isinstance(thing, torch.Tensor) and thing.layout is torch.strided and thing._cdata:
            implementation = thing._cdata
            if is_heap(implementation):  # vtable, count, storage: c10/core/TensorImpl.h
                found.append([implementation, words_at(implementation, 3)[2], id(thing)])
    modules = [module for name, module in sys.modules.items() if name in os.environ["WAYS_MODULES"].split(",")]
    for module in modules:
        for name, value in vars(module).items():
            if name.startswith("__") or isinstance(value, (type, type(os))):
                continue
            inner = [word for word in words_at(id(value), 6)[2:] if is_heap(word)]
            below = [word for one in inner for word in words_at(one, 6) if is_heap(word)]
            found.append([id(value), *inner, *below])
    return found


def plant(chance):
    planter = library()
    places = [getattr(planter, name) for name in (
        "plant_in_static", "plant_in_static", "plant_in_memory_of_a_static", "plant_behind_a_vector", "plant_in_lost_memory",
        "plant_in_freed_memory", "plant_on_a_stack")]  # fmt: skip
    for addresses in targets():
        for _ in range(chance.randint(0, 3)):
            word = chance.choice(addresses)
            if chance.random() < 0.1:
                buffers.append(bytearray(word.to_bytes(8, "little") * chance.randint(1, 9)))
            else:
                chance.choice(places)(ctypes.c_uint64(word))


plant(random.Random(int(os.environ["WAYS_OLD_WORDS"])))
