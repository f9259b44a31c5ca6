"""The small objects through which PyTorch's C++ objects own Python's: hooks, anomaly mode's metadata, the hooks of
saved_tensors_hooks, and the deleter of lent memory."""

from types import SimpleNamespace

import torch
from words import classes, code_sizes, in_file, usable, value, words

METADATA = "N5torch8autograd17PyAnomalyMetadataE"
SAVED_HOOKS = "N5torch8autograd20PySavedVariableHooksE"


def is_hook(name):
    """PyFunctionTensorPreHook, PyFunctionPreHook, PyFunctionPostHook (torch/csrc/autograd/python_hook.h)."""
    return name.startswith("N5torch8autograd") and "PyFunction" in name and name.endswith("HookE")


def packing(t):
    """Functions and an object of its own for what is saved of `t`."""
    cell = SimpleNamespace(data=None)

    def pack(tensor):
        cell.data = [tensor.detach()]
        return cell.data

    def unpack(data):
        return data[0]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        made = t.exp()
    return SimpleNamespace(tensor=made, pack=pack, unpack=unpack, data=cell.data)


def make(k):
    s = SimpleNamespace(k=k)
    s.leaves = [torch.empty(17 + 3 * k + i, requires_grad=True) for i in range(4)]
    made = [leaf * 2.0 for leaf in s.leaves]
    s.hooked = []  # (tensor or node, handle of a hook)
    for leaf, other in zip(s.leaves, made):
        s.hooked += [(leaf, leaf.register_hook(len)), (other.grad_fn, other.grad_fn.register_hook(len))]
        if hasattr(other.grad_fn, "register_prehook"):
            s.hooked.append((other.grad_fn, other.grad_fn.register_prehook(len)))
    functions = [(leaf * 3.0).grad_fn for leaf in s.leaves]
    s.noted = [(function, function.metadata) for function in functions]  # made where it is asked for
    s.packed = [packing(leaf) for leaf in s.leaves]
    s.buffers = [bytearray(500 + 90 * k + 100 * i) for i in range(24)]
    s.lent = [torch.frombuffer(b, dtype=torch.uint8) for b in s.buffers]
    s.storages = [t.untyped_storage() for t in s.lent]
    s.made = made
    return s


def pointed(address, wanted):
    """The objects of a class that the words of the object at `address` lead to, by themselves or as a vector of theirs. Words that
    an object never wrote have what stood there before: there may be more than it owns."""
    found = []
    body = words(address, usable(address) // 8)
    for begin, end in zip(body, (*body[1:], 0)):
        if any(map(wanted, classes(begin)[:1])):
            found.append(begin)
        elif begin < end <= begin + 4096 and (end - begin) % 8 == 0:
            found += [item for item in words(begin, (end - begin) // 8) if any(map(wanted, classes(item)[:1]))]
    return found


def held(row, name, cases, first, second):
    """Where an object of PyTorch's has its word for an object of Python's: cases(s) tells [(those that it may be in, the object)]."""

    bodies = {id(s): [([words(at, usable(at) // 8) for at in among], id(kept)) for among, kept in cases(s)] for s in (first, second)}

    def agrees(o, s):
        i = o // 8
        return o % 8 == 0 and all(any(i < len(b) and b[i] == kept for b in among) for among, kept in bodies[id(s)])

    row.find(name, range(8, 256, 8), agrees, first, second)
    row.say_there(name, lambda: [at for among, kept in cases(second) for at in among if value(at + row[name]) == id(kept)])


def python_objects(row, first, second):
    """Hooks and metadata have a dict each; what saved_tensors_hooks put in place of a tensor has two functions and what they made."""
    cdata, meta_at = row["python.function_cdata"], row["tensor.autograd_meta"]

    def within(x, wanted):
        return pointed(value(x._cdata + meta_at) if isinstance(x, torch.Tensor) else value(id(x) + cdata), wanted)

    held(row, "hooks.dict", lambda s: [(within(x, is_hook), handle.hooks_dict_ref()) for x, handle in s.hooked], first, second)
    held(row, "hooks.metadata_dict", lambda s: [(within(f, METADATA.__eq__), noted) for f, noted in s.noted], first, second)
    for name in ("pack", "unpack", "data"):
        held(
            row,
            f"hooks.saved_{name}",
            lambda s, name=name: [(within(x.tensor.grad_fn, SAVED_HOOKS.__eq__), getattr(x, name)) for x in s.packed],
            first,
            second,
        )


def lender(row, first, second):
    """Memory with a deleter of its own: c10::InefficientStdFunctionContext keeps a std::function, whose functor is the lender."""
    context = row["storage.context"]

    def contexts(s):
        return [(value(x._cdata + context + 8), value(x._cdata + context), b) for x, b in zip(s.storages, s.buffers)]

    def agrees(o, s):
        # the functor's two words, then its manager and its invoker (libstdc++, bits/std_function.h)
        return all(
            value(at + o) == id(b) and all(in_file(value(at + o + w) or 0) for w in (16, 24)) for at, _, b in contexts(s)
        )

    row.find("lender.function", range(0, 256, 8), agrees, first, second)

    def sizes(s):
        # of one class: the smallest chunk is not a step larger than it had to be
        room = min(usable(at) for at, _, _ in contexts(s))
        return {size: at for _, deleter, _ in contexts(s) for size, at in code_sizes([deleter], room).items()}

    found = sizes(first)
    row.say("lender.size_of", lambda: [("code", at) for at in sizes(second).values()])
    row.derived("lender.size_of", [*found][0] if len(found) == 1 else None, lambda n: [*sizes(second)] == [n])
