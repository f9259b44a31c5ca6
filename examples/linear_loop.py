"""A linear layer fed three times: why does one line of a loop need room for two outputs?

Each pass makes a new input and a new output. The second pass's output is made while the variable still
holds the first pass's, so two live side by side at the peak.

    build/bin/gpumem gdb --sim -- .venv/bin/python examples/linear_loop.py

With a GPU, leave `--sim` out; python alone runs it too. `--no-grad` runs the loop under torch.no_grad():
then no graph is built, and only the variables keep the tensors.
"""

import sys

import torch
from torch import nn

torch.set_grad_enabled("--no-grad" not in sys.argv)

model = nn.Linear(10_000, 50_000, device="cuda")
for step in range(1, 4):
    inputs = torch.randn(5_000, 10_000, device="cuda")
    outputs = model(inputs)
    print(f"step {step}: outputs {tuple(outputs.shape)}", flush=True)

stats = torch.cuda.memory_stats()
for name in ("allocated_bytes.all.current", "allocated_bytes.all.peak", "reserved_bytes.all.peak"):
    print(f"{name}: {stats[name]:,}")
