"""StorageImpl, TensorImpl, AutogradMeta and their Python wrappers."""

import struct
from types import SimpleNamespace

import torch
from words import PYTHON_HEAD, classes, deleted_sizes, in_file, is_a, read, usable, value, words

META = "N5torch8autograd12AutogradMetaE"
VIEW_META = "N5torch8autograd22DifferentiableViewMetaE"
# c10::ScalarType: numbers only grow from version to version (torch/headeronly/core/ScalarType.h)
DTYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
}
WORDS = range(8, 512, 8)
BYTES = range(8, 512)
LEVELS = []


def make(k):
    """Objects of every kind; those of another k are others, with other numbers."""
    s = SimpleNamespace(k=k)
    n = 211 + 90 * k
    devices = ["cpu", "cuda:0", "cuda:1", "cuda:2"]
    s.plain = [torch.empty(n + 16 * i, device=d) for i, d in enumerate(devices * 2)]
    s.typed = [torch.empty(n + 5 * i, dtype=t) for i, t in enumerate(DTYPES)]
    s.shaped = [torch.empty([2 + k + (i * (k + 1)) % 3 for i in range(d)]) for d in range(8)]
    s.parts = [t[3 + k + 7 * i :] for i, t in enumerate(s.plain)]
    s.buffers = [bytearray(n + 100 * i) for i in range(3)]
    s.lent = [torch.frombuffer(b, dtype=torch.uint8) for b in s.buffers]
    s.leaves = [torch.empty(n + i, device=d, requires_grad=True) for i, d in enumerate(devices)]
    for leaf in s.leaves:
        leaf.grad = torch.empty_like(leaf)
    s.made = [leaf * 2.0 for leaf in s.leaves]
    s.retained = [leaf * 3.0 for leaf in s.leaves[: 2 + k]]
    for t in s.retained:
        t.retain_grad()
    s.views = [leaf[2 + i :] for i, leaf in enumerate(s.leaves)] + [s.made[0].view(-1, 1)]
    # has an AutogradMeta, and no gradient is wanted of it
    s.stopped = [torch.empty(n + i, requires_grad=True) for i in range(3)]
    for t in s.stopped:
        t.requires_grad_(False)
    s.hooked = [torch.empty(n + i, requires_grad=True) for i in range(3)]
    s.post_hooked = [torch.empty(n + i, requires_grad=True) for i in range(3)]
    for t in s.hooked:
        t.register_hook(len)
    for t in s.post_hooked:
        t.register_post_accumulate_grad_hook(len)
    s.tensors = [*s.plain, *s.typed, *s.shaped, *s.parts, *s.lent, *s.leaves, *s.made, *s.retained, *s.stopped]
    # a storage's wrapper is an object of its own, to be kept
    s.storages = [t.untyped_storage() for t in [*s.plain, *s.typed, *s.lent]]
    s.dual = dual_views(k)
    return s


def dual_views(k):
    """(view, base for backward, base for forward): where forward-mode differentiation gives a tensor two bases."""
    import torch.autograd.forward_ad as forward

    if not LEVELS:
        LEVELS.append(forward.enter_dual_level())  # there can be one; it is left with the process
    found = []
    for i in range(3 + k):
        plain = torch.empty(30 + k + i, requires_grad=True)
        dual = forward.make_dual(plain, torch.empty_like(plain), level=LEVELS[0])
        found.append((dual[1:], plain, dual))
    return found


def device_bytes(t):
    kinds = {"cpu": 0, "cuda": 1}
    index = -1 if t.device.index is None else t.device.index
    return struct.unpack("<H", struct.pack("<bb", kinds[t.device.type], index))[0]


def within(addresses, step=8):
    return range(8, min(map(usable, addresses)), step)


def counts_agree(offset, pairs, keep):
    """Strong counts in the low half of a word, weak ones in the high half: objects that are referred to once more count
    one more. `pairs`: (address, a function that makes one more reference)."""
    for address, refer in pairs:
        before = value(address + offset)
        keep.append([refer() for _ in range(3)])
        after = value(address + offset)
        if before is None or after is None or (after - before) & 0xFFFFFFFF != 3 or before >> 32 != after >> 32:
            return False
        if not 0 < before & 0xFFFFFFFF < 1000 or before >> 32 & 0x7FFFFFFF != 1:
            return False
    return True


