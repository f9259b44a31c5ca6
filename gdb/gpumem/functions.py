"""Functions for gdb's expressions: `print $gpumem_allocated()`, `break f if $gpumem_step() == 3`."""

import gdb

from .command import Usage, gate
from .library import Failure, as_json, visible
from .recorder import waiting
from .session import session


HOST = ("cpu", "pinned")
BESIDE = "cuda_beside"  # memory of the device that PyTorch knows nothing of


class Function(gdb.Function):
    least, most = 0, 0  # arguments

    def invoke(self, *arguments):
        values = []
        gate(f"${self.name}", lambda: values.append(self.checked(arguments)))
        return values[0]

    def checked(self, arguments):
        if not self.least <= len(arguments) <= self.most:
            raise Usage(f"{len(arguments)} arguments: see `help function {self.name}`")
        return self.value(*arguments)


def ask(*arguments):
    """A question's answer as JSON."""
    return as_json(arguments[0], *session().ask([*arguments, "--json"]))


def programs_devices(devices):
    """Of the devices of `info` those that the program computes on: not the host, and nothing beside PyTorch on the same device. The
    host only if nothing else is recorded: what is allocated there before CUDA is used is no figure of a GPU."""
    if waiting.devices == "cpu":
        return [one for one in devices if one["device_type"] in HOST]
    return [one for one in devices if one["device_type"] not in (*HOST, BESIDE)]


def device(number):
    """A device of `info`: the one with this index, or the default one of questions: the CUDA device with the highest peak."""
    devices = programs_devices(ask("info")["devices"])
    if number is None and devices:
        return max(devices, key=lambda one: (one["device_type"] == "cuda", one["device_type"] != "pinned", one["peak_allocated"], -one["device"]))
    for one in devices:
        if one["device"] == int(number or 0):
            return one
    if not devices:
        place = "" if waiting.devices == "cpu" else " on a GPU"
        raise Failure(f"nothing was allocated{place} through PyTorch yet", 4)
    known = ", ".join(str(one["device"]) for one in devices)
    raise Failure(f"device {int(number)}: nothing was allocated on it: name one of {known}", 2)


class Allocated(Function):
    """Bytes allocated now through PyTorch's allocator, on device N, or on the one with the highest peak.

    $gpumem_allocated([N])

    The value comes from the recording, if there is one, or else from the process. After the program has ended, it is the
    value at the end.

    Example: print $gpumem_allocated()"""

    name, most = "gpumem_allocated", 1

    def value(self, number=None):
        return device(number)["allocated"]


class Reserved(Function):
    """Bytes that PyTorch's allocator has reserved from CUDA, on device N, or on the one with the highest peak.

    $gpumem_reserved([N])

    Example: print $gpumem_reserved() - $gpumem_allocated()"""

    name, most = "gpumem_reserved", 1

    def value(self, number=None):
        return device(number)["reserved"]


class Step(Function):
    """The training loop's iteration at the latest event; 0: none yet.

    $gpumem_step()

    Example: break THPVariable_backward if $gpumem_step() == 3"""

    name = "gpumem_step"

    def value(self):
        recording = session().recording
        return recording.recorder.step() if recording is not None else ask("info")["steps"]


class Events(Function):
    """The number of events recorded so far.

    $gpumem_events()

    Example: print $gpumem_events()"""

    name = "gpumem_events"

    def value(self):
        recording = session().recording
        return recording.recorder.event_count() if recording is not None else ask("info")["events"]


class Holder(Function):
    """What holds the block at an address: the first holder that `gpumem who-holds` finds, as text; "" if there is none.

    $gpumem_holder(ADDRESS)

    Example: print $gpumem_holder(0x6d0021200000)"""

    name, least, most = "gpumem_holder", 1, 1

    def value(self, address):
        holders = ask("who-holds", f"{int(address) & 0xFFFFFFFFFFFFFFFF:#x}")["holders"]
        return visible(holders[0]["text"]) if holders else empty()


def empty():
    """The empty string. gdb converts Python's own "" to a null pointer."""
    return gdb.Value(b"\0", gdb.Value("x").type.target().array(0))


_installed = []


def install():
    if not _installed:
        _installed.extend(one(one.name) for one in (Allocated, Reserved, Step, Events, Holder))
