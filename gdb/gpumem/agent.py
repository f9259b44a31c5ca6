"""Recording by the agent instead of breakpoints: a library in the program writes each event into a file, and the questions
read that file while it grows.

A program that gdb starts gets the agent by LD_PRELOAD. Into a running program this module loads it, by calling functions in
the stopped process (calls.py), and passes it the blocks that PyTorch had allocated before.
"""

import os
import re
import tempfile

import gdb

from . import debugger
from .calls import Calls
from .library import Failure, Walk, agent_library, as_json
from .session import Log, session

BUFFER_BYTES = 16384  # for a path, and for the settings
PRELOAD, SETTINGS = "LD_PRELOAD", "GPUMEM_AGENT"


class AgentLog(Log):
    """The agent's file of one process, in its own folder, which also gets the files of forked processes."""

    def __init__(self, pid, folder):
        self.folder = folder
        session().folders.add(folder)
        self.path = os.path.join(folder, f"{pid}.gpumem")
        number = 1
        while os.path.exists(self.path):  # the program before an exec had the same process id
            number += 1
            self.path = os.path.join(folder, f"{pid}.gpumem.{number}")
        self.saved_as = None

    @property
    def is_there(self):
        return os.path.exists(self.path)


def new_folder():
    return tempfile.mkdtemp(prefix="gpumem-agent-")


def settings_text(path, devices, on_oom, more=""):
    if set(path) & set(";%\n"):
        raise Failure(f"record --engine agent: {path}: TMPDIR contains ';' or '%': use another folder", 2)
    return f"out={path};devices={devices};stacks=python,native;on_oom={on_oom}{more}"


# --- a program that gdb will start ----------------------------------------------------------------------


class Preload:
    """The agent in the environment of the programs that gdb starts."""

    def __init__(self, devices, on_oom):
        self.folder = new_folder()
        session().folders.add(self.folder)
        self.before = {name: variable(name) for name in (PRELOAD, SETTINGS)}
        agent = agent_library()
        others = self.before[PRELOAD]
        if set(agent) & set(" :"):
            raise Failure(f"record --engine agent: {agent}: the loader cannot load from a path with a space or a colon: install gpumem elsewhere", 4)
        template = os.path.join(self.folder, "%p.gpumem")
        text = settings_text(self.folder, devices, on_oom).replace(self.folder, template, 1)
        set_variable(PRELOAD, f"{agent}:{others}" if others else agent)
        set_variable(SETTINGS, text)

    def is_in(self, pid):
        """Whether the process was started with the agent."""
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return os.fsencode(f"out={self.folder}/") in file.read()
        except OSError:
            return False

    def undo(self):
        for name, value in self.before.items():
            set_variable(name, value)


def variable(name):
    # with `set trace-commands on` the output begins with the command
    shown = gdb.execute(f"show environment {name}", to_string=True).rstrip("\n").rpartition("\n")[2]
    return shown.partition(" = ")[2] if shown.startswith(f"{name} = ") else None


def set_variable(name, value):
    gdb.execute(f"unset environment {name}" if value is None else f"set environment {name} {value}", to_string=True)


def handling():
    """What gdb does about SIGSTOP, as words of `handle`."""
    shown = gdb.execute("info signals SIGSTOP", to_string=True)
    found = re.search(r"^SIGSTOP\s+(\w+)\s+(\w+)\s+(\w+)", shown, re.M)
    words = zip(("stop", "print", "pass"), found.groups() if found else ("Yes",) * 3)
    return " ".join(word if said == "Yes" else f"no{word}" for word, said in words)


# --- a process that is there -------------------------------------------------------------------------------


def load(pid, log, devices, on_oom):
    """Loads the agent into the stopped process and starts its recording."""
    library = session().library
    library.set_process(pid)
    if os.path.realpath(f"/proc/{pid}/root") != "/":
        raise Failure(f"record --engine agent: process {pid} has a file system of its own (a container): use `gpumem attach {pid}` in a shell", 4)
    owner = os.stat(f"/proc/{pid}")
    if owner.st_uid != os.geteuid():
        os.chown(log.folder, owner.st_uid, owner.st_gid, follow_symlinks=False)
    calls = Calls(library, pid)
    buffer = calls.memory(BUFFER_BYTES)
    if not library.agent_function("gpumem_agent_start"):
        calls.load(agent_library(), buffer)
    more, table, size = "", 0, 0
    if "cuda" in devices.split(",") and library.agent_existing():
        more = ";existing=0"
        if calls.others_stand:
            more = ";existing=1"
            # the blocks allocated so far; no thread runs until the agent has started
            size = library.agent_existing() + 65536
            table = calls.memory(size)
            library.agent_existing(table, size)
    text = settings_text(log.path, devices, on_oom, more)
    gdb.selected_inferior().write_memory(buffer, os.fsencode(text) + b"\0")
    result = calls.call("gpumem_agent_start", buffer, result="int")
    if table:
        calls.give_back(table, size)
    calls.give_back(buffer, BUFFER_BYTES)
    if result == 1:
        raise Failure(f"process {pid}: it is being recorded already: `gpumem detach {pid}` in a shell ends that recording", 4)
    if result != 0:
        raise Failure(
            f"process {pid}: the agent is loaded but cannot record to {log.path}: the program's stderr shows the reason", 4
        )


