"""What tensors are called in a program that runs unchanged, as its own modules and optimizers tell when the second step of an optimizer ends:

    names_watch.py OUT.json PROGRAM ARGUMENTS...        # OUT.json.N of rank N, where RANK is set

Rows: kind, name, address of the storage, offset and bytes of the tensor in it. A part of a flat tensor is told with the parameters that
lie in it ("pieces"), as the library itself maps them.
"""

import gc
import json
import os
import runpy
import sys
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

STEPS = 2


def place(tensor, start=0, count=None):
    """(address, offset, bytes) of some elements of a tensor; None: of no memory."""
    tensor = getattr(tensor, "_local_tensor", tensor)
    size = tensor.element_size()
    count = tensor.numel() if count is None else count
    if not count or not tensor.is_cuda or not tensor.untyped_storage().nbytes():
        return None
    return tensor.untyped_storage().data_ptr(), (tensor.storage_offset() + start) * size, count * size


def root_module():
    """The one model of which no module is a part, and that has parameters."""
    modules = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
    parts = {id(child) for module in modules for child in module._modules.values()}
    (root,) = [one for one in modules if id(one) not in parts and next(one.parameters(), None) is not None]
    return root


def deepspeed_pieces(model):
    """(flat fp32 part, parameter, first element in the part, elements) of the parameters in this rank's part."""
    zero = getattr(getattr(model, "optimizer", None), "single_partition_of_fp32_groups", None)
    if zero is None:
        return
    for number, flat in enumerate(zero):
        group = model.optimizer
        at = -group.first_offset[number]
        for parameter in group.params_in_partition[number]:
            first, end = max(at, 0), min(at + parameter.numel(), flat.numel())
            if end > first:
                yield flat, parameter, first, end - first
            at += parameter.numel()


def tell(optimizer):
    model, rows, names = root_module(), [], {}

    def note(kind, name, *where):
        found = place(*where)
        if found:
            rows.append([kind, name, *found])

    for name, parameter in model.named_parameters():
        names[parameter] = name
        note("parameter", name, parameter)
        if parameter.grad is not None:
            note("gradient", name + ".grad", parameter.grad)
    for name, buffer in model.named_buffers():
        note("buffer", name, buffer)
    for group, parameters in enumerate(optimizer.param_groups):
        for number, parameter in enumerate(parameters["params"]):
            if parameter not in names:
                names[parameter] = f"{type(optimizer).__name__}.param_groups[{group}]['params'][{number}]"
                note("parameter", names[parameter], parameter)
                if parameter.grad is not None:
                    note("gradient", names[parameter] + ".grad", parameter.grad)
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            if isinstance(value, torch.Tensor):
                note("optimizer_state", f"{key} of {names[parameter]}", value)
    for flat, parameter, first, count in deepspeed_pieces(model):
        note("parameter", f"fp32 of {names[parameter]}", flat, first, count)
        if flat.grad is not None:
            note("gradient", f"fp32 of {names[parameter]}.grad", flat.grad, first, count)
        for key, value in optimizer.state[flat].items():
            if isinstance(value, torch.Tensor) and value.numel() == flat.numel():
                note("optimizer_state", f"{key} of {names[parameter]}", value, first, count)
    return rows


def main():
    out = sys.argv[1] + (f".{os.environ['RANK']}" if "RANK" in os.environ else "")
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    steps = 0

    def stepped(optimizer, arguments, keywords):
        nonlocal steps
        steps += 1
        if steps == STEPS:
            Path(out).write_text(json.dumps(tell(optimizer)))

    register_optimizer_step_post_hook(stepped)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
