"""Loaded by a probe that learns layouts: its heap is what chance made of it, and goes on changing. GPUMEM_TEST_SEED is the seed.

Pieces of many sizes are filled and given back before the probe begins and between its parts; with every other seed a thread
goes on meanwhile. With glibc's tunables, set by the test, what lies in and beside each object is another in each run.
"""

import ctypes
import importlib.util
import os
import random
import sys
import threading
import time

SIZES = (24, 40, 88, 152, 168, 184, 200, 264, 520, 1032)

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


class Heap:
    def __init__(self, seed):
        self.random, self.held = random.Random(seed), []

    def stir(self, count):
        chance, held = self.random, self.held
        for _ in range(count):
            if held and chance.random() < 0.5:
                libc.free(held.pop(chance.randrange(len(held))))
            else:
                size = chance.choice((*SIZES, chance.randrange(16, 5000)))
                held.append(libc.malloc(size))
                ctypes.memset(held[-1], chance.randrange(256), size)

    def go_on(self):
        while True:
            self.stir(50)
            time.sleep(0.01 * self.random.random())


class Finder:
    """The probe's part that runs its other parts is found by the next finder, and changed."""

    def find_spec(self, name, path=None, target=None):
        if name != "words":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def loaded(module):
            load(module)
            attempt = module.Row.attempt

            def stirred(row, what, *arguments):
                heap.stir(300)
                return attempt(row, what, *arguments)

            module.Row.attempt = stirred

        spec.loader.exec_module = loaded
        return spec


seed = int(os.environ["GPUMEM_TEST_SEED"])
heap = Heap(seed)
heap.stir(20_000)
sys.meta_path.insert(0, Finder())
if seed % 2:
    other = Heap(-seed)
    threading.Thread(target=other.go_on, daemon=True).start()
