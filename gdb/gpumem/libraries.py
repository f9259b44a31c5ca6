"""Decides which libraries' symbols gdb reads.

Reading the symbols of torch's and NVIDIA's libraries takes gdb seconds and a gigabyte, and gpumem does
not need them. So gdb loads no symbols automatically while gpumem records (`set auto-solib-add off`), and
this module makes it load those of all other libraries: the user's own, Python's, the system's.
`sharedlibrary REGEX` loads the symbols of the rest, and so does a pending breakpoint (awaited.py).
"""

import os
import re

import gdb

from . import debugger

HEAVY = re.compile(
    r"/torch/lib/|/torchvision/|/torchaudio/|/nvidia/|/triton/|/libtorch[^/]*$|/libc10[^/]*$"
    r"|/lib(cuda|cudart|cublas|cublasLt|cudnn|cufft|curand|cusolver|cusparse|nccl|nvrtc|nvidia|nvJitLink|cupti)[^/]*$"
    r"|/libgpumem-sim[^/]*$"
)

_ours = False  # we switched auto-solib-add off
_seen = {}  # pid -> names that were loaded already
after_loading = []  # called with a process and its new large libraries; with 0 when gdb loads automatically again


def quiet_loading():
    """Makes gdb load only the symbols that load_new() asks for."""
    global _ours
    if gdb.parameter("auto-solib-add"):
        gdb.execute("set auto-solib-add off", to_string=True)
        _ours = True


def restore_loading():
    global _ours
    if _ours:
        gdb.execute("set auto-solib-add on", to_string=True)
        _ours = False
        notify(0, [])


def notify(pid, heavy):
    for function in after_loading:
        function(pid, heavy)


def heavy_ones(pid):
    """The libraries of a process that gdb was not asked to load."""
    return sorted(filter(HEAVY.search, _seen.get(pid, ()))) if _ours else []


def forget(pid):
    _seen.pop(pid, None)


def load_new(pid):
    """Makes gdb read the symbols of libraries loaded since the last call, except the large ones."""
    if not _ours or not pid:
        return
    seen = _seen.setdefault(pid, set())
    paths, heavy = [], []
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                path = line[73:].rstrip("\n")
                if ".so" not in path or path in seen:
                    continue
                seen.add(path)
                (heavy if HEAVY.search(path) else paths).append(path)
    except OSError:
        return
    read(paths)
    notify(pid, heavy)


def read(paths):
    # gdb knows a library by the name that was loaded (libz.so.1), the kernel by the link's target (libz.so.1.2.13): they share
    # the file name up to the version
    names = OR.join(pattern(os.path.basename(path)) for path in paths)
    if names:
        try:
            gdb.execute(f"sharedlibrary /\\({names}\\)$", to_string=True)
        except gdb.error:
            pass


OR = r"\|"  # gdb matches with GNU's POSIX basic syntax


def pattern(name):
    """A pattern for a library's name, with any version suffix."""
    stem, so, _ = name.partition(".so")
    return plain(stem + so) + ("[^/]*" if so else "")


def plain(name):
    """A pattern for a name. The program chose the name, so each character with a meaning in gdb's patterns becomes a wildcard."""
    return re.sub(r"[^A-Za-z0-9_+-]", ".", name)


def _stopped(_event):
    load_new(debugger.process_id())


def _exited(event):
    inferior = getattr(event, "inferior", None)
    if inferior:
        forget(inferior.pid)


def install():
    gdb.events.stop.connect(_stopped)
    gdb.events.exited.connect(_exited)
