"""Differences between debuggers, and workarounds for their defects."""

import os
import signal

import gdb

from .library import visible


def version():
    """gdb's version as a pair; for cuda-gdb, that of the gdb it is built on."""
    numbers = []
    for part in gdb.VERSION.split(".")[:2]:
        digits = ""
        for character in part:
            if not character.isdigit():
                break
            digits += character
        numbers.append(int(digits or 0))
    return tuple((numbers + [0, 0])[:2])


def connection():
    """How gdb accesses its target: "native", "remote" (gdbserver and its like), "core", or "none"."""
    inferior = gdb.selected_inferior()
    if not inferior or not inferior.is_valid() or not inferior.pid:
        return "none"
    if hasattr(inferior, "connection"):  # gdb 12
        # tested by truth value, not by `is None`: see repair_unwinders()
        kind = inferior.connection.type if inferior.connection else ""
    else:
        stack = gdb.execute("maint print target-stack", False, True)
        kind = next((name for name in ("remote", "core") if f"- {name} " in stack or f"- extended-{name} " in stack), "")
    if "remote" in kind:
        return "remote"
    return "core" if kind == "core" else "native"


def process_id():
    """The selected process; 0: none, or one on another machine. (gdb 10 has no selected inferior if there is no
    process.)"""
    return gdb.selected_inferior().pid if connection() == "native" else 0


def write(text, error=False):
    """Writes the text in one call, for paging, logging and redirection."""
    if text:
        gdb.write(text, gdb.STDERR if error else gdb.STDOUT)


def say(line):
    write(f"gpumem: {visible(line)}\n")


def warn(line):
    gdb.flush()
    write(f"gpumem: {visible(line)}\n", error=True)


def uninterrupted(function):
    """Calls a function again until no Ctrl-C interrupts it, because an interrupted call leaves work half done. The function
    must continue where it was interrupted. Returns its result, and whether Ctrl-C came."""
    interrupted = False
    while True:
        try:
            return function(), interrupted
        except KeyboardInterrupt:
            interrupted = True


def pass_interrupt(pid):
    """After a Ctrl-C while Python ran: does what gdb does for one while the program runs."""
    try:
        os.kill(pid, signal.SIGINT)
    except OSError:
        pass  # it has ended


def columns():
    """Width of the terminal, 0: unlimited."""
    width = gdb.parameter("width")
    return int(width) if width else 0


NONE = None  # gdb's None


def _repair_printers():
    """The same repair for pretty printers: a value that no printer knows would be printed as nothing."""
    from gdb import printing

    for kind in (printing.RegexpCollectionPrettyPrinter, printing.FlagEnumerationPrinter):

        def look_up(self, value, original=kind.__call__):
            return original(self, value) or NONE

        kind.__call__ = look_up


def repair_unwinders():
    """Makes Python's unwinders work in a debugger that has another None than Python.

    cuda-gdb 11.8 as Debian packages it is linked so that what its C code calls None is another object than
    Python's (a copy of _Py_NoneStruct). Then `None`, the answer where no unwinder is registered, is taken
    for a wrong one, and every frame fails with "A Unwinder should return gdb.UnwindInfo instance". Such a
    gdb is known by what its functions return; its own None is what it wants to get. For the same reason
    nothing that gdb returns may be compared with None here: it is asked whether it is true.
    """
    global NONE
    gdbs_none = gdb.write("")
    execute = getattr(gdb, "_execute_unwinders", None)
    if gdbs_none is None or execute is None:
        return

    def execute_unwinders(pending_frame):
        return execute(pending_frame) or gdbs_none

    gdb._execute_unwinders = execute_unwinders
    NONE = gdbs_none
    _repair_printers()
    from gdb import frames
    from gdb.FrameIterator import FrameIterator

    def following(self):
        if not self.frame:
            raise StopIteration
        frame, self.frame = self.frame, self.frame.older()
        return frame

    FrameIterator.next = following

    filters = frames.execute_frame_filters
    frames.execute_frame_filters = lambda *arguments: filters(*arguments) or gdbs_none


# --- resuming without a step -------------------------------------------------------------------------
#
# gdb steps over a breakpoint with a second stop of the thread. Instead, the core can do the effect of the one
# instruction there; gdb then reads the registers again and lets the thread run. This is not done if the user
# could see the difference: with a breakpoint or watchpoint of the user (which may be at the same address, with a
# condition that gdb has to check), or with gdb's own recording of every instruction.

_user_breakpoints = 0
_flush = None


def _count_breakpoints(_event=None):
    global _user_breakpoints
    _user_breakpoints = sum(1 for one in gdb.breakpoints() or () if one.number > 0)


def _deleted(breakpoint):
    global _user_breakpoints
    _user_breakpoints = sum(1 for one in gdb.breakpoints() or () if one.number > 0 and one is not breakpoint)


def watch_breakpoints():
    global _flush
    for command in ("maintenance flush register-cache", "flushregs"):  # gdb 11, before
        try:
            gdb.execute(command, False, True)
        except gdb.error:
            continue
        _flush = command
        break
    gdb.events.breakpoint_created.connect(_count_breakpoints)
    gdb.events.breakpoint_deleted.connect(_deleted)
    _count_breakpoints()


def may_advance():
    return _user_breakpoints == 0 and _flush is not None and not gdb.current_recording()


def forget_registers():
    gdb.execute(_flush, False, True)
