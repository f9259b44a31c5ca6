"""Collectives of every kind between the processes that torchrun starts; each rank prints what came out as JSON."""

import ctypes
import datetime
import json
import os
import time

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
facts = {"rank": rank}


def device(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).cuda()


# Values that differ by rank and place, exact in every type.
def mine(count=7, of=rank, dtype=torch.float32):
    return torch.tensor([(i + 1) * (of + 1) for i in range(count)], dtype=dtype)


KINDS = {
    "sum": (dist.ReduceOp.SUM, lambda t: t.sum(0)),
    "prod": (dist.ReduceOp.PRODUCT, lambda t: t.prod(0)),
    "min": (dist.ReduceOp.MIN, lambda t: t.min(0).values),
    "max": (dist.ReduceOp.MAX, lambda t: t.max(0).values),
    "avg": (dist.ReduceOp.AVG, lambda t: t.mean(0)),
}
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64]
wrong = []
for dtype in TYPES:
    for name, (op, expected) in KINDS.items():
        if name == "avg" and not dtype.is_floating_point:
            continue
        tensor = mine(5, dtype=dtype).cuda()
        dist.all_reduce(tensor, op)
        want = expected(torch.stack([mine(5, r, torch.float64) for r in range(world)])).to(dtype)
        if not torch.equal(tensor.cpu(), want):
            wrong.append([str(dtype), name, tensor.cpu().tolist(), want.tolist()])
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    tensor = mine(4).to(dtype).cuda()
    parts = [torch.empty(4, dtype=dtype, device="cuda") for _ in range(world)]
    dist.all_gather(parts, tensor)
    for r, part in enumerate(parts):
        if part.cpu().float().tolist() != mine(4, r).to(dtype).float().tolist():
            wrong.append([str(dtype), "all_gather", part.cpu().float().tolist()])
facts["wrong"] = wrong

# Larger than a tile, and not a multiple of anything.
big = torch.arange(1_000_003, dtype=torch.float32) * (rank + 1)
tensor = big.cuda()
dist.all_reduce(tensor)
facts["big"] = torch.equal(tensor.cpu(), torch.arange(1_000_003, dtype=torch.float32) * (world * (world + 1) // 2))

tensor = mine().cuda() if rank == 1 else torch.zeros(7, device="cuda")
dist.broadcast(tensor, 1)
facts["broadcast"] = tensor.cpu().tolist() == mine(of=1).tolist()

tensor = mine().cuda()
dist.reduce(tensor, 0)
facts["reduce"] = rank != 0 or tensor.cpu().tolist() == sum(mine(of=r) for r in range(world)).tolist()

out = torch.empty(7 * world, device="cuda")
dist.all_gather_into_tensor(out, mine().cuda())
facts["all_gather"] = out.cpu().tolist() == torch.cat([mine(of=r) for r in range(world)]).tolist()

out = torch.empty(3, device="cuda")
dist.reduce_scatter_tensor(out, mine(3 * world).cuda())
whole = sum(mine(3 * world, r) for r in range(world))
facts["reduce_scatter"] = out.cpu().tolist() == whole[3 * rank : 3 * rank + 3].tolist()

out = torch.empty(2 * world, device="cuda")
dist.all_to_all_single(out, mine(2 * world).cuda())
facts["all_to_all"] = (
    out.cpu().tolist() == torch.cat([mine(2 * world, r)[2 * rank : 2 * rank + 2] for r in range(world)]).tolist()
)

# A ring of sends and receives, several sizes in one group.
sends = [dist.P2POp(dist.isend, mine(n).cuda(), (rank + 1) % world) for n in (1, 5000, 3)]
inbox = [torch.empty(n, device="cuda") for n in (1, 5000, 3)]
receives = [dist.P2POp(dist.irecv, tensor, (rank - 1) % world) for tensor in inbox]
for work in dist.batch_isend_irecv(sends + receives):
    work.wait()
facts["ring"] = all(tensor.cpu().tolist() == mine(tensor.numel(), (rank - 1) % world).tolist() for tensor in inbox)

gathered = [None] * world
dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank})
facts["objects"] = gathered == [{"rank": r, "text": "x" * r} for r in range(world)]

# Other communicators: a group of its own, and one rank only.
both = dist.new_group(list(range(world)))
tensor = mine().cuda()
dist.all_reduce(tensor, group=both)
facts["group"] = tensor.cpu().tolist() == sum(mine(of=r) for r in range(world)).tolist()

# Order on streams: what a stream waits for is done before what it copies.
side = torch.cuda.Stream()
tensor = mine(100_000).cuda()
work = dist.all_reduce(tensor, async_op=True)
with torch.cuda.stream(side):
    work.wait()
    copied = tensor.to("cpu", non_blocking=True)
side.synchronize()
facts["streams"] = copied.tolist() == sum(mine(100_000, r) for r in range(world)).tolist()

scaled = mine().cuda()
dist.all_reduce(scaled, dist._make_nccl_premul_sum(2.0))
facts["premul"] = scaled.cpu().tolist() == (2 * sum(mine(of=r) for r in range(world))).tolist()

# What has no elements has no place in the order either.
if rank == 0:
    dist.all_reduce(torch.empty(0, device="cuda"))
tensor = mine().cuda()
dist.all_reduce(tensor)
facts["after_an_empty_one"] = tensor.cpu().tolist() == sum(mine(of=r) for r in range(world)).tolist()

# What is not computed does not wait on the host: rank 1 joins when rank 0 has launched it.
store, x, tensor = dist.distributed_c10d._get_default_store(), torch.ones(64, 64, device="cuda"), mine().cuda()
if rank == 0:
    dist.all_reduce(tensor)
    torch.nn.functional.layer_norm(x, (64,))
    store.set("launched", "")
else:
    store.wait(["launched"], datetime.timedelta(seconds=20))
    dist.all_reduce(tensor)
facts["launched"] = tensor.cpu().tolist() == sum(mine(of=r) for r in range(world)).tolist()

# The driver's call waits for all of the device too.
if rank == 1:
    time.sleep(0.2)
work = dist.all_reduce(tensor, async_op=True)
ctypes.CDLL("libcuda.so.1").cuCtxSynchronize()
facts["context_waits"] = work.is_completed()

dist.barrier()
dist.destroy_process_group()
files = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
facts["files_are_closed"] = not any("gpumem-sim-nccl" in name for name in files)
# One write: the ranks share one pipe, and under torchrun a newline of its own may come after another rank's line.
print(json.dumps(facts) + "\n", end="", flush=True)
