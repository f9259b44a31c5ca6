"""One rank of a job whose other ranks do not exist: what it gets from gathers and broadcasts, also under DDP."""

import json

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
mine = torch.tensor([5, 6, 7], device="cuda")
facts = {"rank": rank}

listed = [torch.zeros(3, dtype=torch.int64, device="cuda") for _ in range(world)]
dist.all_gather(listed, mine)
facts["listed"] = [part.tolist() for part in listed]

whole = torch.zeros(3 * world, dtype=torch.int64, device="cuda")
dist.all_gather_into_tensor(whole, mine)
facts["whole"] = whole.view(world, 3).tolist()

uneven = [torch.full((3 if other == rank else 2,), -1, dtype=torch.int64, device="cuda") for other in range(world)]
dist.all_gather(uneven, mine)
facts["uneven"] = [part.tolist() for part in uneven]

# each from its owner, into its own tensor: what another rank would send is not known
owned = [torch.full((3,), 10 + other, device="cuda") for other in range(world)]
with dist._coalescing_manager(device=torch.device("cuda"), async_ops=False):
    for other in range(world):
        dist.broadcast(owned[other], src=other)
facts["owned"] = [part.tolist() for part in owned]

model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).to("cuda"))
model(torch.ones(2, 4, device="cuda")).sum().backward()
facts["gradients"] = sum(parameter.grad is not None for parameter in model.parameters())
print(json.dumps(facts), flush=True)
dist.destroy_process_group()
