"""Holds tensors in known ways, says where each one's memory is, and waits: what test_ways.py asks gpumem about.

A way is a function with a decorator that says what gpumem must answer for the tensor that it marks:

    @way("item 1 of list: {g}")
    def list_item():
        return [1, big()]

What the function returns becomes the module's global of its name; the function itself is gone. `{g}` stands
for that global in gpumem's words. With @running the function stands in a thread of its own, within its call of
stay(); `{f}` stands for its name and that line. The decorators' arguments are read by table.py too, which does
not run anything: they are literals.
"""

import gc
import importlib
import json
import os
import sys
import threading
import time
import traceback

import torch

SIDE = 300
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
where, skipped = {}, {}
making = threading.local()
gc.disable()


class Skip(Exception):
    """This way is not possible here: the reason."""


def need(module):
    """A library that not every Python here has."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Skip(f"no {module}: {error}") from None


def mark(tensor):
    """This tensor's memory is what gpumem is asked about."""
    where[making.name] = tensor.data_ptr()
    return tensor


def big(device=DEVICE, **keys):
    """The tensor that is held."""
    return mark(torch.ones(SIDE, SIDE, device=device, **keys))


def other(*shape, **keys):
    """Another tensor, which is not asked about."""
    return torch.randn(*(shape or (SIDE, SIDE)), device=DEVICE, **keys)


def _attempt(name, make):
    making.name = name
    try:
        return make()
    except Skip as reason:
        skipped[name] = str(reason)
    except Exception:
        skipped[name] = "failed: " + traceback.format_exc()
    finally:
        # a failed way's frames must not hold what a later one asks about
        making.name = None
    return None


def way(*expected, **facts):
    def hold(function):
        if os.environ.get("WAYS_ONLY") and function.__name__ not in os.environ["WAYS_ONLY"].split(","):
            return None
        return _attempt(function.__name__, function)

    return hold


def running(*expected, **facts):
    def hold(function):
        if os.environ.get("WAYS_ONLY") and function.__name__ not in os.environ["WAYS_ONLY"].split(","):
            return None
        stands = threading.Event()

        def run():
            making.stands = stands
            _attempt(function.__name__, function)
            stands.set()

        threading.Thread(target=run, daemon=True).start()
        stands.wait()

    return hold


def stay():
    making.stands.set()
    threading.Event().wait()


async def stay_async():
    stay()


def main(modules):
    for module in modules:
        importlib.import_module(module)
    print(json.dumps({"pid": os.getpid(), "where": where, "skipped": skipped, "python": sys.version_info[:2],
                      "torch": torch.__version__}), flush=True)  # fmt: skip
    time.sleep(1000)
    os._exit(0)


if __name__ == "__main__":
    sys.modules["hold"] = sys.modules["__main__"]
    main(sys.argv[1:])
