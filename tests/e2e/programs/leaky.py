"""leaky.py FOLDER: trains a small model in many ways, one after another, and dumps a snapshot of each into FOLDER:
NAME.leak.pickle where the way piles something up, NAME.clean.pickle where it does not. Lines that leak are marked
by a comment that the test reads.

leaky.py --hold: each way that piles something up, in a process of its own, which prints "NAME PID" and waits with what it
kept; its holder is named by a comment too."""

import collections
import copy
import os
import sys
import time

import torch
import torch._dynamo  # noqa: F401  the first optimizer imports it, a second of work: here once for all
from torch import nn

STEPS = 10
WAYS = {}


def way(leaks):
    def add(function):
        WAYS[function.__name__] = (function, leaks)
        return function

    return add


def hold():
    """Called where what was kept is still there."""
    if sys.argv[1] == "--hold":
        sys.stdout.write(f"{sys._getframe(1).f_code.co_name} {os.getpid()}\n")
        sys.stdout.flush()
        time.sleep(600)


def make():
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).to("cuda")
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def step(model, optimizer, keep=None, retain=False):
    inputs = torch.randn(512, 256, device="cuda")  # LEAK losses_with_graph
    outputs = model(inputs)  # LEAK losses_with_graph, detached_history, hook_keeps_outputs
    loss = outputs.square().mean()  # LEAK losses_with_graph
    if keep:
        keep(inputs, outputs, loss)
    loss.backward(retain_graph=retain)
    optimizer.step()
    optimizer.zero_grad()
    return loss


@way(leaks=True)
def losses_with_graph():
    (model, optimizer), losses = make(), []
    for _ in range(STEPS):
        step(model, optimizer, lambda inputs, outputs, loss: losses.append(loss), retain=True)
    hold()  # HOLDER local 'losses' of losses_with_graph()


@way(leaks=True)
def detached_history():
    model, optimizer = make()
    model.history = {}
    for index in range(STEPS):
        step(model, optimizer, lambda inputs, outputs, loss: model.history.update({index: outputs.detach()}))
    hold()  # HOLDER attribute 'history' of Sequential: local 'model' of detached_history()


CACHE = {}


@way(leaks=True)
def cache_without_bound():
    model, optimizer = make()
    for index in range(STEPS):
        CACHE[index] = torch.zeros(100 + index, 1000, device="cuda")  # LEAK cache_without_bound
        step(model, optimizer)
    hold()  # HOLDER global 'CACHE' of module __main__


@way(leaks=True)
def hook_keeps_outputs():
    (model, optimizer), kept = make(), []
    model[2].register_forward_hook(lambda module, args, output: kept.append(output.detach()))
    for _ in range(STEPS):
        step(model, optimizer)
    hold()  # HOLDER local 'kept' of hook_keeps_outputs()


@way(leaks=False)
def plain():
    model, optimizer = make()
    for _ in range(STEPS):
        step(model, optimizer)


@way(leaks=False)
def last_outputs():
    (model, optimizer), kept = make(), {}
    for _ in range(STEPS):
        step(model, optimizer, lambda inputs, outputs, loss: kept.update(last=outputs))


@way(leaks=False)
def window_of_three():
    (model, optimizer), window = make(), collections.deque(maxlen=3)
    for _ in range(STEPS):
        step(model, optimizer, lambda inputs, outputs, loss: window.append(outputs.detach()))


@way(leaks=False)
def accumulated():
    model, optimizer = make()
    for _ in range(STEPS):
        for _ in range(3):
            model(torch.randn(512, 256, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@way(leaks=False)
def moving_average():
    model, optimizer = make()
    average = copy.deepcopy(model)
    for _ in range(STEPS):
        step(model, optimizer)
        with torch.no_grad():
            for old, new in zip(average.parameters(), model.parameters()):
                old.mul_(0.9).add_(new, alpha=0.1)


@way(leaks=False)
def running_total():
    (model, optimizer), total = make(), torch.zeros((), device="cuda")
    for _ in range(STEPS):
        total = total + step(model, optimizer).detach()


@way(leaks=False)
def evaluated():
    model, optimizer = make()
    for _ in range(STEPS):
        step(model, optimizer)
        with torch.no_grad():
            model(torch.randn(2048, 256, device="cuda")).sum()


@way(leaks=False)
def grows_and_stops():
    (model, optimizer), pool = make(), []
    for index in range(STEPS):
        if index < 3:
            pool.append(torch.zeros(1000, 1000, device="cuda"))
        step(model, optimizer)


@way(leaks=False)
def best_so_far():
    (model, optimizer), best = make(), None
    for index in range(STEPS):
        step(model, optimizer)
        if index in (2, 5):
            best = copy.deepcopy(model.state_dict())
    return best


@way(leaks=False)
def inference():
    model, _ = make()
    with torch.no_grad():
        for _ in range(STEPS):
            inputs = torch.randn(512, 256, device="cuda")
            outputs = model(inputs)
            outputs = outputs.softmax(-1)


@way(leaks=False)
def checkpointed():
    from torch.utils.checkpoint import checkpoint

    model, optimizer = make()
    for _ in range(STEPS):
        inputs = torch.randn(512, 256, device="cuda")
        for _ in range(3):
            inputs = checkpoint(model, inputs, use_reentrant=False)
        inputs.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@way(leaks=False)
def scaled():
    (model, optimizer), scaler = make(), torch.amp.GradScaler("cuda")
    for _ in range(STEPS):
        with torch.autocast("cuda", torch.float16):
            loss = model(torch.randn(512, 256, device="cuda")).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@way(leaks=False)
def distributed():
    import torch.distributed as dist

    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)  # a port that is free
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    model, _ = make()
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        step(model, optimizer)
    dist.destroy_process_group()


@way(leaks=False)
def generated():
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        return False
    config = LlamaConfig(
        vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    prompt = torch.ones(2, 16, dtype=torch.long, device="cuda")
    for _ in range(STEPS):
        model(prompt, labels=prompt).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        model.generate(prompt, max_new_tokens=6, min_new_tokens=6, do_sample=False, pad_token_id=0)


def record():
    torch.cuda.memory._record_memory_history(context="all", stacks="python", max_entries=1000000)


if sys.argv[1] == "--hold":
    for function, leaks in WAYS.values():
        if leaks and os.fork() == 0:  # before CUDA is there: importing torch is what takes long
            record()
            function()
            os._exit(1)
    time.sleep(600)
for name, (function, leaks) in WAYS.items():
    record()
    if function() is not False:  # what it needs is installed
        torch.cuda.memory._dump_snapshot(f"{sys.argv[1]}/{name}.{'leak' if leaks else 'clean'}.pickle")
    torch.cuda.memory._record_memory_history(enabled=None)
    CACHE.clear()
