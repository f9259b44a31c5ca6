"""The probe of `gpumem learn`: finds where a PyTorch has its objects' fields, and proves each (docs/learning.md).

    PYTHON probe.py DESCRIPTOR SITE

It runs on the simulated device with three GPUs, in the very Python that is asked about: SITE is the folder that has its
`torch`, "" where Python finds it. What it found goes to the open file DESCRIPTOR, a line each, as does what PyTorch
says of the objects that are alive then; it then stands still until its standard input ends, so that gpumem can read it
as it reads any process, and compare. Nothing is read from the standard output: sitecustomize may print there.
"""

import gc
import os
import signal
import sys
import time

started = time.monotonic()
signal.alarm(120)  # whoever asked may be gone
# the number is searched for in the allocator's statistics, which take it when the allocator begins
MAX_SPLIT = 333
for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
    os.environ[name] = f"max_split_size_mb:{MAX_SPLIT}"
sys.path[0] = os.path.dirname(os.path.abspath(__file__))
if len(sys.argv) > 2 and sys.argv[2]:
    sys.path.insert(1, sys.argv[2])

import torch  # noqa: E402

if not torch.cuda.is_available():
    raise SystemExit(f"PyTorch {torch.__version__} sees no GPU: it is built without CUDA, or for another kind of device")

import allocator  # noqa: E402
import buckets  # noqa: E402
import graph  # noqa: E402
import held  # noqa: E402
import owners  # noqa: E402
import tensors  # noqa: E402
import traces  # noqa: E402
import words  # noqa: E402

LARGEST = 1 << 63


def find():
    row = words.Row()
    row.max_split = MAX_SPLIT << 20
    first, second = tensors.make(0), tensors.make(1)
    for part in (tensors.storage, tensors.tensor, tensors.wrapper, tensors.meta):
        row.attempt(part, first, second)
    row.tensors = first.tensors + second.tensors
    one, two = graph.make(0), graph.make(1)
    for part in (graph.node, graph.edges, graph.shared, graph.counted, graph.python_functions):
        row.attempt(part, one, two)
    row.graphs = (one, two)
    row.owners = one, two = owners.make(0), owners.make(1)
    for part in (owners.python_objects, owners.lender):
        row.attempt(part, one, two)
    row.attempt(buckets.find)
    row.attempt(buckets.find_sparse)
    allocator.give_back()
    zero, one = allocator.make(0), allocator.make(1)
    for pause in (0.1, 0.5, 0):
        before = dict(row.missing)
        allocator.look((zero, one))
        for part in (allocator.objects, allocator.statistics, allocator.tables, allocator.block, allocator.pools):
            row.attempt(part, zero, one)
        if row.missing == before or not pause:
            break
        # a thread of PyTorch's own released memory meanwhile, as after a backward pass
        row.missing = before
        time.sleep(pause)
    for part in (allocator.expandable, allocator.whole):
        row.attempt(part, zero, one)
    row.attempt(held.make)
    traces.make((zero, one))
    row.attempt(traces.trace, zero, one)
    row.attempt(traces.find_context, zero, one)
    # the rings that gpumem is to read
    traces.make((zero, one))
    row.sets, row.keep = (zero, one), (first, second)
    return row


def believed(row):
    """For tests: the fields that would still be believed eight bytes away."""
    for name, number in row.values.items():
        for moved in (number + 8, number - 8) if number > 1 else (1 - number,):
            if moved >= 0 and row.proofs[name](moved):
                yield name, moved


def tensor_line(t, row):
    kinds = {"cpu": 0, "cuda": 1}
    function = t.grad_fn  # an object made for the question, where nobody has it
    node = 0 if function is None else words.value(id(function) + row.values.get("python.function_cdata", 0))
    numbers = (
        t._cdata,
        t.untyped_storage()._cdata,
        t.storage_offset(),
        t.numel(),
        kinds[t.device.type],
        -1 if t.device.index is None else t.device.index,
        id(t),
        int(t.is_leaf and t.requires_grad),
        node,
        t.grad._cdata if t.is_leaf and t.grad is not None else 0,
        t._base._cdata if t._is_view() else 0,
        t.untyped_storage().data_ptr(),
        t.untyped_storage().nbytes(),
    )
    shape = [t.dim(), *t.shape]
    return " ".join(map(str, ("tensor", str(t.dtype).removeprefix("torch."), *numbers, *shape)))


def node_lines(row):
    cdata = row.values.get("python.function_cdata")
    for s in row.graphs if cdata else ():
        for function, before in zip(s.functions, s.before):
            yield f"node {words.value(id(function) + cdata)} {function.name().split('::')[-1]} {len(before)}"


def block_lines(row):
    states = {"inactive": 0, "active_allocated": 1, "active_pending_free": 2}
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        private = int(tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0))
        for block in segment["blocks"]:
            numbers = (
                segment["device"],
                address,
                block["size"],
                block.get("requested_size", 0),
                segment["stream"],
                states.get(block["state"], 2),
                int(segment["segment_type"] == "small"),
                private,
            )
            yield "block " + " ".join(map(str, numbers))
            address += block["size"]


def sum_lines():
    for device in range(torch.cuda.device_count()):
        stats = torch.cuda.memory_stats(device)
        total = torch.cuda.get_device_properties(device).total_memory
        numbers = [
            stats[f"{key}_bytes.all.{what}"] for what in ("current", "peak") for key in ("allocated", "reserved", "active", "requested")
        ]
        limit = int(allocator.FRACTIONS.get(device, 0) * total)
        yield "sum " + " ".join(map(str, (device, *numbers, limit, total, MAX_SPLIT << 20)))


def trace_lines(row):
    for s in row.sets if "allocator.trace_entries" in row.values else ():
        for entry in s.trace:
            numbers = (s.index, *(traces.field_of(entry, name) for name in ("action", "address", "size", "stream")))
            yield "trace " + " ".join(map(str, numbers))


def said_lines(row):
    """Of each field some places where it shows."""
    for name in row.values:
        for kind, *numbers in row.said.get(name, list)()[:8]:
            yield " ".join(map(str, (kind, name, *numbers)))


def lines(row):
    yield f"pid {os.getpid()}"
    yield f"version {torch.__version__}"
    yield f"python {sys.version_info[0]}.{sys.version_info[1]}.{sys.version_info[2]}"
    yield from (f"field {name} {number}" for name, number in row.values.items())
    yield from (f"missing {name} {why}" for name, why in row.missing.items())
    yield from (tensor_line(t, row) for t in row.tensors)
    yield from node_lines(row)
    yield from trace_lines(row)
    yield from block_lines(row)
    yield from sum_lines()
    # when all is asked for: a snapshot adds itself to the trace
    yield from said_lines(row)
    # who holds them takes longest to find
    yield from (f"held {address} {name}" for name, address in held.names.items())


def main():
    imported = time.monotonic()
    gc.disable()  # what was asked of PyTorch stays true
    with torch.enable_grad():
        row = find()
    moved = [f"believed {name} {number}\n" for name, number in believed(row)] if "--moved" in sys.argv else []
    text = "gpumem-torch-probe 1\n" + "".join(line + "\n" for line in lines(row)) + "".join(moved)
    if "--times" in sys.argv:
        print(f"import {imported - started:.2f} s, find {time.monotonic() - imported:.2f} s", row.took, file=sys.stderr)
    with os.fdopen(int(sys.argv[1]), "w", closefd=False) as out:
        out.write(text + "end\n")
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
    os._exit(0)
