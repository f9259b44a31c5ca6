"""Runs an example with PyTorch's own recorder on, and writes what PyTorch says of it.

with_snapshot.py EXAMPLE OUT.json [ARGUMENTS]; then raises SIGUSR1, at which gdb stops.
"""

import json
import os
import runpy
import signal
import sys

import torch

example, out = sys.argv[1:3]
sys.argv = [example, *sys.argv[3:]]
torch.cuda.memory._record_memory_history(context=None)
names = runpy.run_path(example, run_name="__main__")  # kept: its tensors stay alive
snapshot = torch.cuda.memory._snapshot()
keys = ("action", "addr", "size", "stream")
trace = [{key: entry[key] for key in keys if key in entry} for entry in snapshot["device_traces"][0]]
segments = [{key: segment[key] for key in ("address", "total_size")} for segment in snapshot["segments"]]
with open(out, "w") as file:
    json.dump({"trace": trace, "segments": segments, "stats": torch.cuda.memory_stats()}, file)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGUSR1)
