"""How the modules of this folder ask gpumem: its command, as a process. For the plugin for pytest and for notebooks."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def program():
    """The path of `gpumem`: that of this installation; None: there is none."""
    for folder in list(HERE.parents)[:5]:
        path = folder / "bin" / "gpumem"
        if os.access(path, os.X_OK):
            return str(path)
    return shutil.which("gpumem")


def run(words, timeout=None):
    """(exit status, stdout, stderr) of a question. It is ended where this is interrupted."""
    done = subprocess.run(
        [program(), *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        check=False,
        start_new_session=True,
    )
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


@contextlib.contextmanager
def readable_by_children():
    """Where only a process's parents may read it (Yama's ptrace_scope 1), gpumem may for this block."""
    PR_SET_PTRACER, ANY = 0x59616D61, 2**64 - 1
    try:
        scope = Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip()
    except OSError:
        scope = "0"
    if scope != "1":
        yield
        return
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_PTRACER, ctypes.c_ulong(ANY), 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_PTRACER, ctypes.c_ulong(0), 0, 0, 0)


UNITS = ["B", "KiB", "MiB", "GiB", "TiB"]


def size_text(size):
    number, unit = float(size), 0
    while number >= 1024 and unit + 1 < len(UNITS):
        number, unit = number / 1024, unit + 1
    return f"{size} B" if unit == 0 else f"{number:.2f} {UNITS[unit]}"
