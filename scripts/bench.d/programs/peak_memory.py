"""peak_memory.py PROG ARGS: the most that was resident of a program, in MB.

A program's ru_maxrss counts what its process had before exec(), which is the parent's memory. This parent is small, and
what a program has is more."""

import resource
import subprocess
import sys

finished = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
if finished.returncode == 0:
    with open("/proc/self/status") as status:
        own = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert peak > own, "the program had less than this one: its own figure is not known"
    print(f"peak: {peak / 1024:.1f} MB")
