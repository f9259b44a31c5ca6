"""Which libraries' symbols gdb reads.

torch's and NVIDIA's libraries cost gdb seconds and a gigabyte, and gpumem reads what it needs of them
itself. So while it records, gdb loads no library's symbols by itself (`set auto-solib-add off`), and
this module has it load all others: the user's own, Python's, the system's. `sharedlibrary REGEX` still
loads any of the rest, and so does a breakpoint that waits for a function in one of them (awaited.py).
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

_ours = False  # auto-solib-add was switched off by us
_seen = {}  # pid -> names asked for already
after_loading = []  # called with a process and the heavy libraries that came; with 0 where gdb loads by itself again


def quiet_loading():
    """From now on gdb loads only what load_new() asks for."""
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
    """Has gdb read the symbols of libraries that came since, the heavy ones left out."""
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
    # gdb knows libraries by the name they were asked for (libz.so.1), the kernel by where links lead
    # (libz.so.1.2.13): the last part up to the version is what both share
    names = OR.join(pattern(os.path.basename(path)) for path in paths)
    if names:
        try:
            gdb.execute(f"sharedlibrary /\\({names}\\)$", to_string=True)
        except gdb.error:
            pass


OR = r"\|"  # gdb matches with GNU's POSIX basic syntax


def pattern(name):
    """Of a library's name, with any version behind it."""
    stem, so, _ = name.partition(".so")
    return plain(stem + so) + ("[^/]*" if so else "")


def plain(name):
    """A pattern of a name. The program chose the name: what gdb's patterns could take for syntax is any character."""
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
