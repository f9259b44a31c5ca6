"""The user's breakpoints that wait for a function in a library whose symbols gdb does not read while gpumem records
(libraries.py): this module makes gdb read the symbols of that library.

The core checks whether a library defines the function. It looks at each library once for each breakpoint, when the library is
loaded or the breakpoint is created. If the agent records, nothing else stops the program when libraries are loaded, so there
is a breakpoint in the dynamic linker while a breakpoint of the user's is pending.
"""

import os
import re

import gdb

from . import debugger, libraries
from .library import file_defines
from .session import session

# `break NAME`, `break -function NAME`: no place in a source file, as the libraries in question have no lines
FUNCTION = re.compile(r"(?:-(?:function|qualified) +)*([A-Za-z_~][\w:~<>,*& ]*)(?:\(.*)?$")

_read = set()  # libraries that were read for a breakpoint, in this run or an earlier one


def awaited(again=False):
    """[(number, function)] of the pending breakpoints. again: also of those that were resolved in an earlier run, which gdb
    does not call pending."""
    waiting = []
    for breakpoint in gdb.breakpoints() or ():
        function = (again or breakpoint.pending) and breakpoint.enabled and FUNCTION.match(breakpoint.location or "")
        if function:
            waiting.append((breakpoint.number, function[1].strip()))
    return waiting


def load(paths, number=None):
    """Reads the symbols of the libraries that define the function of a pending breakpoint: any breakpoint, or the one with this
    number. If several libraries define it, all are read, because only one of the definitions is called."""
    waiting, before = awaited(), awaited(again=True)
    for path in paths:
        for one, function in before if path in _read else waiting:
            if number in (None, one) and file_defines(path, function):
                debugger.say(f"reading the symbols of {os.path.basename(path)}, for breakpoint {one}")
                _read.add(path)
                libraries.read([path])
                break


def came(pid, heavy):
    """Called when libraries were loaded, or when gdb loads all of them itself again (0)."""
    if not pid:
        Arrivals.remove()
        return
    load(heavy)
    Arrivals.place(pid)


def created(breakpoint):
    """Called for each new breakpoint. The function that it waits for may be in a library that is loaded already."""
    pid = debugger.process_id()
    if pid and breakpoint.visible and breakpoint.pending:
        load(libraries.heavy_ones(pid), breakpoint.number)
        Arrivals.place(pid)


class Arrivals(gdb.Breakpoint):
    """A breakpoint at which the dynamic linker has loaded libraries."""

    placed = None

    def __init__(self, address):
        super().__init__(f"*{address}", gdb.BP_BREAKPOINT, internal=True)
        self.silent = True

    def stop(self):
        try:
            libraries.load_new(debugger.process_id())
        except Exception as error:  # gdb would print a traceback and stop the program
            debugger.warn(f"recording: {error}")
        return False

    @classmethod
    def place(cls, pid):
        """Used only if the agent records: the other recorder has its own breakpoint there."""
        recording = session().recording
        if cls.placed is not None or recording is None or not recording.by_agent or not awaited(bool(_read)):
            return
        library = session().library
        library.set_process(pid)
        address = library.agent_function("_dl_debug_state")
        if address:
            cls.placed = cls(address)

    @classmethod
    def remove(cls):
        placed, cls.placed = cls.placed, None
        if placed is not None and placed.is_valid():
            placed.delete()


def ended(_event):
    Arrivals.remove()


def install():
    if came in libraries.after_loading:
        return
    libraries.after_loading.append(came)
    gdb.events.breakpoint_created.connect(created)
    gdb.events.exited.connect(ended)
