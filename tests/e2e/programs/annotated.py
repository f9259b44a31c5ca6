"""annotated.py OUT: a loop whose ranges PyTorch's recorder is told to keep, and whose forward's memory has metadata."""

import sys

import torch
from torch import nn
from torch.profiler import record_function

torch.cuda.memory._record_memory_history(context="all", stacks="python", global_record_annotations=True)
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for number in range(3):
    with record_function(f"ProfilerStep#{number}"):
        inputs = torch.zeros(64, 256, device="cuda")
        with record_function("forward"):
            torch.cuda.memory._set_memory_metadata(f"batch {number}")
            value = model(inputs).sum()
            torch.cuda.memory._set_memory_metadata("")
        with record_function("backward"):
            value.backward()
        optimizer.step()
        optimizer.zero_grad()
torch.cuda.memory._dump_snapshot(sys.argv[1])
