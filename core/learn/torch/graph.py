"""The graph of autograd: Node, its edges, AutogradMeta's references into it, and what Python's functions save."""

from types import SimpleNamespace

import torch
from words import PYTHON_HEAD, classes, is_a, value, words

NODE = "N5torch8autograd4NodeE"
ACCUMULATE = "N5torch8autograd14AccumulateGradE"
PYTHON_NODE = "N5torch8autograd6PyNodeE"
SHARED = "St16_Sp_counted_baseILN9__gnu_cxx12_Lock_policyE2EE"
WORDS = range(8, 1024, 8)


class Save(torch.autograd.Function):
    """Saves the first so many of its inputs."""

    @staticmethod
    def forward(ctx, saved, *tensors):
        ctx.save_for_backward(*tensors[:saved])
        return tensors[0].clone()

    @staticmethod
    def backward(ctx, gradient):
        return (None, gradient)


def make(k):
    s = SimpleNamespace(k=k)
    n = 33 + 2 * k
    s.leaves = [torch.empty(n + i, requires_grad=True) for i in range(4)]
    s.one = [leaf * 2.0 for leaf in s.leaves]
    s.two = [leaf[:9] * other[:9] for leaf, other in zip(s.leaves, s.leaves[1:])]
    s.many = [torch.cat(s.one[: 2 + i] + s.two[: 1 + i]) for i in range(3)]
    s.chain = [t.exp() for t in s.one + s.two + s.many]
    s.made = s.one + s.two + s.many + s.chain
    # (saved, output): the number of saved tensors is not that of the inputs or outputs
    s.custom = [(i, Save.apply(i, *s.leaves)) for i in (1, 2, 3)]
    s.after = [t * 3.0 for _, t in s.custom]
    # each keeps its Python object, and so do the objects of the nodes before it
    s.functions = [t.grad_fn for t in s.made]
    s.before = [[f for f, _ in g.next_functions] for g in s.functions]
    s.accumulate = [(leaf, leaf.view_as(leaf).grad_fn.next_functions[0][0]) for leaf in s.leaves]
    return s


def node(row, first, second):
    def wrapped(s):
        return s.functions + [f for _, f in s.accumulate]

    def names_a_node(o, function):
        at = value(id(function) + o) or 0
        return is_a(at, NODE) and function.name().split("::")[-1] in classes(at)[0]

    row.find(
        "python.function_cdata",
        range(PYTHON_HEAD, 128, 8),
        lambda o, s: all(names_a_node(o, f) for f in wrapped(s)),
        first,
        second,
    )
    cdata = row["python.function_cdata"]

    def at(function):
        return value(id(function) + cdata)

    row.compared("node.python", WORDS, "<Q", lambda s: [(at(f), id(f)) for f in wrapped(s)], first, second)
    row.compared(
        "node.accumulate_variable", range(64, 2048, 8), "<Q", lambda s: [(at(f), t._cdata) for t, f in s.accumulate], first, second
    )
    # what a class derived from Node adds begins where Node ends
    row.compared("node.size_of", [row["node.accumulate_variable"]], "<Q", lambda s: [(at(f), t._cdata) for t, f in s.accumulate], first, second)
    meta_at = row["tensor.autograd_meta"]

    def meta(t):
        return value(t._cdata + meta_at)

    row.compared("meta.grad_fn", WORDS, "<Q", lambda s: [(meta(t), at(t.grad_fn)) for t in s.made], first, second)
    row.compared("meta.grad_accumulator", WORDS, "<Q", lambda s: [(meta(t), at(f)) for t, f in s.accumulate], first, second)


def edges(row, first, second):
    cdata = row["python.function_cdata"]

    def cases(s):
        for function, before in zip(s.functions, s.before):
            yield value(id(function) + cdata), [value(id(f) + cdata) if f is not None else 0 for f in before]

    def agrees(o, size, s):
        for at, targets in cases(s):
            begin, end = (words(at + o, 2) + (0, 0))[:2]
            if not begin or end - begin != size * len(targets):
                return False
            if any(value(begin + i * size) != target for i, target in enumerate(targets)):
                return False
        return True

    sizes = [size for size in range(8, 64, 8) if any(agrees(o, size, first) for o in WORDS)]
    row.derived("node.edge_size", sizes[0] if len(sizes) == 1 else None, lambda size: any(agrees(o, size, second) for o in WORDS))
    row.find("node.next_edges", WORDS, lambda o, s: agrees(o, row["node.edge_size"], s), first, second)


def shared(row, first, second):
    """Until 2.13 a Node is a std::shared_ptr's: it points to itself, and to the control block that counts."""
    cdata = row["python.function_cdata"]
    pairs = {id(s): [words(id(f) + cdata, 2) for f in s.functions] for s in (first, second)}
    if not any(is_a(control, SHARED) for _, control in pairs[id(first)]):
        return
    row.find("node.self", WORDS, lambda o, s: all(value(at + o) == at for at, _ in pairs[id(s)]), first, second)
    row.find("node.control", WORDS, lambda o, s: all(value(at + o) == control for at, control in pairs[id(s)]), first, second)


def counted(row, first, second):
    """From 2.14 on a Node has counts of its own, as tensors have."""
    if "node.control" in row.values:
        return
    from tensors import counts_agree

    cdata, keep = row["python.function_cdata"], []
    row.find(
        "node.counts",
        WORDS,
        lambda o, s: counts_agree(o, [(value(id(t.grad_fn) + cdata), lambda t=t: t * 2.0) for t in s.one], keep),
        first,
        second,
    )


def python_functions(row, first, second):
    meta_at, grad_fn = row["tensor.autograd_meta"], row["meta.grad_fn"]

    def nodes(s):
        return [(value(value(t._cdata + meta_at) + grad_fn), t.grad_fn) for _, t in s.custom]

    def is_python(s):
        return all(is_a(at, PYTHON_NODE) for at, _ in nodes(s))

    row.find(
        "node.python_object",
        range(8, 2048, 8),
        lambda o, s: is_python(s) and all(value(at + o) == id(context) for at, context in nodes(s)),
        first,
        second,
    )

    if row.values.get("node.python_object") == row["node.python"]:
        # from 2.13 on the one word is both; 0 says so
        row.values["node.python_object"] = 0
        row.proofs["node.python_object"] = lambda o: o == 0

    row.compared(
        "python.pyfunction_cdata",
        range(PYTHON_HEAD, torch.autograd.function._C._FunctionBase.__basicsize__, 8),
        "<Q",
        lambda s: [(id(context), at) for at, context in nodes(s)],
        first,
        second,
    )

    def saves(o, size, s):
        for saved, t in s.custom:
            begin, end = (words(id(t.grad_fn) + o, 2) + (0, 0))[:2]
            if not begin or end - begin != saved * size:
                return False
            # a leaf is saved as it is, in the first word (SavedVariable::data_)
            if any(value(begin + i * size) != s.leaves[i]._cdata for i in range(saved)):
                return False
        return True

    inside = range(PYTHON_HEAD, 512, 8)
    sizes = [size for size in range(32, 512, 8) if any(saves(o, size, first) for o in inside)]
    row.derived("saved.size_of", sizes[0] if len(sizes) == 1 else None, lambda size: any(saves(o, size, second) for o in inside))
    row.find("python.pyfunction_saved", inside, lambda o, s: saves(o, row["saved.size_of"], s), first, second)
