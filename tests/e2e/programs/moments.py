"""moments.py FOLDER NAME...: runs programs of those below, each in a process of its own under PyTorch's recorder, which
dumps its snapshot to FOLDER/NAME.pickle. At many moments it notes what PyTorch itself counts, and how long its trace was
then: FOLDER/NAME.json."""

import json
import os
import random
import sys

import torch
from torch import nn
from torch.nn import functional as F

PROGRAMS = {}
noted = []


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def moment():
    traces = torch.cuda.memory._snapshot()["device_traces"]
    for device in range(len(traces)):
        stats = torch.cuda.memory_stats(device)
        entries = [entry for entry in traces[device] if entry["action"] != "snapshot"]
        noted.append({
            "device": device, "entries": len(entries), "allocated": stats["allocated_bytes.all.current"],
            "blocks": stats["allocation.all.current"], "reserved": stats["reserved_bytes.all.current"],
        })  # fmt: skip


def train(model, batch, steps=4, loss=lambda y: y.float().square().mean(), context=None, scaler=None):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        x = batch()
        with context or torch.enable_grad():
            value = loss(model(x))
        moment()
        (scaler.scale(value) if scaler else value).backward()
        moment()
        optimizer.step()
        optimizer.zero_grad()
        moment()


@program
def mlp():
    train(nn.Sequential(nn.Linear(300, 3000), nn.GELU(), nn.Linear(3000, 30)).cuda(), lambda: torch.randn(64, 300).cuda())


@program
def transformer_autocast():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 512, batch_first=True), 3).cuda()
    train(model, lambda: torch.randn(8, 64, 128, device="cuda"), context=torch.autocast("cuda", torch.bfloat16))


@program
def convolutions():
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3)).cuda()
    train(model, lambda: torch.randn(8, 3, 64, 64, device="cuda"))


@program
def recurrent():
    model = nn.LSTM(64, 128, 2).cuda()
    train(model, lambda: torch.randn(20, 8, 64, device="cuda"), loss=lambda out: out[0].square().mean())


@program
def checkpointed():
    from torch.utils.checkpoint import checkpoint

    layers = nn.ModuleList(nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)) for _ in range(4)).cuda()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return x

    train(Model(), lambda: torch.randn(256, 512, device="cuda", requires_grad=True))


@program
def private_pools():
    static = torch.zeros(1000, 1000, device="cuda")
    static @ static  # a handle of cuBLAS cannot be made while a graph is captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = (static @ static).relu()
        kept = kept.sum(0)
    moment()
    graph.replay()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = [torch.zeros(3 << 20, device="cuda") for _ in range(3)]
    moment()
    inside.pop()
    outside = torch.zeros(5 << 20, device="cuda")
    moment()
    del graph, kept, inside, outside, pool
    torch.cuda.empty_cache()
    moment()


@program
def side_streams():
    side = torch.cuda.Stream()
    kept = []
    for i in range(12):
        x = torch.zeros((i % 5 + 1) << 18, device="cuda")
        with torch.cuda.stream(side):
            y = x + 1
            x.record_stream(side)
            kept = kept[-3:] + [y]
        del x
        moment()
    torch.cuda.synchronize()
    moment()


@program
def random_sizes():
    kept, choose = [], random.Random(7)
    for i in range(600):
        if kept and choose.random() < 0.48:
            kept.pop(choose.randrange(len(kept)))
        else:
            kept.append(torch.empty(int(2 ** choose.uniform(0, 24)), dtype=torch.uint8, device="cuda"))
        if i % 12 == 0:
            moment()
        if i % 150 == 149:
            torch.cuda.empty_cache()


@program
def two_devices():
    models = [nn.Linear(1000, 1000).to(f"cuda:{device}") for device in range(2)]
    for i in range(6):
        outputs = [model(torch.zeros(100 * (i + 1), 1000, device=model.weight.device)) for model in models]
        moment()
        sum(output.sum().to("cuda:0") for output in outputs).backward()
        moment()
        for model in models[:: i % 2 + 1]:
            model.zero_grad()
        moment()


@program
def decoding():
    keys = torch.zeros(2, 4, 0, 64, device="cuda")
    with torch.no_grad():
        for i in range(40):
            keys = torch.cat([keys, torch.zeros(2, 4, 1, 64, device="cuda")], 2)
            F.scaled_dot_product_attention(keys[:, :, -1:], keys, keys)
            if i % 2:
                moment()


def main(out, run):
    torch.cuda.memory._record_memory_history(context=None, max_entries=1000000)
    run()
    moment()
    torch.cuda.memory._dump_snapshot(out + ".pickle")
    with open(out + ".json", "w") as file:
        json.dump(noted, file)


folder, *names = sys.argv[1:]
if not {"private_pools", "side_streams", "random_sizes", "two_devices", "decoding"}.issuperset(names):
    import torch._dynamo  # noqa: F401  the first optimizer imports it, a second of work: here once for all
for name in names:  # forked before CUDA is there: importing torch is what takes long
    child = os.fork()
    if child == 0:
        main(f"{folder}/{name}", PROGRAMS[name])
        sys.exit()
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{name} failed")
