"""load_snapshot.py FILE: how much processor time pickle.load takes for it, and how much memory."""

import pickle
import resource
import sys


def seconds():
    now = resource.getrusage(resource.RUSAGE_SELF)
    return now.ru_utime + now.ru_stime


def megabytes():
    """The most that was resident of this program. ru_maxrss would count what the process had before its exec() too."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))


with open(sys.argv[1], "rb") as file:
    seconds_before, megabytes_before = seconds(), megabytes()
    loaded = pickle.load(file)
    print(f"load: {seconds() - seconds_before:.4f} s")
    print(f"memory: {megabytes() - megabytes_before:.1f} MB")
