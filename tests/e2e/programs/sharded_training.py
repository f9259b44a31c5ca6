"""ZeRO as measures of `gpumem advise` ask for it, of the one rank that runs (`gpumem run --rank 0 --world 4`): the group is NCCL's,
and the simulated device answers for the other ranks."""

import weakref

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer


def group():
    if not dist.is_initialized():
        torch.cuda.set_device(0)
        dist.init_process_group("nccl")
    return dist.get_world_size()


def stage1(parameters):
    group()
    return ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, lr=1e-3)


class Stage2:
    """Each gradient is reduced and scattered as soon as backward has made it. The parameters stay whole; the optimizer updates views
    of the rank's parts of them, which are gathered then."""

    def __init__(self, parameters):
        self.world, self.whole = group(), list(parameters)
        self.parts = [torch.nn.Parameter(self.part(p.detach())) for p in self.whole]
        self.optimizer = torch.optim.AdamW(self.parts, lr=1e-3)
        me = weakref.proxy(self)  # a hook's reference to the parameters would keep them for good
        for parameter, part in zip(self.whole, self.parts):
            parameter.register_post_accumulate_grad_hook(lambda parameter, part=part: me.reduce(parameter, part))

    def part(self, tensor):
        return tensor.flatten().chunk(self.world)[dist.get_rank()]

    def reduce(self, parameter, part):
        part.grad = torch.empty_like(part)
        dist.reduce_scatter_tensor(part.grad, parameter.grad.flatten())
        parameter.grad = None

    def step(self):
        self.optimizer.step()
        for parameter, part in zip(self.whole, self.parts):
            dist.all_gather_into_tensor(parameter.detach().flatten(), part.detach())

    def zero_grad(self):
        self.optimizer.zero_grad()


def stage3(model):
    group()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return model
