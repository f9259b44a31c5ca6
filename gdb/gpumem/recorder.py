"""`gpumem record` over several runs: waits for a program to start, records it, and stops when the program ends.

gdb reports a new process to Python only indirectly: when a process starts or gdb attaches, gdb adds the
vDSO as an object file. This happens before the program's first instruction, when the dynamic linker is
already mapped. From then on the linker's hook (one of the core's sites) reports each library. An exec
clears all object files first.
"""

import os

import gdb

from . import agent, debugger, frames, libraries, python_frames
from .library import Failure
from .oom import OnOom, print_account
from .recording import Recording
from .session import Log, session
from .watches import watches

VDSO = "system-supplied DSO"


class Waiting:
    """Whether recording was requested, and with which options."""

    def __init__(self):
        self.on = False
        self.devices = "cuda"
        self.on_oom = "none"
        self.core_file = None
        self.preload = None  # engine agent: for the programs that gdb starts
        self.by_agent = False
        self.identity = None  # of the program in the recorded process
        self.reported_others = set()
        self.never_held = []  # lines about conditions, from the recording that ended last
        self.condition = {}  # the condition of `gpumem step` or `until`, for a program that they start

    # --- called by commands ---

    def start(self, devices, on_oom="none", core_file=None, by_agent=False):
        """Records the process now, or the next one that starts. Returns a line for the user."""
        current = session().recording
        if current is not None:
            raise Failure(
                f"already recording process {current.pid}: {current.recorder.summary()}: "
                "`gpumem record stop` ends it",
                2,
            )
        if debugger.connection() in ("remote", "core"):
            raise Failure(
                "record: the program runs on another machine: to record it, run gdb there",
                4,
            )
        self.devices = devices
        self.on_oom = on_oom
        self.core_file = core_file
        self.by_agent = by_agent
        try:
            return self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self):
        libraries.quiet_loading()
        frames.install()
        python_frames.install()
        self._connect()
        self.on = True
        pid = debugger.process_id()
        if self.by_agent:
            self._put_agent()
        if not pid:
            return "recording begins when the program runs"
        self.begin(pid)
        return f"recording process {pid}"

    def stop(self):
        """Ends the recording and does not record later programs."""
        if self.on:
            self.on = False
            self._disconnect()
        self._take_agent()
        libraries.restore_loading()
        return self.end()

    def _put_agent(self):
        """Preloads the agent into the programs that gdb will start."""
        self._take_agent()
        self.preload = agent.Preload(self.devices, "none" if self.on_oom == "none" else "debugger")

    def _take_agent(self):
        if self.preload is not None:
            self.preload.undo()
            self.preload = None

    # --- recordings ---

    def begin(self, pid, started=False):
        if self.by_agent:
            self._begin_agent(pid, started)
        else:
            self._begin_breakpoints(pid)
        self.identity = identity(pid)
        libraries.load_new(pid)

    def _begin_agent(self, pid, started):
        """`started`: gdb started the program, with the agent loaded."""
        current = session()
        if started and not self.preload.is_in(pid):
            raise Failure("gdb attached to it: type `gpumem record --engine agent` now", 2)
        log = agent.AgentLog(pid, self.preload.folder if started else agent.new_folder())
        stops = "none" if self.on_oom == "none" else "debugger"
        if not started:
            agent.load(pid, log, self.devices, stops)
        current.use_log(log)
        current.recording = agent.AgentRecording(pid, log)
        if self.condition:
            current.recording.aim(**self.condition)
            current.recording.arm()
        watches().begin(current.recording)
        if self.on_oom == "stop":
            current.recording.stop_at_oom(print_account)
        elif self.on_oom == "core":
            current.recording.core_at_oom(OnOom("core", pid, self.core_file))

    def _begin_breakpoints(self, pid):
        current = session()
        log = Log(pid)
        try:
            recording = Recording(pid, self.devices, log, command_line(pid))
        except BaseException:
            log.remove()
            raise
        current.use_log(log)
        recording.on_refusal = lambda why: debugger.warn(f"not recorded: {why}")
        recording.on_other_process = self._other_process
        if self.on_oom != "none":
            recording.on_oom = OnOom(self.on_oom, pid, self.core_file)
        current.recording = recording
        recording.recorder.stop_when(**self.condition)
        watches().begin(recording)

    def end(self):
        """Ends the current recording. Returns its summary, or None."""
        current = session()
        if current.recording is None:
            return None
        self.never_held = watches().end(current.recording)
        try:
            return debugger.uninterrupted(current.recording.close)[0]
        finally:
            current.recording = None

    # --- called by gdb ---

    def _connect(self):
        if not self.on:
            gdb.events.new_objfile.connect(self._new_objfile)
            gdb.events.clear_objfiles.connect(self._cleared)
            gdb.events.exited.connect(self._exited)

    def _disconnect(self):
        gdb.events.new_objfile.disconnect(self._new_objfile)
        gdb.events.clear_objfiles.disconnect(self._cleared)
        gdb.events.exited.disconnect(self._exited)

    def _new_objfile(self, event):
        pid = debugger.process_id()
        if not pid:
            return
        recording = session().recording
        if recording is not None:
            if recording.pid == pid or alive(recording.pid):
                return
            self._finish()
        name = event.new_objfile.filename or ""
        # after an exec the program's own file comes first, and no vDSO
        if not name.startswith(VDSO) and self.identity is not None:
            return
        try:
            self.begin(pid, started=True)
        except Failure as error:
            debugger.warn(f"process {pid} is not recorded: {error}")
        except KeyboardInterrupt:  # gdb would continue the program
            debugger.warn(f"process {pid} is not recorded: interrupted: type `gpumem record stop`, then `gpumem record`")
            debugger.pass_interrupt(pid)

    def _cleared(self, _event):
        """Called when all object files are gone: the user named another program file, or the process called exec."""
        recording = session().recording
        if recording is not None and identity(recording.pid) != self.identity:
            self._finish()
            self.identity = None

    def _exited(self, event):
        recording = session().recording
        inferior = getattr(event, "inferior", None)
        if recording is None or (inferior and inferior.pid not in (0, recording.pid)):
            return
        self._finish()

    def _other_process(self, pid):
        """Called when gdb followed a fork. The child has our breakpoints, and is recorded if gdb detached from the parent."""
        recording = session().recording
        if recording is not None and any(inferior.pid == recording.pid for inferior in gdb.inferiors()):
            if pid not in self.reported_others:
                self.reported_others.add(pid)
                debugger.warn(f"process {pid} is not recorded: process {recording.pid} is")
            return
        self._finish()
        try:
            self.begin(pid)
        except Failure as error:
            debugger.warn(f"process {pid} is not recorded: {error}")

    def _finish(self):
        """Called when the program ended or gdb detached from it: keeps the log and prints one line about it."""
        pid = session().recording.pid
        try:
            summary = self.end()
        except Failure as error:
            debugger.warn(f"the recording of process {pid} is incomplete: {error}")
            return
        debugger.say(f"recorded {summary}; {where(session().log)}")
        for line in self.never_held:
            debugger.say(line)


def where(log):
    """The path of a log, and how long it is kept."""
    if log.saved_as:
        return f"saved as {log.saved_as}"
    return f"in {log.path} until the next run or the end of gdb: `gpumem record save FILE` saves it"


def alive(pid):
    return os.path.exists(f"/proc/{pid}")


def identity(pid):
    """The kernel's random bytes (AT_RANDOM), which change when a process calls exec."""
    try:
        with open(f"/proc/{pid}/auxv", "rb") as file:
            vector = file.read()
        for at in range(0, len(vector) - 15, 16):
            if int.from_bytes(vector[at : at + 8], "little") == 25:  # AT_RANDOM, <elf.h>
                with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                    memory.seek(int.from_bytes(vector[at + 8 : at + 16], "little"))
                    return pid, memory.read(16)
    except OSError:
        pass
    return pid, None


def command_line(pid):
    """The program and its arguments, as typed."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")[:-1]
    except OSError:
        words = []
    return os.fsdecode(b" ".join(words)) or f"process {pid}"


waiting = Waiting()
