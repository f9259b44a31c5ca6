"""Trains a small transformers model on the simulated device: agent_training.py STEPS [PICKLE].

With PICKLE PyTorch's own recorder runs (all stacks, context="all"), and writes its snapshot there. Prints how many bytes an
event took there and what a step took; with TURNS=FOLDER what a step took recorded and not.
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


def median(values):
    return sorted(values)[len(values) // 2]


def in_turn(blocks, folder):
    """Blocks of steps, recorded by a preloaded agent and not, in turn: the median step of each, of the processor (all
    threads) and of the clock."""
    import gpumem

    took = {"not recorded": ([], []), "recorded": ([], [])}
    gpumem.stop()
    for turn in range(2 * blocks):
        way = "recorded" if turn % 2 else "not recorded"
        if turn % 2:
            gpumem.start(f"{folder}/{turn}.gpumem")
            step()
            step()  # with it the stacks are known
        for _ in range(4):
            begin, cpu = time.perf_counter(), time.process_time()
            step()
            took[way][0].append(time.process_time() - cpu)
            took[way][1].append(time.perf_counter() - begin)
        if turn % 2:
            gpumem.stop()
            os.unlink(f"{folder}/{turn}.gpumem")
    for way, (cpu, wall) in took.items():
        print(f"{way}, processor: {median(cpu) * 1e3:.3f}\n{way}, wall: {median(wall) * 1e3:.3f}", flush=True)


start = time.process_time()
step()
if "TURNS" in os.environ:
    in_turn(steps, os.environ["TURNS"])
    sys.exit()
took = []
for _ in range(steps):
    begin = time.perf_counter()
    step()
    took.append(time.perf_counter() - begin)
took.sort()
if len(sys.argv) > 2:
    torch.cuda.memory._dump_snapshot(sys.argv[2])
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    print(f"bytes per event: {os.path.getsize(sys.argv[2]) / len(trace):.2f}")
print(f"ms per step: {took[len(took) // 4] * 1e3:.3f}")
print(f"before the first step: {start:.4f}\nat the end: {time.process_time():.4f}", flush=True)
