"""Trains a small transformers model on the simulated device: agent_training.py STEPS [PICKLE].

With PICKLE PyTorch's own recorder runs (all stacks, context="all"), and writes its snapshot there. Prints how many events
there were and what a step took.
"""

import os
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

steps = int(sys.argv[1])
if len(sys.argv) > 2:
    torch.cuda.memory._record_memory_history(stacks="all", context="all", max_entries=10_000_000)
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=2000, n_embd=128, n_layer=4, n_head=4, n_positions=128)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
tokens = torch.randint(0, 2000, (4, 128))


def step():
    optimizer.zero_grad()
    batch = tokens.cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=batch, labels=batch).loss
    loss.backward()
    optimizer.step()


step()
took = []
for _ in range(steps):
    begin = time.thread_time() if "CPU_TIME" in os.environ else time.perf_counter()
    step()
    took.append((time.thread_time() if "CPU_TIME" in os.environ else time.perf_counter()) - begin)
took.sort()
if len(sys.argv) > 2:
    torch.cuda.memory._dump_snapshot(sys.argv[2])
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    print(f"bytes per event: {os.path.getsize(sys.argv[2]) / len(trace):.2f}")
print(f"ms per step: {took[len(took) // 4] * 1e3:.3f}", flush=True)
