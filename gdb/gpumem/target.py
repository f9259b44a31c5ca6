"""gdb's target: a process on this machine, one behind gdbserver, or a core dump.

The core itself reads the memory of a local process. Access to a remote process goes through gdb: this module passes
callbacks, mappings and threads to the core. For a core dump it passes the file name.
"""

import bisect
import ctypes
import os
import re
import shutil
import tempfile

import gdb

from . import debugger
from .libraries import plain
from .library import FileCallback, ReadCallback, RegistersCallback, encode

REGISTERS = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()  # DWARF's order
CORE = re.compile(r"^Local core dump file:\s*\n\s*[`'‘](.*)['’], file type", re.M)


def core_path():
    """The core dump that gdb has open, or None."""
    found = CORE.search(gdb.execute("info target", False, True))
    return os.path.abspath(found.group(1)) if found else None


def quoted(name):
    """A file name, quoted for gdb's command line. The other side chose the name, so blanks and quotes are escaped. A newline cannot be."""
    if set(name) & set("\n\r\0"):
        raise gdb.error("no such name can be asked for")
    return re.sub(r"([^A-Za-z0-9_./+-])", r"\\\1", name)


class Remote:
    """The core's interface to a process behind gdbserver. It is valid until the process continues."""

    def __init__(self):
        self.folder = None
        self.files = {}
        self.interrupted = False
        self.pid = 0
        self.maps = ""
        self.threads = []
        self.untouched = ([], [])
        # ctypes keeps no reference to them
        self.read = ReadCallback(self._read)
        self.registers = RegistersCallback(self._registers)
        self.file = FileCallback(self._file)

    def look(self):
        """Reads the mappings and threads from the other side. False: it provides too little."""
        inferior = gdb.selected_inferior()
        self.pid = inferior.pid
        self.threads = [thread.ptid[1] or thread.ptid[2] for thread in inferior.threads()]
        self.maps = self._mappings()
        self.untouched = self._untouched()
        self.files = {name: path for name, path in self.files.items() if path}

    def close(self):
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    # --- called by the core ---

    def _read(self, _context, address, buffer, size):
        # Ctrl-C cannot be raised through the core; without more bytes the core returns soon
        if self.interrupted:
            return 0
        starts, ends = self.untouched
        index = bisect.bisect_right(starts, address) - 1
        if index >= 0 and address + size <= ends[index]:
            ctypes.memset(buffer, 0, size)
            return size
        try:
            data = gdb.selected_inferior().read_memory(address, size)
            ctypes.memmove(buffer, data.tobytes(), size)
            return size
        except KeyboardInterrupt:
            self.interrupted = True
        except (gdb.error, RuntimeError, OverflowError):
            pass
        return 0

    def _registers(self, _context, number, words):
        selected = gdb.selected_thread()
        frame = gdb.selected_frame() if selected else None
        try:
            for thread in gdb.selected_inferior().threads():
                if number in (thread.ptid[1] or thread.ptid[2],):
                    thread.switch()
                    top = gdb.newest_frame()
                    for index, name in enumerate(REGISTERS):
                        words[index] = int(top.read_register(name)) & 0xFFFFFFFFFFFFFFFF
                    return 1
        except (gdb.error, RuntimeError):
            pass
        finally:
            if selected and selected.is_valid():
                selected.switch()
                if frame and frame.is_valid():
                    frame.select()
        return 0

    def _file(self, _context, name, path, size):
        found = self._copy(os.fsdecode(name))
        if not found or len(encode(found)) >= size:
            return 0
        ctypes.memmove(path, encode(found) + b"\0", len(encode(found)) + 1)
        return 1

    # --- files of the other side ---

    def _copy(self, name):
        """A local copy of a file from the other side, or None."""
        if name not in self.files:
            self.files[name] = self._in_sysroot(name) or self._fetch(name)
        return self.files[name]

    @staticmethod
    def _in_sysroot(name):
        sysroot = gdb.parameter("sysroot") or ""
        if not sysroot or sysroot.startswith(("target:", "remote:")):
            return None
        path = os.path.join(sysroot, name.lstrip("/"))
        return path if os.path.isfile(path) else None

    def _fetch(self, name):
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="gpumem-files-")
        path = os.path.join(self.folder, f"{len(self.files)}-{plain(os.path.basename(name))[-100:]}")
        try:
            gdb.execute(f"remote get {quoted(name)} {quoted(path)}", False, True)
        except gdb.error:
            return None
        return path if os.path.isfile(path) else None

    def _mappings(self):
        """The text of /proc/PID/maps on the other side."""
        path = self._fetch(f"/proc/{self.pid}/maps")
        if path:
            with open(path, errors="surrogateescape") as text:
                found = text.read()
            os.unlink(path)
            if found:
                return found
        return self._asked_mappings()

    def _untouched(self):
        """Starts and ends of anonymous mappings without a touched page. They read as zero and need no transfer over the
        connection."""
        path = self._fetch(f"/proc/{self.pid}/smaps")
        starts, ends = [], []
        if not path:
            return starts, ends
        current = None
        with open(path, errors="surrogateescape") as text:
            for line in text:
                words = line.split()
                if len(words) >= 5 and not words[0].endswith(":"):
                    anonymous = len(words) == 5 and words[1].startswith("rw-p")
                    current = words[0] if anonymous else None
                elif current and words[:1] == ["Rss:"] and words[1] != "0":
                    current = None
                elif current and words[:1] == ["Swap:"]:
                    if words[1] == "0":
                        start, end = (int(edge, 16) for edge in current.split("-"))
                        starts.append(start)
                        ends.append(end)
                    current = None
        os.unlink(path)
        return starts, ends

    @staticmethod
    def _asked_mappings():
        """The output of `info proc mappings` in the format of /proc/PID/maps. gdb before 12 shows no permissions: then
        anonymous mappings count as readable and writable, file mappings as executable."""
        try:
            table = gdb.execute("info proc mappings", False, True)
        except gdb.error:
            return ""
        lines = []
        row = re.compile(r"\s*0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+)(?:\s+([r-][w-][x-][ps]))?\s*(\S.*)?$")
        for line in table.splitlines():
            found = row.match(line)
            if not found:
                continue
            start, end, offset, permissions, name = found.groups()
            name = name or ""
            if permissions is None:
                permissions = "r-xp" if name.startswith("/") and int(offset, 16) == 0 else "rw-p"
            inode = abs(hash(name)) % (1 << 31) if name.startswith("/") else 0
            lines.append(f"{start}-{end} {permissions} {int(offset, 16):08x} 00:00 {inode} {name}\n")
        return "".join(lines)


