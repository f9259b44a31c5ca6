"""Calls functions in the stopped process: only those that loading the agent needs, each at a safe place.

A call is made only from a thread that, as the core found, holds no lock of the C library or the dynamic linker. If this is
true for all threads, no other thread runs during the call, so the user finds the program where it was.
"""

import contextlib
import os

import gdb

from . import debugger
from .library import Failure

TRIES = 20  # to bring a thread out of the C library
PROTECTION, PRIVATE_ANONYMOUS_UNRESERVED = 3, 0x4022  # mmap(2): read and write
RTLD_NOW = 2


class Setting:
    """Changes a setting of gdb within a `with`."""

    def __init__(self, name, value):
        self.name, self.value = name, value

    def __enter__(self):
        self.before = gdb.parameter(self.name)
        if isinstance(self.before, bool):
            self.before = "on" if self.before else "off"
        gdb.execute(f"set {self.name} {self.value}", to_string=True)

    def __exit__(self, *_error):
        gdb.execute(f"set {self.name} {self.before}", to_string=True)


@contextlib.contextmanager
def selected(thread):
    """Selects another thread within a `with`, and the user's frame again afterwards."""
    before, frame = gdb.selected_thread(), gdb.selected_frame()
    thread.switch()
    try:
        yield
    finally:
        if before and before.is_valid():
            before.switch()
            if frame.is_valid():
                frame.select()


@contextlib.contextmanager
def without_breakpoints():
    """Disables the user's breakpoints, so that our calls hit none of them."""
    disabled = [one for one in gdb.breakpoints() or () if one.enabled]
    for one in disabled:
        one.enabled = False
    try:
        yield
    finally:
        for one in disabled:
            if one.is_valid():
                one.enabled = True


class Calls:
    """Calls in one process, from one of its threads. `others_stand`: no other thread runs during a call."""

    def __init__(self, library, pid):
        self.library, self.pid = library, pid
        self.moved = False
        self.thread, self.others_stand = self._find()

    def _find(self):
        """Selects a thread that may call, the user's if possible, and preferably when no other thread is in a function that forbids it."""
        for last in [False] * TRIES + [True]:
            threads = list(gdb.selected_inferior().threads())
            own = gdb.selected_thread()
            threads.sort(key=lambda thread: thread.num != own.num)
            stands = [(thread, *self.library.thread_is_call_safe(thread.ptid[1])) for thread in threads]
            safe = [thread for thread, place, _back in stands if place == 0]
            busy = [(thread, back) for thread, _place, back in stands if thread not in safe]
            if not busy:
                return safe[0], True
            leaving = [one for one in busy if one[1]]
            if leaving and not last:
                self._bring_out(*leaving[0], len(busy) == 1)
            elif safe:
                return safe[0], False
        raise Failure(
            "record --engine agent: no thread is at a place where the agent can be loaded; all of them are allocating memory or loading libraries: "
            "`finish` or `continue` a little, and repeat the command",
            4,
        )

    def _bring_out(self, thread, back, alone):
        """Lets the program run until a thread has left the C library."""
        if not self.moved:
            debugger.say("the program was continued briefly, to leave a function of the C library in which nothing can be loaded")
        self.moved = True
        before = gdb.selected_thread()
        thread.switch()
        with without_breakpoints(), Setting("scheduler-locking", "on" if alone else "off"):
            gdb.execute(f"advance *{back:#x}", to_string=True)
        if before.is_valid():
            before.switch()

    def call(self, function, *arguments, result="long"):
        address = self.library.agent_function(function)
        if not address:
            raise Failure(
                f"record --engine agent: process {self.pid} has no {function}(): it is static, linked with another C library, or has only just "
                "started: continue to `main` first, or leave --engine out",
                4,
            )
        words = ", ".join(f"{argument:#x}" for argument in arguments)
        prototype = ", ".join(["long"] * len(arguments)) or "void"
        locking = "on" if self.others_stand else "off"
        with selected(self.thread), without_breakpoints(), Setting("language", "c"):
            with Setting("scheduler-locking", locking), Setting("unwindonsignal", "on"):
                return int(gdb.parse_and_eval(f"(({result} (*)({prototype})) {address:#x})({words})"))

    def memory(self, size):
        """The address of zeroed, writable memory in the process."""
        address = self.call("mmap", 0, size, PROTECTION, PRIVATE_ANONYMOUS_UNRESERVED, 2**64 - 1, 0)
        if -4096 < address < 0:
            raise Failure(f"record --engine agent: process {self.pid} has no memory for the agent's start", 4)
        return address

    def give_back(self, address, size):
        self.call("munmap", address, size)

    @staticmethod
    def text(address):
        data = bytes(gdb.selected_inferior().read_memory(address, 1024))
        return data.split(b"\0")[0].decode("utf-8", "replace")

    def load(self, path, buffer):
        """dlopen(); `buffer` is memory for its name."""
        gdb.selected_inferior().write_memory(buffer, os.fsencode(path) + b"\0")
        if not self.call("dlopen", buffer, RTLD_NOW):
            why = self.call("dlerror")
            raise Failure(
                f"record --engine agent: the program's dynamic linker refuses the agent: {self.text(why) if why else path}", 4
            )
