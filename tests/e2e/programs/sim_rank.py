"""One rank of 1,024: what it sees of the job and what its collectives give; as an ordinary script asks. With the word
"eager" the communicator is made at once and its parts by ncclCommSplit."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
eager = {"device_id": torch.device("cuda", int(os.environ["LOCAL_RANK"]))} if "eager" in sys.argv else {}
dist.init_process_group("nccl", **eager)
world = dist.get_world_size()
facts = {"rank": dist.get_rank(), "world": world, "backend": dist.get_backend()}

ops = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.AVG, "max": dist.ReduceOp.MAX}
for name, op in ops.items():
    tensor = torch.arange(4, dtype=torch.float32).cuda()
    dist.all_reduce(tensor, op)
    facts[name] = tensor.cpu().tolist()
gathered = torch.empty(4 * world, device="cuda")
dist.all_gather_into_tensor(gathered, torch.arange(4, dtype=torch.float32).cuda())
facts["gathered"] = gathered.cpu().tolist() == [0, 1, 2, 3] * world
part = torch.empty(2, device="cuda")
dist.reduce_scatter_tensor(part, torch.ones(2 * world).cuda())
facts["scattered"] = part.cpu().tolist()
objects = [None] * world
dist.all_gather_object(objects, {"rank": dist.get_rank()})
facts["objects"] = [len(objects), objects[0], objects[-1]]
dist.barrier()
mesh = init_device_mesh("cuda", (world // 8, 8), mesh_dim_names=("data", "tensor"))
facts["mesh"] = [mesh["data"].get_local_rank(), mesh["tensor"].get_local_rank()]
for name in ("data", "tensor"):
    tensor = torch.ones(1).cuda()
    dist.all_reduce(tensor, group=mesh[name].get_group())
    facts[f"over_{name}"] = tensor.item()
for ranks in ([1, 3, 7], [3], [0, 1]):
    tensor = torch.ones(1).cuda()
    group = dist.new_group(ranks)
    if dist.get_rank() in ranks:
        dist.all_reduce(tensor, group=group)
    facts.setdefault("over_some", []).append(tensor.item())
dist.destroy_process_group()
print(json.dumps(facts))
