"""Blocks that one global variable keeps alive, each through another field. The proof asks who holds them: the name has to come
out, and all references have to be found."""

import buckets
import torch
from graph import Save
from words import value

DEVICE = "cuda:2"
names = {}  # variable -> address of the block that it keeps


def empty(n, **options):
    return torch.empty(n, device=DEVICE, **options)


def keep(name, value, block):
    globals()[name] = value
    names[name] = block if isinstance(block, int) else block.data_ptr()


def make(row):
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
    owned_by_python()
    in_a_bucket(row)


class Lender(bytearray):
    """Memory for a tensor, that keeps another."""


def owned_by_python():
    """What Python owns, through PyTorch's C++ objects."""
    for number, register in ((5_027, "register_hook"), (5_031, "register_prehook")):
        function, tensor = (torch.empty(3, requires_grad=True) + 1).grad_fn, empty(number)
        if hasattr(function, register):
            getattr(function, register)(lambda *gradients, tensor=tensor: None)
            keep(f"kept_node_{register}", function, tensor)
    function, tensor = (torch.empty(3, requires_grad=True) + 1).grad_fn, empty(5_033)
    function.metadata["note"] = tensor
    keep("kept_metadata", function, tensor)
    for which in range(3):
        tensor = empty(5_037 + 2 * which)
        notes = [tensor if which == i else None for i in range(3)]
        pack = lambda t, note=notes[0], data=[notes[2]]: (t.detach(), data)
        unpack = lambda data, note=notes[1]: data[0]
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            made = torch.empty(3, requires_grad=True).exp()
        keep("kept_saved_" + ("pack", "unpack", "data")[which], made, tensor)
    lender, tensor = Lender(100), empty(5_047)
    lender.tensor = tensor
    keep("kept_lender", torch.frombuffer(lender, dtype=torch.uint8), tensor)


def in_a_bucket(row):
    """The gradients' own memory, from the beginning on; no wrapper leads there, so it is read."""
    if "reducer.gradients" in row.values:
        parameters = [torch.nn.Parameter(empty(5_051))]
        reducer = buckets.reducer(parameters, [[0]])
        tensor = buckets.gradients(row, reducer, parameters)
        keep("kept_reducer", (reducer, parameters), value(value(tensor + row["tensor.storage"]) + row["storage.data"]))
