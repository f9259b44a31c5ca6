"""c10d::Reducer and its buckets, in which DistributedDataParallel gathers gradients (torch/csrc/distributed/c10d/reducer.hpp).

The Reducer has no vtable; what leads to it is the pybind11 instance that Python has. Nothing is sent: its process group is the
fake one that PyTorch has for its own tests.
"""

from types import SimpleNamespace

import torch
from words import classes, usable, value, words

INSTANCE = 16  # pybind11/detail/common.h: struct instance: its head, then the pointer to what it wraps
FUTURE = "N3c106ivalue6FutureE"


def group():
    import torch.distributed as dist
    import torch.testing._internal.distributed.fake_pg  # noqa: F401: registers the backend

    if not dist.is_initialized():
        dist.init_process_group("fake", rank=0, world_size=2, store=dist.HashStore())
    return dist.distributed_c10d._get_default_group()


def reducer(parameters, buckets, **options):
    limits = [1 << 20] * len(buckets)
    return torch.distributed.Reducer(
        parameters, buckets, limits, group(), gradient_as_bucket_view=not options, **options
    )


def hook(s, bucket):
    """Stands for the all-reduce: its result is another tensor than the bucket's."""
    buffer = bucket.buffer()
    s.gathered.append(buffer)
    s.results.append(torch.zeros_like(buffer._values() if buffer.is_sparse else buffer))
    future = torch.futures.Future()
    future.set_result(s.results[-1])
    return future


def step(s, loss):
    torch.distributed._register_comm_hook(s.reducer, s, hook)
    s.reducer.prepare_for_forward()
    s.reducer.prepare_for_backward([loss])
    loss.backward()


def dense(k):
    s = SimpleNamespace(gathered=[], results=[])
    s.parameters = [torch.nn.Parameter(torch.ones(7 + k + 3 * i)) for i in range(5 + 2 * k)]
    of = range(len(s.parameters))
    s.buckets = [[i for i in of if i % (2 + k) == b] for b in range(2 + k)]
    s.reducer = reducer(s.parameters, s.buckets)
    step(s, sum(p.sum() for p in s.parameters))
    return s


def sparse(k):
    """One whose gradients name the rows that they are of."""
    s = SimpleNamespace(gathered=[], results=[])
    s.parameters = [torch.nn.Parameter(torch.ones(9 + k, 3)) for _ in range(2 + k)]
    of = range(len(s.parameters))
    s.buckets = [[i] for i in of]
    s.reducer = reducer(
        s.parameters, s.buckets, expect_sparse_gradients=[True for _ in of], param_to_name_mapping={i: f"p{i}" for i in of}
    )
    s.rows = [torch.arange(9 + k) for _ in of]
    s.reducer._set_sparse_metadata({f"p{i}": rows for i, rows in enumerate(s.rows)})
    step(s, sum(torch.nn.functional.embedding(rows, p, sparse=True).sum() for rows, p in zip(s.rows, s.parameters)))
    return s


def vector(body, o):
    """The bounds of the std::vector there; (0, 0): there is none."""
    begin, end, room = (*body[o // 8 : o // 8 + 3], 0, 0, 0)[:3]
    return (begin, end) if begin and begin < end <= room and room - begin < 1 << 20 else (0, 0)


def items(body, o):
    begin, end = vector(body, o)
    return list(words(begin, min(end - begin, 1 << 16) // 8))


def tensors(body, o, wanted):
    return o % 8 == 0 and items(body, o) == [t._cdata for t in wanted]


def own(s, i):
    return [s.parameters[p] for p in s.buckets[i]]


def read(s):
    s.at = value(id(s.reducer) + INSTANCE)
    s.body = words(s.at, usable(s.at) // 8)


def of_length(s, size):
    """Where the buckets are, of so many bytes each, wherever in the Reducer: each has its parameters in a vector."""
    for o in range(0, 8 * len(s.body), 8):
        begin, end = vector(s.body, o)
        if end - begin == size * len(s.buckets):
            places = range(begin, end, size)
            bodies = [words(at, size // 8) for at in places]
            if all(any(tensors(body, o, own(s, i)) for o in range(0, size, 8)) for i, body in enumerate(bodies)):
                yield places


def enter(s, size):
    s.places = next(of_length(s, size))
    s.bodies = [words(at, size // 8) for at in s.places]


def each(agrees):
    """Of all buckets: agrees(offset, objects, which bucket, its words)."""
    return lambda o, s: all(o % 8 == 0 and o // 8 < len(body) and agrees(o, s, i, body) for i, body in enumerate(s.bodies))


def find(row):
    if not torch.distributed.is_available():
        return
    first, second = dense(0), dense(1)
    for s in (first, second):
        read(s)
    row.find("reducer.parameters", range(0, 4096, 8), lambda o, s: tensors(s.body, o, s.parameters), first, second)
    row.say_there("reducer.parameters", lambda: [second.at])
    sizes = [size for size in range(64, 512, 8) if any(of_length(first, size))]
    row.derived("reducer.bucket_size_of", sizes[0] if len(sizes) == 1 else None, lambda size: any(of_length(second, size)))
    row.say("reducer.bucket_size_of", lambda: [("apart", *second.places[:2])])
    size, storage = row["reducer.bucket_size_of"], row["tensor.storage"]
    for s in (first, second):
        enter(s, size)
        # distinguished by their length: they are gathered in the order in which they are ready
        gathered = {t.numel(): (t, result.untyped_storage()._cdata) for t, result in zip(s.gathered, s.results)}
        s.kept, s.stored = zip(*(gathered[sum(p.numel() for p in own(s, i))] for i in range(len(s.buckets))))

    def derived(name, agrees):
        row.find(f"reducer.{name}", range(0, size, 8), each(agrees), first, second)
        row.say_there(f"reducer.{name}", lambda: second.places)

    derived("gradients", lambda o, s, i, body: body[o // 8] == s.kept[i]._cdata)
    derived("variables", lambda o, s, i, body: tensors(body, o, own(s, i)))
    derived("views_in", lambda o, s, i, body: tensors(body, o, [p.grad for p in own(s, i)]))

    def results(o, s, i, body):
        found = items(body, o)
        return len(found) == len(s.buckets[i]) and all(value(t + storage) == s.stored[i] for t in found)

    derived("views_out", results)
    derived("future_work", lambda o, s, i, body: FUTURE in classes(body[o // 8])[:1])
    row.buckets = (first, second)


def find_sparse(row):
    size, storage = row.values.get("reducer.bucket_size_of"), row["tensor.storage"]
    if not size:
        return
    first, second = sparse(0), sparse(1)
    for s in (first, second):
        read(s)
        enter(s, size)
    # a std::optional, whose tensor is a view of what was given
    row.find(
        "reducer.sparse_indices",
        range(0, size, 8),
        each(lambda o, s, i, body: value(body[o // 8] + storage) == s.rows[i].untyped_storage()._cdata),
        first,
        second,
    )
    row.say_there("reducer.sparse_indices", lambda: second.places)


def gradients(row, made, parameters):
    """The address of the first bucket's flat tensor."""
    s = SimpleNamespace(reducer=made, parameters=parameters, buckets=[[*range(len(parameters))]])
    read(s)
    return value(next(of_length(s, row["reducer.bucket_size_of"]))[0] + row["reducer.gradients"])