def find_sizes(row, name, first, second, objects_of):
    """How long the objects are."""
    sizes = deleted_sizes(objects_of(first))

    def holds(number):
        least = min(map(usable, objects_of(second)))
        return [*deleted_sizes(objects_of(second))] == [number] and least - 32 < number <= least

    row.say(name, lambda: [("code", at) for at in deleted_sizes(objects_of(second)).values()])
    row.derived(name, [*sizes][0] if len(sizes) == 1 else None, holds)


def storage(row, first, second):
    def storages(s):
        return [x._cdata for x in s.storages]

    keep = []
    find_sizes(row, "storage.size_of", first, second, storages)
    row.find(
        "storage.counts",
        within(storages(first)),
        lambda o, s: counts_agree(o, [(t.untyped_storage()._cdata, lambda t=t: t.detach()) for t in s.plain], keep),
        first,
        second,
    )
    row.compared("storage.data", WORDS, "<Q", lambda s: [(x._cdata, x.data_ptr()) for x in s.storages], first, second)
    lent = {id(s): [t.untyped_storage() for t in s.lent] for s in (first, second)}

    def context(o, s):
        # a std::unique_ptr<void, deleter>: libstdc++ has the deleter first, a function
        own = all(
            value(t.untyped_storage()._cdata + o + 8) == t.data_ptr() and in_file(value(t.untyped_storage()._cdata + o) or 0)
            for t in s.plain
        )
        # of lent memory it is an object of the lender's, which begins with the address (c10/core/Allocator.h,
        # InefficientStdFunctionContext)
        return own and all(
            value(x._cdata + o + 8) != x.data_ptr() and value(value(x._cdata + o + 8) or 0) == x.data_ptr() for x in lent[id(s)]
        )

    row.find("storage.context", WORDS, context, first, second)
    row.compared(
        "storage.device",
        BYTES,
        "<H",
        lambda s: [(t.untyped_storage()._cdata, device_bytes(t)) for t in s.plain],
        first,
        second,
    )
    row.compared("storage.size_bytes", WORDS, "<Q", lambda s: [(x._cdata, x.nbytes()) for x in s.storages], first, second)
    mask = (1 << 64) - 2
    row.find(
        "storage.python", WORDS, lambda o, s: all((value(x._cdata + o) or 0) & mask == id(x) for x in s.storages), first, second
    )
    row.compared(
        "python.storage_cdata", range(PYTHON_HEAD, 96, 8), "<Q", lambda s: [(id(x), x._cdata) for x in s.storages], first, second
    )


def tensor(row, first, second):
    def tensors(s):
        return [t._cdata for t in s.tensors]

    def derived(name, offsets, form, of):
        row.compared(f"tensor.{name}", offsets, form, lambda s: [(t._cdata, of(t)) for t in s.tensors], first, second)

    keep = []
    find_sizes(row, "tensor.size_of", first, second, tensors)
    row.find(
        "tensor.counts",
        within(tensors(first)),
        # a view's metadata refers to the tensor that it is a view of
        lambda o, s: counts_agree(o, [(t._cdata, lambda t=t: t[1:]) for t in s.leaves], keep),
        first,
        second,
    )
    counts = row["tensor.counts"]
    wrapped = {value(t._cdata + counts) >> 63 for t in first.tensors}
    row.derived(
        "packed_python_bit",
        wrapped.pop() if len(wrapped) == 1 else None,
        lambda bit: all(value(t._cdata + counts) >> 63 == bit for t in second.tensors),
    )
    derived("storage", WORDS, "<Q", lambda t: t.untyped_storage()._cdata)
    derived("dimensions", WORDS, "<Q", lambda t: t.dim())
    derived("storage_offset", WORDS, "<Q", lambda t: t.storage_offset())
    derived("numel", WORDS, "<Q", lambda t: t.numel())
    row.compared("tensor.dtype", range(8, 512, 2), "<H", lambda s: [(t._cdata, DTYPES[t.dtype]) for t in s.typed], first, second)
    row.compared("tensor.device", BYTES, "<H", lambda s: [(t._cdata, device_bytes(t)) for t in s.plain], first, second)

    def inline(o, t):
        return words(t._cdata + o, t.dim()) == tuple(t.shape)

    def beside(o, t):
        return words(value(t._cdata + o) or 0, t.dim()) == tuple(t.shape)

    row.find(
        "tensor.sizes",
        WORDS,
        lambda o, s: all(inline(o, t) or (t.dim() > 1 and beside(o, t)) for t in s.tensors if t.dim() > 0),
        first,
        second,
    )
    sizes = row["tensor.sizes"]
    most = max(t.dim() for t in first.shaped if inline(sizes, t))
    row.derived(
        "tensor.inline_dimensions",
        most,
        lambda limit: all((inline if t.dim() <= limit else beside)(sizes, t) for t in second.shaped),
    )
    mask = (1 << 64) - 2
    row.find("tensor.python", WORDS, lambda o, s: all((value(t._cdata + o) or 0) & mask == id(t) for t in s.tensors), first, second)


