"""Which libraries' symbols gdb reads.

torch's and NVIDIA's libraries cost gdb seconds and a gigabyte, and gpumem reads what it needs of them
itself. So while it records, gdb loads no library's symbols by itself (`set auto-solib-add off`), and
this module has it load all others: the user's own, Python's, the system's. `sharedlibrary REGEX` still
loads any of the rest.
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


def forget(pid):
    _seen.pop(pid, None)


def load_new(pid):
    """Has gdb read the symbols of libraries that came since, the heavy ones left out."""
    if not _ours or not pid:
        return
    seen = _seen.setdefault(pid, set())
    names = []
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                path = line[73:].rstrip("\n")
                if ".so" not in path or path in seen:
                    continue
                seen.add(path)
                if not HEAVY.search(path):
                    names.append(pattern(os.path.basename(path)))
    except OSError:
        return
    if names:
        # gdb knows libraries by the name they were asked for (libz.so.1), the kernel by where links lead
        # (libz.so.1.2.13): the last part up to the version is what both share
        try:
            gdb.execute(f"sharedlibrary /\\({OR.join(names)}\\)$", to_string=True)
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
