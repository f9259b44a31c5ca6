"""Native frames of the libraries whose symbols gdb has not read (libraries.py).

Without their symbols gdb guesses a frame's caller, usually wrongly. An unwinder here asks the core, which reads .eh_frame in
the files, and frame filters name the functions. Frames for which gdb has symbols are left to gdb.

`bt` shows the names. `up`, `down` and `frame` find the right frames, but show "??" for a name, because gdb calls filters only in
`bt`.
"""

import itertools

import gdb
from gdb.FrameDecorator import FrameDecorator
from gdb.unwinder import Unwinder, register_unwinder

from . import debugger
from .library import Session
from .target import REGISTERS

AHEAD = 32  # frames named in one call: a look-up scans a library's whole symbol table
KEPT = 65536  # names


class Reader:
    """A session of the core for the selected process, for frames only: questions use another session."""

    def __init__(self):
        self.session = Session()
        self.unread = {}  # library -> whether gdb has no symbols of it
        self.names = {}
        self.stale = True
        self.inferior = None  # (its number, its process) that all of this is about
        for name in ("new_objfile", "clear_objfiles", "free_objfile"):
            self._connect(name, self._other_symbols)
        self._connect("stop", self._moved)
        self._connect("exited", self._moved)
        self._connect("new_inferior", self._moved)

    @staticmethod
    def _connect(name, function):
        event = getattr(gdb.events, name, None)  # free_objfile: gdb 13
        if event is not None:
            event.connect(function)

    def _other_symbols(self, _event):
        self.unread.clear()

    def _moved(self, _event):
        self.stale = True

    def _selected(self):
        """Makes all stale if another inferior was selected, for which gdb has no event."""
        inferior = gdb.selected_inferior()
        selected = (inferior.num, inferior.pid) if inferior else None
        if selected != self.inferior:
            self.inferior = selected
            self.stale = True
            self.unread.clear()

    def covers(self, address):
        """Whether the address is in a library whose symbols gdb has not read."""
        self._selected()
        name = gdb.solib_name(address)
        if not name:
            return False
        if name not in self.unread:
            try:
                gdb.lookup_objfile(name)
                self.unread[name] = False
            except ValueError:
                self.unread[name] = True
        return self.unread[name]

    def look(self):
        """False if there is no process, or it is on another machine."""
        self._selected()
        if not self.stale:
            return True
        process = debugger.process_id()
        if not process:
            return False
        self.names.clear()
        self.session.set_process(process)
        self.session.invalidate()
        self.stale = False
        return True

    def caller(self, registers, innermost):
        if innermost is None:
            thread = gdb.selected_thread()
            self.session.set_thread(thread.ptid[1] if thread else 0)
        return self.session.frame_caller(registers, innermost)

    def functions(self, addresses):
        """Names by address; they are cached while the process is stopped and selected."""
        if not addresses or not self.look():
            return [None] * len(addresses)
        new = [address for address in addresses if address not in self.names]
        if new:
            if len(self.names) > KEPT:
                self.names.clear()
            self.names.update(zip(new, map(printable, self.session.frame_functions(new))))
        return [self.names.get(address) for address in addresses]


def printable(name):
    """A name, safe to print and not shortened: the library's author chose it. (visible() shortens long names.)"""
    if name is None or name.isprintable():
        return name
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in name)


class FrameId:
    """A frame id; gdb before 17 has no class for it. It has no `pc`: the canonical frame address is enough to distinguish frames, and
    without a `pc` gdb needs no symbols to find where a function begins."""

    def __init__(self, sp):
        self.sp = sp


class CoreUnwinder(Unwinder):
    def __init__(self, reader):
        super().__init__("gpumem")
        self.reader = reader

    def __call__(self, pending):
        try:
            return self.unwind(pending)
        except (gdb.error, gdb.MemoryError, RuntimeError):
            return None

    def unwind(self, pending):
        reader = self.reader
        pointer = pending.read_register("rip")
        if not reader.covers(int(pointer) & MASK) or not reader.look():
            return None
        values = [pending.read_register(name) for name in REGISTERS]
        words, known = [], []
        for value in values:
            try:
                words.append(int(value) & MASK)
                known.append(True)
            except gdb.error:  # a register that calls do not preserve: gdb does not know it either
                words.append(0)
                known.append(False)
        innermost = pending.level() == 0 if hasattr(pending, "level") else None  # gdb 13
        caller = reader.caller(words, innermost)
        if caller is None:
            return None
        stack = values[RSP].type
        info = pending.create_unwind_info(FrameId(gdb.Value(caller[RSP]).cast(stack)))
        for name, before, after, value, is_known in zip(REGISTERS, words, caller, values, known):
            if is_known or before != after:
                info.add_saved_register(name, gdb.Value(after).cast(value.type))
        return info


MASK = 0xFFFFFFFFFFFFFFFF
RSP = REGISTERS.index("rsp")


class Native(FrameDecorator):
    """A native frame as gdb shows it, with the core's name if gdb has none. Missing values are gdb's own None (see
    debugger.repair_unwinders())."""

    def __init__(self, base, name):
        super().__init__(base)
        self.base, self.name = base, name

    def function(self):
        own = self.inferior_frame().name() or self.name
        if type(self.base) is not FrameDecorator:  # another filter has changed the frame
            return self.base.function() or own or "??"
        return own or "??"

    def elided(self):
        return super().elided() or debugger.NONE

    def filename(self):
        return super().filename() or debugger.NONE

    def line(self):
        return super().line() or debugger.NONE

    def frame_args(self):
        return self.unless_repaired(super().frame_args)

    def frame_locals(self):
        return self.unless_repaired(super().frame_locals)

    @staticmethod
    def unless_repaired(values):
        """Only in a gdb whose None is Python's."""
        return values() or None if debugger.NONE is None else debugger.NONE


def call_address(frame):
    """An address within the call instruction of a frame. For the innermost frame, and one that a signal interrupted, its current
    instruction."""
    newer = frame.newer()
    exact = not newer or newer.type() == gdb.SIGTRAMP_FRAME
    return frame.pc() - (not exact)


class Names:
    """The frame filter `gpumem-names`."""

    name, priority, enabled = "gpumem-names", 90, True

    def __init__(self, reader):
        self.reader = reader
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        while True:
            some = list(itertools.islice(frames, AHEAD))
            if not some:
                return
            yield from self.named(some)

    def named(self, some):
        addresses = {}
        for index, decorator in enumerate(some):
            frame = decorator.inferior_frame()
            if not frame.name() and self.reader.covers(frame.pc()):
                addresses[index] = call_address(frame)
        names = dict(zip(addresses, self.reader.functions(list(addresses.values()))))
        for index, decorator in enumerate(some):
            yield Native(decorator, names.get(index))


_reader = None


def install():
    """Lets the core unwind the frames of libraries without symbols from now on."""
    global _reader
    if _reader is not None:
        return
    _reader = Reader()
    Names(_reader)
    register_unwinder(None, CoreUnwinder(_reader), replace=True)
