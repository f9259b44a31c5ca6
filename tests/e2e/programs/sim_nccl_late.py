"""Rank 1 comes to a collective only after rank 0 has launched large kernels behind it: rank 0 must not wait for them."""

import json
import os

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
store = dist.distributed_c10d._get_default_store()
few, many = torch.ones(4).cuda(), torch.ones(1 << 20).cuda()
large = torch.zeros(1 << 20).cuda()
dist.all_reduce(few)
torch.cuda.synchronize()
if rank == 1:
    store.wait(["launched"])
calls = [dist.all_reduce(tensor, async_op=True) for tensor in (few, many)]
for call in calls:
    call.wait()
large.mul_(2)
many.mul_(2)  # too large to be computed: what it would have changed is no longer right
store.set("launched" if rank == 0 else "too", "")
facts = {"rank": rank, "few": (few + 1).tolist(), "many": many[:1].tolist()}
print(json.dumps(facts) + "\n", end="", flush=True)
dist.destroy_process_group()