def stop_in(pid):
    """Ends the recording in a process that is stopped here. In all other cases the file is already complete."""
    thread = gdb.selected_thread()
    if debugger.process_id() != pid or not thread or thread.is_running():
        return
    library = session().library
    library.set_process(pid)
    if library.agent_function("gpumem_agent_stop"):
        Calls(library, pid).call("gpumem_agent_stop", result="int")


# --- recordings --------------------------------------------------------------------------------------------


class Reader:
    """The recorder's interface that the commands use."""

    def __init__(self, recording):
        self.recording = recording
        self.log = recording.log
        self.walk = Walk(self.log.path)

    def watch(self, number, condition, once):
        self.walk.watch(number, condition, once)
        self.recording.arm()

    def unwatch(self, number):
        self.walk.unwatch(number)
        self.recording.arm()

    def watch_hits(self, number):
        return self.walk.watch_hits(number)

    def stopped_by(self):
        return self.walk.stopped_by()

    def flush(self):
        pass  # the agent's file can be read at once

    def _info(self):
        session().library.invalidate()
        return as_json("info", *session().library.run(["info", self.log.path, "--json"]))

    def counts(self):
        """The number of events, and the step of the last one."""
        if not self.log.is_there:
            return 0, 0
        answer = self._info()
        return answer["events"], answer["steps"]

    def event_count(self):
        return self.counts()[0]

    def step(self):
        return self.counts()[1]

    def summary(self):
        if not self.log.is_there:
            return "0 events: nothing was allocated through PyTorch"
        devices = self._info()["devices"]
        events = sum(device["events"] for device in devices)
        peak = max((device["peak_allocated"] or 0 for device in devices), default=0)
        return f"{events:,} events, peak {peak:,} bytes allocated"


class AtEvent(gdb.Breakpoint):
    """A breakpoint on the function that the agent calls at events: at every event while `gpumem next-event` waits for one, otherwise
    only where a condition may hold."""

    def __init__(self, recording, address):
        super().__init__(f"*{address}", gdb.BP_BREAKPOINT, internal=True)
        self.silent = True
        self.recording = recording

    def stop(self):
        try:
            pid, thread, _ = gdb.selected_thread().ptid
            return pid == self.recording.pid and self.recording.stops_at(thread)
        except KeyboardInterrupt:
            debugger.pass_interrupt(self.recording.pid)
            return False
        except Exception as error:  # gdb would print a traceback and stop the program
            debugger.warn(f"recording: {error}")
            return True


class AtEntry(gdb.Breakpoint):
    """A breakpoint on the program's entry point, where its dynamic linker has loaded the agent."""

    def __init__(self, recording, address):
        super().__init__(f"*{address}", gdb.BP_BREAKPOINT, internal=True)
        self.silent = True
        self.recording = recording
        self.passed = False

    def stop(self):
        self.passed = True
        try:
            if debugger.process_id() == self.recording.pid:
                self.recording.arm_standing()
        except Exception as error:
            debugger.warn(f"recording: {error}")
        return False


def entry(pid):
    """The address of a process's entry point, after its dynamic linker; 0: not known."""
    try:
        with open(f"/proc/{pid}/auxv", "rb") as file:
            vector = file.read()
    except OSError:
        return 0
    for at in range(0, len(vector) - 15, 16):
        if int.from_bytes(vector[at : at + 8], "little") == 9:  # AT_ENTRY, <elf.h>
            return int.from_bytes(vector[at + 8 : at + 16], "little")
    return 0


ADDRESSES = ("stops", "stop_filter", "stop_never_python", "stop_never_native", "stop_never_tensor")


