"""load_snapshot.py FILE: how much processor time pickle.load takes for it, and how much memory."""

import pickle
import resource
import sys


def used():
    now = resource.getrusage(resource.RUSAGE_SELF)
    return now.ru_utime + now.ru_stime, now.ru_maxrss / 1024


with open(sys.argv[1], "rb") as file:
    seconds, megabytes = used()
    loaded = pickle.load(file)
    print(f"load: {used()[0] - seconds:.4f} s")
    print(f"memory: {used()[1] - megabytes:.1f} MB")
