"""DDP on two ranks against the same with gloo on the CPU: gradients that were set on the host are averaged alike."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

backend = sys.argv[1]
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if backend == "nccl" else torch.device("cpu")
if backend == "nccl":
    torch.cuda.set_device(device)
dist.init_process_group(backend)
rank, world = dist.get_rank(), dist.get_world_size()


class Given(torch.autograd.Function):
    """A loss whose gradient is told by the host."""

    @staticmethod
    def forward(ctx, weight, gradient):
        ctx.save_for_backward(gradient)
        return weight.new_zeros(())

    @staticmethod
    def backward(ctx, of_loss):
        return ctx.saved_tensors[0].clone(), None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(rank)
        self.weights = nn.ParameterList(torch.randn(n, generator=generator) for n in (1000, 70_000, 3))

    def forward(self, gradients):
        return sum(Given.apply(w, g) for w, g in zip(self.weights, gradients))


model = DistributedDataParallel(Model().to(device))
generator = torch.Generator().manual_seed(100 + rank)
gradients = [torch.randn(w.shape, generator=generator).to(device) for w in model.module.weights]
model(gradients).backward()
norms = [w.grad.cpu().double().sum().item() for w in model.module.weights]
# Rank 0's weights were broadcast when DDP was made.
weights = [w.detach().cpu().double().sum().item() for w in model.module.weights]
losses = [None] * world
dist.all_gather_object(losses, {"rank": rank, "loss": rank + 0.5})
dist.destroy_process_group()
print(json.dumps({"rank": rank, "gradients": norms, "weights": weights, "losses": losses}) + "\n", end="", flush=True)