def wrapper(row, first, second):
    def holds(o, s):
        return all(value(id(t) + o) == t._cdata for t in s.tensors)

    fits = [o for o in range(PYTHON_HEAD, 96, 8) if holds(o, first)]
    # a c10::MaybeOwned has a flag word first (until 2.9)
    flagged = fits == [PYTHON_HEAD + 8]
    at = fits[0] - 8 * flagged if len(fits) == 1 else None
    row.derived("python.tensor_cdata", at, lambda o: holds(o + 8 * flagged, second))
    row.derived("python.tensor_maybe_owned", int(flagged), lambda flag: holds(row["python.tensor_cdata"] + 8 * flag, second))
    inside = range(PYTHON_HEAD, torch.Tensor.__basicsize__, 8)
    row.compared("python.tensor_hooks", inside, "<Q", lambda s: [(id(t), id(t._backward_hooks)) for t in s.hooked], first, second)
    row.compared(
        "python.tensor_post_hooks",
        inside,
        "<Q",
        lambda s: [(id(t), id(t._post_accumulate_grad_hooks)) for t in s.post_hooked],
        first,
        second,
    )


def meta(row, first, second):
    def with_meta(s):
        return [*s.leaves, *s.made, *s.retained, *s.views, *s.stopped]

    def pointed(o, s):
        return all(is_a(value(t._cdata + o) or 0, META) for t in with_meta(s)) and all(value(t._cdata + o) == 0 for t in s.plain)

    row.find("tensor.autograd_meta", WORDS, pointed, first, second)
    at = row["tensor.autograd_meta"]

    def metas(tensors):
        return [(value(t._cdata + at), t) for t in tensors]

    find_sizes(row, "meta.size_of", first, second, lambda s: [m for m, _ in metas([*s.leaves, *s.made])])
    find_sizes(row, "meta.view_size_of", first, second, lambda s: [m for m, _ in metas(s.views)])
    row.compared("meta.grad", WORDS, "<Q", lambda s: [(m, t.grad._cdata) for m, t in metas(s.leaves)], first, second)

    def requires(s):
        return [(m, int(t.requires_grad and t.is_leaf)) for m, t in metas(with_meta(s))]

    def follows(o, s):
        # what lay there before may look like it in all of them: some are changed and changed back
        seen = []
        for wanted in (True, False):
            for t in s.stopped:
                t.requires_grad_(wanted)
            seen.append(all(value(m + o, "<B") == number for m, number in requires(s)))
        return all(seen)

    row.find("meta.requires_grad", BYTES, follows, first, second)
    row.say("meta.requires_grad", lambda: [("word", 1, *case) for case in requires(second)])
    backward = lambda s: [(m, t._base._cdata) for m, t in metas(s.views)] + [(m, b._cdata) for m, b in duals(s, 1)]
    forward = lambda s: [(m, f._cdata) for m, f in duals(s, 2)]

    def duals(s, which):
        return [(value(case[0]._cdata + at), case[which]) for case in s.dual]

    row.compared("meta.view_backward", WORDS, "<Q", backward, first, second)
    row.compared("meta.view_forward", WORDS, "<Q", forward, first, second)
    # std::optional<ViewInfo>: behind the value a byte that says whether there is one. Of plain views only the first has
    ends = {"meta.view_backward": "meta.view_forward", "meta.view_forward": "meta.view_size_of"}
    for name, following in ends.items():
        begin, end = row[name] + 16, row[following]

        def flagged(o, s, forward=name.endswith("forward")):
            return all(value(m + o, "<B") == 1 for m, _ in duals(s, 1)) and all(
                value(m + o, "<B") == (0 if forward else 1) for m, t in metas(s.views)
            )

        row.find(name + "_set", range(begin, end, 8), flagged, first, second)
        row.say(name + "_set", lambda: [("word", 1, m, 1) for m, _ in duals(second, 1)])
