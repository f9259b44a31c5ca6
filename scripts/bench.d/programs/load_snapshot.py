"""load_snapshot.py FILE: how long pickle.load takes for it."""

import pickle
import sys
import time

with open(sys.argv[1], "rb") as file:
    start = time.perf_counter()
    pickle.load(file)
print(f"load: {time.perf_counter() - start:.4f} s")
