"""ZeRO as measures of `gpumem advise` ask for it, of the one rank that runs (`gpumem run --rank 0 --world 4`): the group is NCCL's,
and the simulated device answers for the other ranks."""

import weakref

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


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


def stage3(model, **options):
    group()
    for layer in model:
        fully_shard(layer, **options)
    fully_shard(model, **options)
    return model


def in_host_memory(model):
    """Each rank's part is in the host's memory; a whole parameter is on the device while it is used."""
    return stage3(model, offload_policy=CPUOffloadPolicy(pin_memory=False))


def tensor(model):
    """Megatron-LM's way, of the blocks of examples/techniques.py: by columns, then by rows."""
    mesh = init_device_mesh("cuda", (group(),))
    columns, rows = ColwiseParallel, RowwiseParallel
    for block in model.blocks:
        parallelize_module(block, mesh, {"qkv": columns(), "out": rows(), "mlp.1": columns(), "mlp.3": rows()})
    return model


def split_or_whole(model):
    """Groups of parameters for an optimizer, which does not take both kinds at once."""
    parameters = list(model.parameters())
    return [{"params": [one for one in parameters if isinstance(one, DTensor) == split]} for split in (True, False)]
