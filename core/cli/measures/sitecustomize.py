"""Measures that `gpumem fit --with` applies to a program that has no option for them.

Python loads a module of this name at its start if the folder is in PYTHONPATH. It changes PyTorch's classes as soon as the program
has imported them. GPUMEM_FIT_MEASURES has the measures, with commas between them, each by its name in `gpumem advise`. At the first
time when one changes something, its name is written as a line to the file GPUMEM_FIT_APPLIED.

The program's own sitecustomize, if there is one further on in the path, is loaded too.
"""

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import threading

SMALL = 1 << 20  # bytes; what is offloaded is kept as it is up to here: programs may read it
noted = set()


def note(measure):
    if measure not in noted:
        noted.add(measure)
        with open(os.environ["GPUMEM_FIT_APPLIED"], "a", encoding="utf-8") as file:
            file.write(measure + "\n")


# ---- around a model ----------------------------------------------------------------------------


class Calls(threading.local):
    """How deep the thread is in calls of modules, and which of them are checkpointed. Backward calls some in a thread of its own."""

    depth = 0
    blocks = frozenset()


def find_repeated(module):
    """The modules of a list or sequence that has several of a class, the outermost ones, with modules within them."""
    import torch

    if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
        items = [item for item in module.children() if next(item.children(), None) is not None]
        classes = [type(item) for item in items]
        repeated = [item for item in items if classes.count(type(item)) > 1]
        if repeated:
            yield from repeated
            return
    for child in module.children():
        yield from find_repeated(child)


def offloaded(torch, tensor):
    """What stands for a saved tensor in the host's memory. The simulated device computes nothing large, so its bytes are not kept."""
    if not tensor.is_cuda:
        return tensor
    note("offload_activations")
    if tensor.numel() * tensor.element_size() <= SMALL:
        return tensor.device, tensor.cpu(), None, None
    return tensor.device, None, tensor.size(), tensor.dtype


def brought_back(torch, packed):
    if not isinstance(packed, tuple):
        return packed
    device, copy, size, dtype = packed
    return copy.to(device) if copy is not None else torch.empty(size, dtype=dtype, device=device)


def around_modules(torch, measures):
    from contextlib import ExitStack

    from torch.utils.checkpoint import checkpoint

    calls, original = Calls(), torch.nn.Module.__call__
    asked = {measure.partition(":")[2] for measure in measures if measure.startswith("checkpoint")}
    chosen = {}  # the modules to checkpoint of each outermost module, by its id

    def checkpointed(outermost):
        if id(outermost) not in chosen:
            names = {name for name in asked if name}
            found = [one for one in outermost.modules() if type(one).__name__ in names] if names else list(find_repeated(outermost))
            chosen[id(outermost)] = (outermost, {id(one) for one in found})
        return chosen[id(outermost)][1]

    def inside(module, *args, **kwargs):
        calls.depth += 1
        try:
            return original(module, *args, **kwargs)
        finally:
            calls.depth -= 1

    def called(module, *args, **kwargs):
        if calls.depth == 0:
            with ExitStack() as stack:
                if "autocast" in measures and not torch.is_autocast_enabled():
                    note("autocast")
                    stack.enter_context(torch.autocast("cuda", torch.bfloat16))
                if "offload_activations" in measures and torch.is_grad_enabled():
                    hooks = functools.partial(offloaded, torch), functools.partial(brought_back, torch)
                    stack.enter_context(torch.autograd.graph.saved_tensors_hooks(*hooks))
                calls.blocks = checkpointed(module) if asked else frozenset()
                if id(module) not in calls.blocks:
                    return inside(module, *args, **kwargs)
                return called_in_checkpoint(module, *args, **kwargs)
        if id(module) in calls.blocks:
            return called_in_checkpoint(module, *args, **kwargs)
        return inside(module, *args, **kwargs)

    def called_in_checkpoint(module, *args, **kwargs):
        if not torch.is_grad_enabled() or not module.training:
            return inside(module, *args, **kwargs)
        blocks, calls.blocks = calls.blocks, frozenset()  # none within one
        for measure in measures:
            if measure.startswith("checkpoint"):
                note(measure)
        try:
            return checkpoint(functools.partial(inside, module), *args, use_reentrant=False, **kwargs)
        finally:
            calls.blocks = blocks

    torch.nn.Module.__call__ = called


# ---- of the optimizer --------------------------------------------------------------------------


def optimizer_option(torch, option, value, measure):
    def wrap(original):
        @functools.wraps(original)
        def init(self, *args, **kwargs):
            if kwargs.get(option) is not value and not kwargs.get("fused"):
                kwargs[option] = value
                if option == "fused":
                    kwargs["foreach"] = None
                note(measure)
            original(self, *args, **kwargs)

        return init

    for one in vars(torch.optim).values():
        if inspect.isclass(one) and option in inspect.signature(one.__init__).parameters:
            one.__init__ = wrap(one.__init__)


def forget_gradients(torch, measures):
    if "set_to_none" in measures:
        original = torch.optim.Optimizer.zero_grad

        def zero_grad(self, set_to_none=True):
            if not set_to_none:
                note("set_to_none")
            original(self, set_to_none=True)

        torch.optim.Optimizer.zero_grad = zero_grad
    if "zero_grad_earlier" in measures:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        def stepped(optimizer, args, kwargs):
            note("zero_grad_earlier")
            optimizer.zero_grad(set_to_none=True)

        register_optimizer_step_post_hook(stepped)


def apply(torch):
    measures = os.environ["GPUMEM_FIT_MEASURES"].split(",")
    if any(one in ("autocast", "offload_activations") or one.startswith("checkpoint") for one in measures):
        around_modules(torch, measures)
    if "fused_optimizer" in measures:
        optimizer_option(torch, "fused", True, "fused_optimizer")
    if "for_loop_optimizer" in measures:
        optimizer_option(torch, "foreach", False, "for_loop_optimizer")
    forget_gradients(torch, measures)


# ---- when PyTorch is imported ------------------------------------------------------------------


class Finder(importlib.abc.MetaPathFinder):
    """Finds PyTorch as the others do, and applies the measures behind it."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                apply(module)

            spec.loader.exec_module = exec_module
        return spec


def load_next():
    here = os.path.dirname(os.path.abspath(__file__))
    rest = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec and spec.loader:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


finder = Finder()
if os.environ.get("GPUMEM_FIT_MEASURES"):
    sys.meta_path.insert(0, finder)
load_next()
if finder in sys.meta_path:  # PyTorch is not imported yet: in front of the finders that the program has added
    sys.meta_path.remove(finder)
    sys.meta_path.insert(0, finder)