class AgentRecording:
    """One process that the agent records. It has the interface of recording.Recording."""

    by_agent = True
    stopped = at_event = False
    events = step = 0  # the target of `gpumem next-event` or `until`
    site = at_entry = None
    print_account = None
    catchpoint = None
    handling = None  # the user's setting of SIGSTOP, while ours is another
    on_refusal = on_other_process = on_oom = None

    def __init__(self, pid, log):
        self.pid = pid
        self.log = log
        self.recorder = Reader(self)
        gdb.events.stop.connect(self._stands)

    def _stands(self, event):
        self.at_event = any(isinstance(one, AtEvent) for one in getattr(event, "breakpoints", ()))

    # --- `gpumem next-event`, `until` and `watch` ---

    def stops_at(self, thread):
        """Called at an event. Returns whether gdb shows the stop."""
        met = bool(self.events or self.step) and self.is_met()
        holds = self.recorder.walk.stop(thread)
        self.stopped = met or holds
        return self.stopped

    def is_met(self):
        events, step = self.recorder.counts()
        self.stopped = bool((self.events and events >= self.events) or (self.step and step >= self.step))
        return self.stopped

    def aim(self, events, step):
        """Stops after so many events, or at that step, whichever is not 0."""
        self.events, self.step, self.stopped = events, step, False

    def arm(self):
        """Sets the events at which the agent calls from now on. If the program has not begun, this is done when it begins."""
        thread = gdb.selected_thread()
        if debugger.process_id() == self.pid and thread and not thread.is_running():
            self.arm_standing()

    def arm_standing(self):
        """The same when all threads are stopped: within a breakpoint's stop() gdb reports them as running."""
        library = session().library
        library.set_process(self.pid)
        at = library.agent_function("gpumem_agent_at_event")
        addresses = [library.agent_function(f"gpumem_agent_{name}") for name in ADDRESSES]
        if not at or not all(addresses):
            self.arm_later(at)
            return
        active = self.recorder.walk.arm(self.pid, addresses, bool(self.events or self.step))
        if active and self.site is None:
            self.site = AtEvent(self, at)
        elif not active:
            self.remove_site()

    def arm_later(self, at):
        if self.at_entry is not None and not self.at_entry.passed:
            return
        address = entry(self.pid)
        if at or self.at_entry is not None or not address:
            raise Failure(f"process {self.pid}: its agent belongs to another gpumem: record it again, or use breakpoints", 4)
        self.at_entry = AtEntry(self, address)

    def remove_site(self):
        site, self.site = self.site, None
        if site is not None and site.is_valid():
            site.delete()

    def go_on(self):
        """Continues until that event; `stopped` tells whether the program reached it."""
        try:
            self.arm()
            gdb.execute("continue")
        finally:
            self.aim_no_more()

    def aim_no_more(self):
        self.events = self.step = 0
        self.arm()

    # --- out of memory ---

    def stop_at_oom(self, print_account):
        """The agent stops the process (SIGSTOP) when a device has run out of memory; `print_account` then prints the verdict."""
        self.handling = handling()
        gdb.execute("handle SIGSTOP stop print nopass", to_string=True)
        self.print_account = print_account
        gdb.events.stop.connect(self._stopped)

    def core_at_oom(self, write):
        """The agent stops the process as above; `write` writes the core, and the process continues."""
        self.handling = handling()
        gdb.execute("handle SIGSTOP nostop noprint nopass", to_string=True)
        made = gdb.execute("catch signal SIGSTOP", to_string=True)
        self.catchpoint = int(re.search(r"Catchpoint ([0-9]+)", made)[1])
        AgentRecording.at_oom = staticmethod(write)
        # by the commands of a catchpoint, because gdb runs them before its next command
        call = "python import gpumem.agent; gpumem.agent.AgentRecording.at_oom()"
        gdb.execute(f"commands {self.catchpoint}\nsilent\n{call}\ncontinue\nend", to_string=True)

    def _stopped(self, event):
        if getattr(event, "stop_signal", "") == "SIGSTOP" and debugger.process_id() == self.pid:
            self.print_account()

    def close(self):
        gdb.events.stop.disconnect(self._stands)
        if self.print_account:
            gdb.events.stop.disconnect(self._stopped)
        if self.catchpoint:
            gdb.execute(f"delete {self.catchpoint}", to_string=True)
        if self.handling:
            gdb.execute(f"handle SIGSTOP {self.handling}", to_string=True)
        self.remove_site()
        if self.at_entry is not None and self.at_entry.is_valid():
            self.at_entry.delete()
        stop_in(self.pid)
        summary = self.recorder.summary()
        self.recorder.walk.close()
        self.log.refresh_saved()
        return summary
