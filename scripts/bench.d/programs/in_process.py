"""The reference process asks itself what holds a tensor: seconds for two hops of gc.get_referrers and for the graph that
torch.utils.viz._cycles makes of everything."""

import gc
import sys
import time

import torch
from torch.utils.viz import _cycles

times = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rows = [{"name": f"row {i}", "values": [float(i), float(i + 1)]} for i in range(int(400_000 * times))]
model = {f"layer {i}": {"weight": torch.zeros(64, 64, device="cuda")} for i in range(int(1_999 * times))}
kept = [torch.zeros(1 << 20, device="cuda")]
gc.collect()

start = time.monotonic()
first = gc.get_referrers(kept[0])
gc.get_referrers(*first)
print(f"two hops: {time.monotonic() - start:.3f} s", flush=True)

start = time.monotonic()
_cycles.create_graph(gc.get_objects())
print(f"create_graph: {time.monotonic() - start:.3f} s", flush=True)
