"""One process being recorded: its breakpoints, and the work at their stops.

The breakpoints are internal, so that `info breakpoints` shows only the user's own. Each stop is handled in
`stop()`, so that gdb never shows it: one call into the core reads registers, stacks and the allocator's
Block structs and writes the event.
"""

import ctypes

import gdb

from . import debugger, libraries
from .library import NEW_LIBRARIES, NEW_SITES, OOM, REFUSED, STOP, Recorder, StopAnswer, library
from .target import REGISTERS

class Site(gdb.Breakpoint):
    """A breakpoint at an address that the core chose."""

    def __init__(self, recording, address):
        super().__init__(f"*{address}", gdb.BP_BREAKPOINT, internal=True)
        self.silent = True
        self.recording = recording
        self.address = address
        # the hot path, with as few attribute look-ups as possible
        self.pid = recording.pid
        self.handle = recording.recorder.handle
        self.answer = recording.answer
        self.answer_pointer = ctypes.byref(recording.answer)
        self.stop_at = library().gpumem_recorder_stop_at

    def stop(self):
        """Ctrl-C may raise KeyboardInterrupt before any instruction here. The stop is still handled,
        or an event would be missing, or gdb would go on with registers that are no longer the thread's. Then
        the program gets the signal."""
        shown, interrupted = debugger.uninterrupted(self.answer_stop)
        if interrupted and not shown:
            debugger.pass_interrupt(self.pid)
        self.recording.end_stop(shown)
        return shown

    def answer_stop(self, advance=True):
        """Returns True if gdb shows the stop. An interrupted earlier call may have done a part of the work."""
        pid, thread, _ = gdb.selected_thread().ptid
        if pid != self.pid:
            return self.recording.other_process(pid)
        answer, done = self.answer, self.recording.stops
        if answer.stops == done:
            advance = advance and debugger.may_advance()
            self.stop_at(self.handle, self.address, thread, None, advance, self.answer_pointer)
        if answer.verdict < 0 and answer.stops == done + 1:
            self.recording.warn_of(self._stop_through_gdb, thread)
        if answer.advanced:
            debugger.forget_registers()
        return answer.verdict > 0 and self.recording.decide(answer.verdict)

    def _stop_through_gdb(self, thread):
        """The registers from gdb, if the program is not traced by this process."""
        frame = gdb.newest_frame()
        values = [int(frame.read_register(name)) & 0xFFFFFFFFFFFFFFFF for name in REGISTERS]
        words = (ctypes.c_uint64 * 17)(*values)
        self.stop_at(self.handle, self.address, thread, words, False, self.answer_pointer)


class Recording:
    by_agent = False

    def __init__(self, pid, devices, log, source):
        self.pid = pid
        self.log = log
        self.recorder = Recorder(pid, devices, log.path, source)
        self.sites = {}
        self.answer = StopAnswer()
        self.stops = 0  # answer.stops after the last stop that was handled completely
        self.shown = False  # was that one shown?
        self.summary = None
        self.stopped = False  # at the condition of `gpumem step` or `until`
        self.at_event = False  # whether the program is stopped at an event, not elsewhere
        self.on_refusal = None
        self.on_oom = None  # called at an out-of-memory error; returns whether the program stops there
        self.on_other_process = None
        gdb.events.stop.connect(self._shown)
        self.place()

    def place(self):
        """Sets breakpoints at sites that have none yet."""
        for address in self.recorder.sites():
            if address not in self.sites:
                self.sites[address] = Site(self, address)

    def end_stop(self, shown):
        self.stops, self.shown = self.answer.stops, shown

    def _shown(self, event):
        """Called when gdb shows a stop. If it is one of ours that should not be shown, Ctrl-C came before stop() began, or
        after it had returned; in the second case the thread has left the breakpoint."""
        sites = [one for one in getattr(event, "breakpoints", ()) if isinstance(one, Site) and one.recording is self]
        self.at_event = bool(sites)
        if sites and not self.shown:
            if not self.answer.advanced or gdb.newest_frame().pc() == sites[0].address:
                debugger.uninterrupted(lambda: sites[0].answer_stop(advance=False))
            debugger.say("interrupted at an event: `continue` resumes the program")
        self.end_stop(False)

    def decide(self, verdict):
        """Handles a stop that needs more than recording. Returns True if gdb shows it."""
        if verdict & NEW_SITES:
            self.warn_of(self.place)
        if verdict & NEW_LIBRARIES:
            self.warn_of(libraries.load_new, self.pid)
        if verdict & REFUSED and self.on_refusal:
            self.on_refusal(self.recorder.refusal())
        if verdict & OOM and self.on_oom and self._at_oom():
            return True
        if verdict & STOP:
            self.stopped = True
            return True
        return False

    def _at_oom(self):
        try:
            return self.warn_of(self.on_oom)
        except KeyboardInterrupt:  # the user wants to stop waiting
            return True

    @staticmethod
    def warn_of(function, *arguments):
        """Calls a function within a stop and turns an error into a warning: gdb would print a traceback and stop the program."""
        try:
            return function(*arguments)
        except Exception as error:
            debugger.warn(f"recording: {error}")
            return None

    def other_process(self, pid):
        """Handles a stop of another process: gdb followed a fork, or debugs several programs."""
        if self.on_other_process:
            self.on_other_process(pid)
        return False

    def remove_sites(self):
        sites, self.sites = self.sites, {}
        for site in sites.values():
            if site.is_valid():
                site.delete()

    def close(self):
        """Ends the recording; a live process continues undisturbed. Returns the summary. If Ctrl-C interrupts it, it can be
        called again."""
        if self._shown is not None:
            gdb.events.stop.disconnect(self._shown)
            self._shown = None
        self.remove_sites()
        if self.summary is None:
            self.summary = self.recorder.summary()
        self.recorder.close()
        self.log.refresh_saved()
        return self.summary
