"""Runs a program with PyTorch's own recorder on, and writes its snapshot and statistics at the end.

    python with_recorder.py OUT PROGRAM [ARGUMENTS]      OUT.pickle and OUT.json

OUT.json also has the device's bytes at the end that are not PyTorch's. GPUMEM_TORCH_STACKS=none leaves out the stacks.
"""

import json
import os
import runpy
import sys

import torch

out, program = sys.argv[1:3]
sys.argv = [program, *sys.argv[3:]]
sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
context = None if os.environ.get("GPUMEM_TORCH_STACKS") == "none" else "alloc"
recorded = torch.cuda.get_allocator_backend() == "native"  # the other has no recorder
if recorded:
    torch.cuda.memory._record_memory_history(context=context, stacks="python", max_entries=1_000_000)
torch.cuda.memory._record_memory_history = lambda *a, **k: None  # a program's own call would begin anew
failed = None
try:
    kept = runpy.run_path(program, run_name="__main__")  # kept: its tensors stay alive
except SystemExit as error:
    failed = None if not error.code else f"exit {error.code}"
except BaseException as error:  # noqa: BLE001 - what it says is a result
    failed = f"{type(error).__name__}: {str(error)[:500]}"
torch.cuda.synchronize()
stats = {k: v for k, v in torch.cuda.memory_stats().items() if isinstance(v, int)}
free, total = torch.cuda.mem_get_info()
with open(f"{out}.json", "w") as file:
    json.dump({"stats": stats, "failed": failed, "used": total - free, "torch": torch.__version__}, file)
if recorded:
    torch.cuda.memory._dump_snapshot(f"{out}.pickle")
if failed:
    print("failed:", failed, file=sys.stderr)
sys.exit(1 if failed else 0)
