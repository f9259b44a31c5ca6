"""Runs programs one after another in one process, each as if it were alone, and prints the peak of each, as PyTorch counts it.

    peaks.py 'PROGRAM ARGS' ...
"""

import contextlib
import gc
import io
import json
import runpy
import shlex
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))


def clear():
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def peak(program, *arguments):
    sys.argv = [program, *arguments]
    torch.cuda.init()
    clear()
    before = torch.cuda.memory_allocated()
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(program, run_name="__main__")
    found = torch.cuda.max_memory_allocated()
    if before:
        raise SystemExit(f"{program}: {before} bytes are left of the program before it")
    return found


print(json.dumps([peak(*shlex.split(words)) for words in sys.argv[1:]]))
