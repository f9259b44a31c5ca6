"""The reference process, whose tensors C code holds: `missing.py [TIMES [HELD]]`. Of its tensors HELD (2,000) are in no Python object
any more: half of these have their address in a block of malloc's that nothing leads to, of the others nobody has kept it. So as many
references are missing, and all memory is looked through for them. Prints its process id and such a tensor's block, and waits
for its input to end."""

import ctypes
import os
import sys

import torch

times = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
held = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
rows = [{"name": f"row {i}", "values": [float(i), float(i + 1)]} for i in range(int(400_000 * times))]
on_host = torch.ones(int(times * (500 << 20)), dtype=torch.uint8)

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]


def give_away():
    tensors = [torch.zeros(64, 64, device="cuda") for _ in range(held)]
    words = (ctypes.c_uint64 * held).from_address(libc.malloc(8 * held))
    for i, tensor in enumerate(tensors):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
        words[i] = id(tensor) if i % 2 else 0
    return hex(tensors[1].untyped_storage().data_ptr())


print(os.getpid(), give_away(), flush=True)
sys.stdin.read()
