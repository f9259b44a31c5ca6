"""FSDP2 on two ranks: what each holds, and the values of a parameter that was set on the host, gathered again."""

import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
world = dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(4)))
before = [layer.weight.detach().clone() for layer in model]
for layer in model:
    fully_shard(layer)
fully_shard(model)
model.cuda()
optimizer = torch.optim.AdamW(model.parameters())
facts = {"rank": dist.get_rank(), "parameters": sum(w.numel() for w in before), "sharded": torch.cuda.memory_allocated()}
whole = [p.full_tensor().cpu() for p in model.parameters()]
facts["gathered"] = all(torch.equal(a, b) for a, b in zip(whole, before))
for _ in range(2):
    model(torch.randn(8, 2048).cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
facts["states"] = sum(s.to_local().nbytes for state in optimizer.state.values() for s in state.values() if hasattr(s, "to_local"))
facts["after"] = torch.cuda.memory_allocated()
facts["peak"] = torch.cuda.max_memory_allocated()
free, total = torch.cuda.mem_get_info()
facts["outside"] = total - free - torch.cuda.memory_reserved()
dist.destroy_process_group()
print(json.dumps(facts) + "\n", end="", flush=True)
