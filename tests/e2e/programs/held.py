"""Holds one tensor of 40,000 bytes in a module's variable; prints its pid and the tensor's address, and waits.
With an argument it holds it on that device, else on the host."""

import os
import sys

import torch

kept = torch.zeros(10_000, device=sys.argv[1] if len(sys.argv) > 1 else "cpu")
print(os.getpid(), hex(kept.untyped_storage().data_ptr()), flush=True)
sys.stdin.read()
