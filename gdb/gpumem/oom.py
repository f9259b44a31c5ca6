"""`gpumem record --on-oom`: when a device runs out of memory, stops the program at the error or writes a core.

The program is then inside the allocator, just before PyTorch raises its error: everything that filled the device is still
allocated, and the failing call is on the stack.
"""

import json

import gdb

from . import debugger
from .library import reason
from .session import session

CORES_MAX = 3  # for each recording: a program that tries smaller and smaller batches would fill the disk


def account():
    """The verdict in a few lines."""
    status, out, err = session().ask(["oom", "--json"])
    if status:
        return [reason(err) or "out of memory"]
    answer = json.loads(out)
    site = next((f"{frame['file']}:{frame['line']} in {frame['function']}" for frame in answer["python"]), None)
    lines = [f"cuda:{answer['device']} is out of memory: {answer['requested']:,} bytes did not fit" + (f", at {site}" if site else "")]
    if answer["verdict"]:
        lines.append(f"verdict: {answer['verdict']}. {answer['sentence']}")
    return lines


def print_account():
    """Prints the verdict when the program is stopped at the error."""
    for line in account():
        debugger.say(line)
    debugger.say("next: `gpumem oom`, `gpumem retained`, `bt`; `continue` lets PyTorch raise its error")


class OnOom:
    """The --on-oom of one recording: `mode` is core, stop or none."""

    def __init__(self, mode, pid, path=None):
        self.mode = mode
        self.pid = pid
        self.path = path or f"core.{pid}"
        self.cores = 0

    def __call__(self):
        if self.mode == "stop":
            gdb.events.stop.connect(self._stopped)
            return True
        if self.mode == "core":
            self._write_core()
        return False

    def _stopped(self, _event):
        gdb.events.stop.disconnect(self._stopped)
        print_account()

    def _write_core(self):
        self.cores += 1
        if self.cores > CORES_MAX:
            if self.cores == CORES_MAX + 1:
                debugger.warn(f"out of memory again: gpumem writes at most {CORES_MAX} cores")
            return
        path = self.path if self.cores == 1 else f"{self.path}.{self.cores}"
        for line in account():
            debugger.say(line)
        status, _, err = session().ask(["core", str(self.pid), "-o", path])
        if status:
            debugger.write(err, error=True)
            return
        debugger.say(f"core written: `gpumem oom {path}` in a shell shows more; the program continues")
