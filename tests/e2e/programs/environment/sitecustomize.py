"""The tests' environment: what every Python program of the tests runs first.

**A program ends only when the autograd engine's threads are at rest.** PyTorch 2.15 keeps a Python object in each backward pass (`torch.autograd.graph._engine_run_backward`), and the
thread of the device lets it go *after* backward() has returned. Where the interpreter ends meanwhile, CPython ends that
thread in a function that may not be unwound, and the program dies of "terminate called without an active exception"
(https://github.com/pytorch/pytorch/issues/190489): with gpumem and without, more often on a busy machine. A test asks
for how a program ended and must not fail by this.

**The garbage collector waits while PyTorch is imported.** The objects of an import stay, and the collector walks over them a hundred
times: a seventh of the import, which most tests make, and most of the tests' time is imports. Before the program's next line the
collector is as it was.
"""

import atexit
import gc
import os
import sys
import time


def state(task):
    """A thread's name and state, as in proc(5); none where it has ended meanwhile."""
    try:
        with open(f"/proc/self/task/{task}/stat", encoding="utf-8", errors="replace") as file:
            name, rest = file.read().split("(", 1)[1].rsplit(") ", 1)
    except OSError:
        return "", ""
    return name, rest[0]


def wait_for_autograd():
    """Wait until each of the engine's threads has slept for three looks, ten seconds at most.

    time.sleep() lets the interpreter's lock go: a thread that waited for it runs then, and isn't seen asleep.
    """
    if "torch" not in sys.modules:
        return
    looks, end = 0, time.monotonic() + 10
    while looks < 3 and time.monotonic() < end:
        time.sleep(0.001)
        threads = map(state, os.listdir("/proc/self/task"))
        looks = looks + 1 if all(how == "S" for name, how in threads if name.startswith("pt_autograd")) else 0


class WithoutCollections:
    """A finder in front of the others, of PyTorch's two large imports; the optimizers import the second one. It asks the others,
    which may be a program's own."""

    names = {"torch", "torch._dynamo"}

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in cls.names:
            return None
        cls.names.remove(name)
        import importlib.util  # here: it loads typing, which programs without PyTorch do not

        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            run = spec.loader.exec_module

            def exec_module(module):
                spec.loader.exec_module = run
                enabled = gc.isenabled()
                gc.disable()
                try:
                    run(module)
                finally:
                    if enabled:
                        gc.enable()

            spec.loader.exec_module = exec_module
        return spec


atexit.register(wait_for_autograd)
sys.meta_path.insert(0, WithoutCollections)
if "GPUMEM_TEST_SERVE" in os.environ:
    import prepared_python

    prepared_python.serve()
