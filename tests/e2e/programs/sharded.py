"""One rank of two that trains under FSDP (1 or 2): its modules' weights are of one size, sharded and gathered."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

dist.init_process_group("nccl")
torch.manual_seed(0)
model = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512, bias=False), nn.ReLU()) for _ in range(4)))
if sys.argv[1] == "2":
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.cuda()
else:

    def wrap(module, recurse, nonwrapped_numel):
        return recurse or len(list(module.children())) == 2

    model = FullyShardedDataParallel(model, auto_wrap_policy=wrap, device_id=torch.cuda.current_device(), use_orig_params=True)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = model(torch.randn(64, 512, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
