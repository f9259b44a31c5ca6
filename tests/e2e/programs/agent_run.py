"""Trains something small, and writes what PyTorch's own recorder says of it: agent_run.py KIND OUT.json.

KIND: gpt (autocast), trainer (transformers), loader (a DataLoader with two workers), threads (eight), waiting (four, in backward), ddp (two processes; each writes
OUT.json.RANK). With HISTORY=0 nothing is recorded by PyTorch; the losses are of CPU tensors in any case.
"""

import json
import os
import random
import sys

import torch
from torch import nn

kind, out = sys.argv[1:3]
HISTORY = os.environ.get("HISTORY", "1") == "1"


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, width=128, layers=2, words=512):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.blocks(self.tokens(tokens)))


def train_gpt(device, steps, wrap=None, autocast=True):
    torch.manual_seed(0)
    model = GPT().to(device)
    model = wrap(model) if wrap else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        tokens = torch.randint(0, 512, (4, 64), generator=torch.Generator().manual_seed(step)).to(device)
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=autocast):
            logits = model(tokens)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def gpt():
    train_gpt(torch.device("cuda"), 3)


def trainer():
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    rows = [{"input_ids": (t := torch.arange(i, i + 64) % 1000), "labels": t} for i in range(16)]
    arguments = TrainingArguments(
        output_dir=os.path.dirname(os.path.abspath(out)),
        per_device_train_batch_size=4,
        max_steps=3,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_embd=128, n_layer=2, n_head=4, n_positions=64))
    Trainer(model=model, args=arguments, train_dataset=rows).train()


def loader():
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(96, 256), torch.randint(0, 10, (96,)))
    for inputs, labels in DataLoader(data, batch_size=32, num_workers=2, pin_memory=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs.cuda(non_blocking=True)), labels.cuda()).backward()
        optimizer.step()


def threads():
    """Eight at once, each with blocks of its own."""
    import threading

    def churn(number):
        choose = random.Random(number)
        kept = []
        for _ in range(1500):
            if kept and choose.random() < 0.5:
                kept.pop(choose.randrange(len(kept)))
            else:
                kept.append(torch.empty(choose.randrange(1, 100_000), dtype=torch.uint8, device="cuda"))

    all_threads = [threading.Thread(target=churn, args=(i,)) for i in range(8)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()


def waiting():
    """Four that wait in backward() at once, for one autograd thread: each has its own function and sizes."""
    import threading

    def train(number):
        width = 100_000 * (number + 1)
        weights = torch.ones(width, device="cuda", requires_grad=True)
        for _ in range(30):
            x = weights
            for _ in range(10):
                x = x * 2 + 1
            x.sum().backward()
            weights.grad = None

    scope = {"train": train}
    for number in range(4):
        exec(f"def train_{number}(): train({number})", scope)
    all_threads = [threading.Thread(target=scope[f"train_{number}"]) for number in range(4)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()


def write(path, losses=None):
    snapshot = torch.cuda.memory._snapshot() if HISTORY else {"device_traces": []}
    keys = ("action", "addr", "size", "stream")
    traces = [[{key: entry[key] for key in keys if key in entry} for entry in t] for t in snapshot["device_traces"]]
    with open(path, "w") as file:
        json.dump({"pid": os.getpid(), "traces": traces, "stats": torch.cuda.memory_stats(), "losses": losses}, file)


def one_rank(rank):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    os.environ["RANK"] = str(rank)  # as torchrun has it
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    store = f"file://{os.path.abspath(out)}.store"  # no port that another program may take meanwhile
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    if HISTORY:
        torch.cuda.memory._record_memory_history(context=None)
    train_gpt(device, 2, lambda model: DistributedDataParallel(model, device_ids=[rank]), autocast=False)
    write(f"{out}.{rank}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if kind == "cpu":
        print(json.dumps([loss.hex() for loss in train_gpt(torch.device("cpu"), 4)]))
    elif kind == "ddp":
        torch.multiprocessing.spawn(one_rank, nprocs=2)
    else:
        if HISTORY:
            torch.cuda.memory._record_memory_history(context=None)
        {"gpt": gpt, "trainer": trainer, "loader": loader, "threads": threads, "waiting": waiting}[kind]()
        write(out)
