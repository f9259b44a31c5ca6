"""Trains without a rest: a small model, losses kept, a graph collected now and then. Prints its process id, then at the end
what it came to; ends when its input is closed."""

import gc
import os
import sys
import threading

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
kept = torch.full((1000,), 3.0, device="cuda")
registry = {"kept": [kept]}
history = []
ended = threading.Event()


def wait_for_end():
    sys.stdin.read()
    ended.set()


threading.Thread(target=wait_for_end, daemon=True).start()


def train_step(step):
    inputs = torch.full((32, 64), float(step % 7), device="cuda")
    outputs = model(inputs)
    loss = (outputs - inputs).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.detach())
    del history[:-10]


steps = 0
print(os.getpid(), hex(kept.data_ptr()), flush=True)
while not ended.is_set():
    train_step(steps)
    steps += 1
    if steps % 50 == 0:
        gc.collect()
print("done", steps, registry["kept"][0] is kept, flush=True)
# PyTorch's thread for backward takes the GIL when it ends. Where the interpreter has ended before it, that is std::terminate().
os._exit(0)
