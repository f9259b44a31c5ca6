"""Which tensors operators make, as a TorchDispatchMode sees it; as a program, of another program that runs unchanged:

    tensor_watch.py OUT.json PROGRAM ARGUMENTS...        # OUT.json.N of rank N, where RANK is set
"""

import json
import os
import runpy
import sys
import time
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Watch(TorchDispatchMode):
    """Below autograd: each operator that runs, with what it gives back on a kind of device."""

    def __init__(self, device="cuda"):
        super().__init__()
        self.device = device
        self.made = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        before = {tensor.untyped_storage().data_ptr() for tensor in tensors((arguments, keywords))}
        result = function(*arguments, **(keywords or {}))
        for tensor in tensors(result):
            storage = tensor.untyped_storage()
            if storage.data_ptr() in before or tensor.device.type != self.device or not storage.nbytes():
                continue
            before.add(storage.data_ptr())
            self.see(str(function), tensor)
        return result

    def see(self, operator, tensor):
        storage = tensor.untyped_storage()
        self.made.append(
            {
                "operator": operator,
                "address": storage.data_ptr(),
                "bytes": storage.nbytes(),
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "strides": list(tensor.stride()),
                "time_us": time.time_ns() // 1000,
            }
        )

    def see_storages(self):
        """No operator runs where a storage is resized: the tensors that the calling function has of it."""
        resize = torch.UntypedStorage.resize_

        def resized(storage, size):
            resize(storage, size)
            for tensor in tensors(list(sys._getframe(1).f_locals.values())):
                if size and tensor.device.type == self.device and tensor.untyped_storage()._cdata == storage._cdata:
                    self.see("resize_", tensor)
            return storage

        torch.UntypedStorage.resize_ = resized


def tensors(values):
    """Those with memory of their own; of a DTensor it is that of this rank's part."""
    leaves = (getattr(leaf, "_local_tensor", leaf) for leaf in tree_leaves(values))
    return [leaf for leaf in leaves if type(leaf) in (torch.Tensor, torch.nn.Parameter)]


def main():
    out = sys.argv[1] + (f".{os.environ['RANK']}" if "RANK" in os.environ else "")
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    watch = Watch()
    watch.see_storages()
    with watch:
        runpy.run_path(sys.argv[0], run_name="__main__")
    Path(out).write_text(json.dumps(watch.made))


if __name__ == "__main__":
    main()