class Watch:
    """Sets gdb's target in the library. A remote process is read again only after it ran."""

    def __init__(self):
        self.remote = None
        self.fresh = False
        for name in ("cont", "exited", "new_inferior", "inferior_deleted"):
            event = getattr(gdb.events, name, None)
            if event is not None:
                event.connect(self._changed)
        memory = getattr(gdb.events, "memory_changed", None)
        if memory is not None:
            memory.connect(self._changed)

    def _changed(self, _event):
        self.fresh = False

    def inform(self, library):
        kind = debugger.connection()
        inferior = gdb.selected_inferior()
        library.set_process(inferior.pid if kind == "native" else 0)
        library.set_core(core_path() if kind == "core" else None)
        if kind != "remote" or not inferior.pid:
            self.forget(library)
            return
        if self.remote is None:
            self.remote = Remote()
        self.remote.interrupted = False
        if not self.fresh or self.remote.pid != inferior.pid:
            self.remote.look()
            library.set_remote(self.remote)
            self.fresh = True

    def after(self):
        if self.remote is not None and self.remote.interrupted:
            self.fresh = False
            raise KeyboardInterrupt

    def forget(self, library):
        if self.remote is not None:
            library.set_remote(None)
            self.remote.close()
            self.remote = None
            self.fresh = False
