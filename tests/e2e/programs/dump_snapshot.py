"""dump_snapshot.py EXAMPLE OUT STACKS MAX_ENTRIES [CONTEXT]: runs an example with PyTorch's own recorder on, writes its
snapshot to OUT and torch's statistics to OUT.json."""

import json
import runpy
import sys

import torch

example, out, stacks, max_entries = sys.argv[1:5]
context = (sys.argv[5:] or ["all"])[0]
sys.argv = [example]
torch.cuda.memory._record_memory_history(context=context, stacks=stacks, max_entries=int(max_entries))
names = runpy.run_path(example, run_name="__main__")  # kept: its tensors stay alive
torch.cuda.memory._dump_snapshot(out)
with open(out + ".json", "w") as file:
    json.dump(torch.cuda.memory_stats(), file)
