"""One block's who-holds on the reference process (programs/reference.py: 1 GB of memory that was written to, a million
objects, 2,000 tensors), alive and in a core dump: the whole command beside one read of the same bytes, a MiB at a time
by as many threads, that looks at none of them. Beside it what others answer about the same core or in the process; what
is not installed says so. GPUMEM_BENCH_TIMES=3 makes the process three times as large."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_memory

TITLE = "who-holds on a process of 1 GB, a million objects, 2,000 tensors: the whole command"
UNIT = "s"
TIMES = os.environ.get("GPUMEM_BENCH_TIMES", "1")


def target(bench):
    return bench.target("reference", *([TIMES] if TIMES != "1" else []))


def core(bench):
    """A core dump of it, written once."""
    if not hasattr(bench, "reference_core"):
        pid, _ = target(bench)
        bench.reference_folder = tempfile.TemporaryDirectory(prefix="gpumem-bench-")
        path = Path(bench.reference_folder.name) / "core"
        out = bench.run([bench.gpumem, "core", pid, "-o", path])
        if not path.exists():
            raise bench.Failed(f"no core was written: …{' '.join(out.split())[-200:]}")
        bench.reference_core = path
    return bench.reference_core


def ask(bench, *where):
    _, address = target(bench)
    start = time.monotonic()
    out = bench.run([bench.gpumem, "who-holds", "--json", *where, address])
    seconds = time.monotonic() - start
    if "kept" not in out:
        raise bench.Failed(" ".join(out.split())[-200:])
    bench.scanned = json.loads(out[out.index("{") : out.rindex("}") + 1])["scan"]["bytes"]
    return seconds


def ours_live(bench):
    return ask(bench, "--pid", target(bench)[0])


def ours_core(bench):
    return ask(bench, "--core", core(bench))


def streaming_live(bench):
    return bench_memory.read_process(target(bench)[0])[1]


def streaming_core(bench):
    path = core(bench)
    return bench_memory.read_file(path, min(path.stat().st_size, getattr(bench, "scanned", 1 << 62)))


# --- others ---------------------------------------------------------------------------------------------------------


def rival(package, command):
    """A tool of PyPI in a throw-away environment beside the set-up's: made at first use, said where it cannot be had."""

    def measured(bench):
        folder = Path(tempfile.gettempdir()) / f"gpumem-bench-{os.getuid()}-{package}"
        program = folder / "bin" / "python"
        if not program.exists():
            made = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True)
            made = made if made.returncode else subprocess.run(
                [folder / "bin" / "pip", "install", "-q", package], capture_output=True, text=True, timeout=300
            )  # fmt: skip
            if made.returncode:
                raise bench.Failed(f"{package} cannot be installed: {made.stderr.strip().splitlines()[-1:]}")
        start = time.monotonic()
        out = bench.run(command(bench, folder / "bin"), timeout=120)
        seconds = time.monotonic() - start
        if "Traceback (most recent call last)" in out or "error:" in out.lower():
            raise bench.Failed(f"{package}: {' '.join(out.split())[-160:]}")
        return seconds

    return measured


def pystack(bench, bin_folder):
    return [bin_folder / "pystack", "core", core(bench), bench.python, "--locals"]


def drgn(bench, bin_folder):
    return [bin_folder / "python", bench.programs / "drgn_search.py", core(bench), target(bench)[1]]


def gdb_find(bench):
    """gdb's own search for the block's address in all that the core has of memory that the program could write to: the
    whole command, as ours. gdb reads symbols of the libraries otherwise, which is no part of a search."""
    _, address = target(bench)
    with open(core(bench), "rb") as file:
        header = file.read(64)
        offset, count = struct.unpack_from("<Q", header, 32)[0], struct.unpack_from("<H", header, 56)[0]
        file.seek(offset)
        table = file.read(56 * count)
    lines = ["set auto-solib-add off", f"core-file {core(bench)}"]
    for i in range(count):
        kind, flags, _, start, _, saved, _ = struct.unpack_from("<IIQQQQQ", table, 56 * i)
        if kind == 1 and flags & 2 and saved >= 8:  # PT_LOAD, writable
            lines.append(f"find /g {start:#x}, {start + saved - 8:#x}, {address}")
    script = core(bench).with_suffix(".gdb")
    script.write_text("\n".join(lines) + "\n")
    start = time.monotonic()
    out = bench.run(["gdb", "-nx", "-batch", "-x", script])
    seconds = time.monotonic() - start
    if "patterns found" not in out and "pattern found" not in out:
        raise bench.Failed(" ".join(out.split())[-200:])
    return seconds


def in_process(question):
    def measured(bench):
        if not hasattr(bench, "asked"):
            out = bench.run([bench.python, bench.programs / "in_process.py", TIMES], env=bench.sim, timeout=600)
            bench.asked = out
        return bench.figure(bench.asked, question)

    return measured


CONTENDERS = {
    "gpumem who-holds --pid": ours_live,
    "one read of the same pages, same threads": streaming_live,
    "gpumem who-holds --core": ours_core,
    "one read of the same bytes of the core, same threads": streaming_core,
    "pystack core --locals (names locals only)": rival("pystack", pystack),
    "drgn search_memory_word on the core (addresses only)": rival("drgn", drgn),
    "gdb find on the core (addresses only)": gdb_find,
    "in the process: gc.get_referrers, two hops": in_process("two hops"),
    "in the process: torch's cycles.create_graph": in_process("create_graph"),
}
COMPARE = [
    ("gpumem who-holds --pid", "one read of the same pages, same threads", "times one read (the goal: at most 2.5)"),
    ("gpumem who-holds --core", "one read of the same bytes of the core, same threads", "times one read (the goal: at most 3)"),
]
