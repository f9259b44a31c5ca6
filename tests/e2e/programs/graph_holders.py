"""Tensors that lists hold directly, and that the graphs of scores in other lists hold too: which do is random and printed.

    graph_holders.py SEED      then for each line of its input: clears the lists that it names, and prints the allocated bytes
"""

import gc
import json
import os
import random
import sys

import torch

choose = random.Random(int(sys.argv[1]))
lists = {f"held_{i}": [] for i in range(4)}
lists |= {f"scores_{i}": [] for i in range(4)}
globals().update(lists)
truth = []
for number in range(12):
    tensor = torch.ones((1 + number) * (1 << 17), device="cuda").requires_grad_()
    by = choose.sample(sorted(n for n in lists if n.startswith("held")), choose.choice([2, 2, 3]))
    graphs = choose.sample(sorted(n for n in lists if n.startswith("scores")), choose.choice([0, 1, 2]))
    for name in by:
        lists[name].append(tensor)
    for name in graphs:
        lists[name].append(tensor.sum())  # its graph ends in the tensor, and saves nothing
    truth.append({"bytes": tensor.nbytes, "by": sorted(by), "graphs": sorted(graphs)})
    del tensor
del lists
print(json.dumps({"pid": os.getpid(), "truth": truth}), flush=True)
for line in sys.stdin:
    for name in line.split():
        globals()[name].clear()
    gc.collect()
    print(torch.cuda.memory_allocated(), flush=True)
