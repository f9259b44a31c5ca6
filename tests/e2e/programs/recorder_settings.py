"""recorder_settings.py FOLDER: a snapshot NAME.pickle for each way to call PyTorch's recorder that this PyTorch knows, each
of a program with three steps, and torch's statistics of that time as NAME.json."""

import inspect
import json
import sys
from pathlib import Path

import torch

memory = torch.cuda.memory
folder = Path(sys.argv[1])
SETTINGS = {
    "all": {"stacks": "all"},
    "python": {"stacks": "python"},
    "annotations": {"stacks": "python", "global_record_annotations": True},
    "no frames": {"context": None},
    "no free_completed": {"stacks": "python", "skip_actions": ["free_completed"]},
    "no free_requested": {"stacks": "python", "skip_actions": ["free_requested"]},
    "no segments": {"stacks": "python", "skip_actions": ["segment_alloc", "segment_free"]},
    "pinned": {"stacks": "python", "record_pinned_host_memory": True},
}
known = inspect.signature(memory._record_memory_history).parameters


def train():
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    data = torch.randn(64, 256, device="cuda")
    pinned = [torch.empty(1000 * n, pin_memory=True) for n in range(1, 4)]
    del pinned[1]
    for _ in range(3):
        with torch.autograd.profiler.record_function("a step"):
            optimizer.zero_grad()
            output = net(data)
            if hasattr(memory, "_annotate_tensor"):
                memory._annotate_tensor(output, "the output")
            (output * output).mean().backward()
            optimizer.step()
    return net, optimizer, data, pinned, output


for name, settings in SETTINGS.items():
    if set(settings) - set(known):
        continue
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    memory._record_memory_history(None)
    memory._record_memory_history(**{"clear_history": True} if "clear_history" in known else {}, **settings)
    kept = train()
    memory._dump_snapshot(folder / f"{name}.pickle")
    (folder / f"{name}.json").write_text(json.dumps(torch.cuda.memory_stats()))
    del kept
