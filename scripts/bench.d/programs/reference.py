"""The reference process of the benchmarks: about 1 GB of writable memory that was written to, a million objects that
Python's collector tracks, 2,000 tensors on the device. `reference.py [TIMES [OBJECTS]]` makes TIMES as much of each (of PyTorch
itself there is always one), and of the objects OBJECTS times as many again. Prints its process id and a block's address, and waits for its input to end."""

import os
import sys

import torch

times = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
objects = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
rows = [{"name": f"row {i}", "values": [float(i), float(i + 1)]} for i in range(int(400_000 * times * objects))]
model = {f"layer {i}": {"weight": torch.zeros(64, 64, device="cuda")} for i in range(int(1_999 * times))}
on_host = torch.ones(int(times * (500 << 20)), dtype=torch.uint8)


def main():
    kept = [torch.zeros(1 << 20, device="cuda")]
    print(os.getpid(), hex(kept[0].untyped_storage().data_ptr()), flush=True)
    sys.stdin.read()
    return kept


main()
