"""One process being recorded: its breakpoints, and what the debugger does at their stops.

The breakpoints are internal, so that `info breakpoints` shows the user's own only, and each stop is
answered in `stop()`, so that gdb never shows it: one call into the core reads registers, stacks and the
allocator's records and writes the event.
"""

import gdb

from . import debugger, libraries
from .library import NEW_LIBRARIES, NEW_SITES, OOM, REFUSED, STOP, Recorder, library

REGISTERS = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()  # DWARF's order


class Site(gdb.Breakpoint):
    """A breakpoint at an address of the core's choice."""

    def __init__(self, recording, address):
        super().__init__(f"*{address}", gdb.BP_BREAKPOINT, internal=True)
        self.silent = True
        self.recording = recording
        self.address = address
        # the hot path: what it needs, with the fewest look-ups
        self.pid = recording.pid
        self.handle = recording.recorder.handle
        self.hit = library().gpumem_recorder_hit
        self.advance = library().gpumem_recorder_advance

    def stop(self):
        pid, thread, _ = gdb.selected_thread().ptid
        if pid != self.pid:
            return self.recording.other_process(pid)
        verdict = self.hit(self.handle, self.address, thread, None)
        if verdict != 0 and self.recording.decide(self.address, thread, verdict):
            return True
        if debugger.may_advance() and self.advance(self.handle, self.address, thread):
            debugger.forget_registers()
        return False


class Recording:
    def __init__(self, pid, devices, log, source):
        self.pid = pid
        self.log = log
        self.recorder = Recorder(pid, devices, log.path, source)
        self.sites = {}
        self.by_ptrace = True
        self.stopped = False  # at the condition of `gpumem step` or `until`
        self.on_refusal = None
        self.on_oom = None  # called at an out-of-memory; true: the program shall stop there
        self.on_other_process = None
        self.place()

    def place(self):
        """Breakpoints at sites that have none yet."""
        for address in self.recorder.sites():
            if address not in self.sites:
                self.sites[address] = Site(self, address)

    def decide(self, address, thread, verdict):
        """What follows from a stop that is not just recorded. True: tell the user."""
        try:
            if verdict < 0:
                verdict = self._hit_through_gdb(address, thread)
            if verdict & NEW_SITES:
                self.place()
            if verdict & NEW_LIBRARIES:
                libraries.load_new(self.pid)
            if verdict & REFUSED and self.on_refusal:
                self.on_refusal(self.recorder.refusal())
            if verdict & OOM and self.on_oom and self.on_oom():
                return True
            if verdict & STOP:
                self.stopped = True
                return True
        except Exception as error:  # a stop may not fail: gdb would show a traceback and stop there
            debugger.warn(f"recording: {error}")
        return False

    def _hit_through_gdb(self, address, thread):
        """The registers as gdb has them: where it is not this process that traces the program."""
        frame = gdb.newest_frame()
        values = [int(frame.read_register(name)) & 0xFFFFFFFFFFFFFFFF for name in REGISTERS]
        return max(0, self.recorder.hit_with_registers(address, thread, values))

    def other_process(self, pid):
        """A stop of a process that is not ours: gdb followed a fork, or debugs several programs."""
        if self.on_other_process:
            self.on_other_process(pid)
        return False

    def remove_sites(self):
        sites, self.sites = self.sites, {}
        for site in sites.values():
            if site.is_valid():
                site.delete()

    def close(self):
        """Ends it; the process goes on undisturbed if it lives. Returns the summary."""
        self.remove_sites()
        summary = self.recorder.summary()
        self.recorder.close()
        self.log.refresh_saved()
        return summary
