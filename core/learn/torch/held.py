"""Blocks that one global variable keeps alive, each through another field. The proof asks who holds them: the name has to come
out, and all references have to be found."""

import torch
from graph import Save

DEVICE = "cuda:2"
names = {}  # variable -> address of the block that it keeps


def empty(n, **options):
    return torch.empty(n, device=DEVICE, **options)


def keep(name, value, block):
    globals()[name] = value
    names[name] = block.data_ptr()


def make():
    keep("kept_tensor", *[empty(5_001)] * 2)
    tensor = empty(5_003)
    keep("kept_storage", tensor.untyped_storage(), tensor)
    base = empty(5_007, requires_grad=True)
    keep("kept_view", base[7:], base)
    leaf = empty(5_009, requires_grad=True)
    leaf.grad = empty(5_009)
    keep("kept_gradient", leaf, leaf.grad)
    # a leaf that only the graph has: AccumulateGrad's variable, reached along the edges
    leaf = empty(5_011, requires_grad=True)
    keep("kept_graph", ((leaf + 1) + 1).sum(), leaf)
    saved = empty(5_013, requires_grad=True) + 1
    keep("kept_saved", (saved * saved).sum(), saved)
    saved = empty(5_017, requires_grad=True) + 1
    keep("kept_node", (saved * saved).sum().grad_fn, saved)
    saved = [empty(n, requires_grad=True) + 1 for n in (5_019, 5_021)]
    keep("kept_context", Save.apply(2, *saved), saved[1])
    for name, register in (("kept_hook", "register_hook"), ("kept_post_hook", "register_post_accumulate_grad_hook")):
        hooked, tensor = torch.empty(3, requires_grad=True), empty(5_023)
        getattr(hooked, register)(lambda gradient, tensor=tensor: None)
        keep(name, hooked, tensor)
