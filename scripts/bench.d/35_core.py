"""The same process, dumped by our writer and by gcore: seconds, and by how much the process grew (its resident memory,
which is what another allocation of its own then has to do without). A process for each, as gcore leaves it grown."""

import os
import re
import shutil
import tempfile
import time

TITLE = "a core dump of the reference process"
UNIT = "s"


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024


def dump(bench, name, command):
    pid, _ = bench.target("reference", name=f"for {name}")
    folder = tempfile.mkdtemp(prefix="gpumem-bench-")
    before = resident(pid)
    start = time.monotonic()
    try:
        bench.run([*command(pid, folder)])
        seconds = time.monotonic() - start
        size = sum(entry.stat().st_blocks * 512 for entry in os.scandir(folder)) / 2**20
    finally:
        shutil.rmtree(folder)
    grown = resident(pid) - before
    print(f"     {name}: {size:,.0f} MiB on the disk; the process grew by {grown:,.1f} MiB from {before:,.0f}", flush=True)
    return seconds


def ours(bench):
    return dump(bench, "gpumem core", lambda pid, folder: [bench.gpumem, "core", pid, "-o", f"{folder}/core"])


def compressed(bench):
    return dump(
        bench, "gpumem core", lambda pid, folder: [bench.gpumem, "core", pid, "-o", f"{folder}/core.zst", "--compress"]
    )


def gcore(bench):
    return dump(bench, "gcore", lambda pid, folder: ["gcore", "-o", f"{folder}/core", pid])


CONTENDERS = {"gpumem core": ours, "gpumem core --compress": compressed, "gcore": gcore}
COMPARE = [
    ("gpumem core", "gcore", "of its time"),
    ("gpumem core --compress", "gcore", "of its time"),
]
