"""One rank that trains random models under DistributedDataParallel and ZeroRedundancyOptimizer, keeps them all, and writes what it
owns, as PyTorch tells it: FOLDER/RANK.json. Then it stands still until FOLDER/done is there.

    zero_models.py FOLDER FIRST COUNT       # seeds
"""

import os
import random
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from zero_hold import hold

# The optimizer's state of an element, in elements of the parameter's dtype.
OPTIMIZERS = {
    "adam": (torch.optim.Adam, {}, 2),
    "amsgrad": (torch.optim.AdamW, {"amsgrad": True}, 3),
    "loop": (torch.optim.Adam, {"foreach": False}, 2),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, 1),
    "sgd": (torch.optim.SGD, {"lr": 0.1}, 0),
    "adagrad": (torch.optim.Adagrad, {}, 1),
}


class Model(nn.Module):
    def __init__(self, some, width):
        super().__init__()
        sizes = [width] + [some.choice((1, 3, 16, 40, 128, 333)) for _ in range(some.randint(1, 6))]
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=some.random() < 0.6) for a, b in zip(sizes, sizes[1:]))
        self.unused = nn.Linear(some.randint(1, 64), 7) if some.random() < 0.3 else None
        self.scale = nn.Parameter(torch.ones(())) if some.random() < 0.3 else None  # has no dimension, as the count of steps

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x if self.scale is None else x * self.scale


def choose(seed):
    some = random.Random(seed)
    return some, {
        "seed": seed,
        "width": some.choice((8, 65, 256)),
        "dtype": some.choice(("float32", "float32", "float32", "bfloat16", "float16", "float64")),
        "optimizer": some.choice(list(OPTIMIZERS)),
        "parameter_buckets": some.random() < 0.4,
        "gradient_views": some.random() < 0.5,
        "bucket_mb": some.choice((0.001, 0.05, 25)),
        "frozen": some.random() < 0.3,
        "steps": some.choice((0, 1, 2, 3)),
        "end": some.choice(("kept", "kept", "none", "zeroed")),
    }


def make(seed, device):
    some, given = choose(seed)
    torch.manual_seed(seed)
    model = Model(some, given["width"]).to(device, getattr(torch, given["dtype"]))
    if given["frozen"] and len(model.layers) > 1:
        model.layers[some.randrange(len(model.layers))].requires_grad_(False)
    model = DistributedDataParallel(model, find_unused_parameters=True, gradient_as_bucket_view=given["gradient_views"],
                                    bucket_cap_mb=given["bucket_mb"])  # fmt: skip
    buckets = {}

    def hook(state, bucket):
        buckets[bucket.index()] = bucket.buffer().untyped_storage()
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    model.register_comm_hook(None, hook)
    kind, options, per_element = OPTIMIZERS[given["optimizer"]]
    optimizer = ZeroRedundancyOptimizer(model.parameters(), kind, parameters_as_bucket_view=given["parameter_buckets"], **options)
    for _ in range(given["steps"]):
        optimizer.zero_grad()
        model(torch.ones(4, given["width"], device=device, dtype=getattr(torch, given["dtype"]))).sum().backward()
        optimizer.step()
    if given["end"] != "kept":
        optimizer.zero_grad(set_to_none=given["end"] == "none")
    return given, model, optimizer, buckets, per_element


def truth_of(given, model, optimizer, buckets, per_element):
    parameters = list(model.named_parameters())
    ranks = optimizer._param_to_rank
    local = optimizer.optim.state
    storages = {"parameters": {}, "gradients": {}, "optimizer_state": {}, "buffers": {}}
    seen, kept = set(), []

    def count(term, storage):
        key = storage._cdata
        if key not in seen:
            seen.add(key)
            storages[term][key] = storage.nbytes()

    for _, parameter in parameters:
        count("parameters", parameter.untyped_storage())
    for _, parameter in parameters:
        if parameter.grad is not None:
            count("gradients", parameter.grad.untyped_storage())
    for _, parameter in parameters:
        for value in local.get(parameter, {}).values():
            if torch.is_tensor(value):
                count("optimizer_state", value.untyped_storage())
    for storage in buckets.values():
        count("buffers", storage)
    if not buckets:  # no backward has run: PyTorch tells tensors of the same sizes
        for bucket in model.reducer._get_zeros_like_grad_buckets():
            count("buffers", bucket.buffer().untyped_storage())
            kept.append(bucket.buffer())
    for device in optimizer._buckets:
        for bucket in device:
            count("buffers", bucket.untyped_storage())
    return {
        "address": id(optimizer),
        "given": given,
        "rank": optimizer.rank,
        "world_size": optimizer.world_size,
        "class": type(optimizer.optim).__name__,
        "state_per_element": per_element * parameters[0][1].element_size(),
        "bytes": {term: sum(found.values()) for term, found in storages.items()},
        "steps_bytes": sum(state["step"].untyped_storage().nbytes() for state in local.values() if "step" in state),
        "parameters": [
            {
                "address": id(parameter),
                "name": name,
                "shape": list(parameter.shape),
                "dtype": str(parameter.dtype).removeprefix("torch."),
                "bytes": parameter.numel() * parameter.element_size(),
                "elements": parameter.numel(),
                "owner": ranks[parameter],
                "trainable": parameter.requires_grad,
                "gradient": None if parameter.grad is None else parameter.grad.numel() * parameter.grad.element_size(),
                "state": sum(value.numel() * value.element_size() for key, value in local[parameter].items() if key != "step" and torch.is_tensor(value))
                if parameter in local
                else None,
            }
            for name, parameter in parameters
        ],
    }


if __name__ == "__main__":
    folder, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    kept = [make(seed, device) for seed in range(first, first + count)]
    truth = {"allocated": torch.cuda.memory_allocated(), "device": device.index}
    truth["shardings"] = [truth_of(*one) for one in kept]
    hold(folder, truth)
