"""Breakpoints of the user's that wait for a function in a library whose symbols gdb does not read while gpumem records
(libraries.py): gdb reads those of that library then.

The core says whether a library defines the function. It looks at each library once for each breakpoint, as it comes or as
the breakpoint is made. Where the agent records, nothing else stops the program as libraries come, so there is a breakpoint
in the dynamic linker while one of the user's waits.
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
    """[(number, function)] of the breakpoints that wait. again: and of those that had a place in an earlier run: to gdb
    they do not wait."""
    waiting = []
    for breakpoint in gdb.breakpoints() or ():
        function = (again or breakpoint.pending) and breakpoint.enabled and FUNCTION.match(breakpoint.location or "")
        if function:
            waiting.append((breakpoint.number, function[1].strip()))
    return waiting


def load(paths, number=None):
    """Reads those of the libraries that define what a breakpoint waits for: any one, or that of a number. All of them, as
    only one of two that define a function is called."""
    waiting, before = awaited(), awaited(again=True)
    for path in paths:
        for one, function in before if path in _read else waiting:
            if number in (None, one) and file_defines(path, function):
                debugger.say(f"reads the symbols of {os.path.basename(path)}, for breakpoint {one}")
                _read.add(path)
                libraries.read([path])
                break


def came(pid, heavy):
    """Libraries came, or gdb loads all by itself again (0)."""
    if not pid:
        Arrivals.remove()
        return
    load(heavy)
    Arrivals.place(pid)


def created(breakpoint):
    """A breakpoint of any kind: what it waits for may have been there before it."""
    pid = debugger.process_id()
    if pid and breakpoint.visible and breakpoint.pending:
        load(libraries.heavy_ones(pid), breakpoint.number)
        Arrivals.place(pid)


class Arrivals(gdb.Breakpoint):
    """Where the dynamic linker has loaded libraries."""

    placed = None

    def __init__(self, address):
        super().__init__(f"*{address}", gdb.BP_BREAKPOINT, internal=True)
        self.silent = True

    def stop(self):
        try:
            libraries.load_new(debugger.process_id())
        except Exception as error:  # a stop may not fail: gdb would show a traceback and stop there
            debugger.warn(f"recording: {error}")
        return False

    @classmethod
    def place(cls, pid):
        """Only where the agent records: the other recorder has a breakpoint there itself."""
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
