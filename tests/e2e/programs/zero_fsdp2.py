"""One rank that trains random models under FSDP2 (fully_shard), keeps them all, and writes what it owns, as PyTorch tells it:
FOLDER/RANK.json. Then it stands still until FOLDER/done is there.

    zero_fsdp2.py FOLDER FIRST COUNT       # seeds
"""

import os
import random
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from zero_hold import hold

OPTIMIZERS = {  # the state of an element, in elements of the parameter's dtype
    "adamw": (torch.optim.AdamW, {}, 2),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, 1),
    "sgd": (torch.optim.SGD, {"lr": 0.1}, 0),
}


def choose(seed):
    some = random.Random(seed)
    return some, {
        "seed": seed,
        "sizes": [some.choice((8, 65, 256)), *(some.choice((1, 3, 16, 40, 128, 333)) for _ in range(some.randint(1, 5)))],
        "dtype": some.choice(("float32", "float32", "bfloat16")),
        "mixed": some.random() < 0.3,
        "optimizer": some.choice(list(OPTIMIZERS)),
        "inner": some.random() < 0.6,  # each layer is a unit of its own
        "reshard": some.random() < 0.7,
        "steps": some.choice((0, 1, 2)),
        "end": some.choice(("kept", "none", "gathered")),
    }


def make(seed, device):
    some, given = choose(seed)
    torch.manual_seed(seed)
    sizes, dtype = given["sizes"], getattr(torch, given["dtype"])
    layers = [nn.Linear(a, b, bias=some.random() < 0.6) for a, b in zip(sizes, sizes[1:])]
    model = nn.Sequential(*layers).to(device, dtype)
    options = {"reshard_after_forward": given["reshard"]}
    if given["mixed"]:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for layer in model if given["inner"] else ():
        fully_shard(layer, **options)
    fully_shard(model, **options)
    kind, settings, per_element = OPTIMIZERS[given["optimizer"]]
    optimizer = kind(model.parameters(), **settings)
    for _ in range(given["steps"]):
        optimizer.zero_grad()
        model(torch.ones(4, sizes[0], device=device, dtype=torch.bfloat16 if given["mixed"] else dtype)).sum().backward()
        optimizer.step()
    if given["end"] == "none":
        optimizer.zero_grad()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if given["end"] == "gathered":
        for module in model.modules():
            if hasattr(module, "unshard"):
                module.unshard()
    return given, model, optimizer, per_element, names


def groups_of(state):
    """PyTorch 2.11 has one group for each module."""
    return state._fsdp_param_groups if hasattr(state, "_fsdp_param_groups") else [g for g in (state._fsdp_param_group,) if g]


def truth_of(given, model, optimizer, per_element, names):
    storages = {term: {} for term in ("parameters", "gradients", "optimizer_state", "buffers")}
    seen = set()

    def count(term, tensor):
        storage = getattr(tensor, "_local_tensor", tensor).untyped_storage()
        if storage._cdata not in seen:
            seen.add(storage._cdata)
            storages[term][storage._cdata] = storage.nbytes()

    units = [group for module in model.modules() if hasattr(module, "_get_fsdp_state") for group in groups_of(module._get_fsdp_state())]
    sharded = [one for unit in units for one in unit.fsdp_params]
    for one in sharded:
        count("parameters", one.sharded_param)
    for one in sharded:
        if one.sharded_param.grad is not None:
            count("gradients", one.sharded_param.grad)
    steps = 0
    for state in optimizer.state.values():
        for name, value in state.items():
            if torch.is_tensor(value):
                count("optimizer_state", value)
                steps += value.untyped_storage().nbytes() if name == "step" else 0
    for one in sharded:
        for output in one.all_gather_outputs:
            count("buffers", output)
    return {
        "address": id(optimizer),
        "given": given,
        "rank": dist.get_rank(),
        "world_size": dist.get_world_size(),
        "class": type(optimizer).__name__,
        "state_per_element": per_element * torch.empty(0, dtype=getattr(torch, given["dtype"])).element_size(),
        "bytes": {term: sum(found.values()) for term, found in storages.items()},
        "steps_bytes": steps,
        "has_state": given["optimizer"] == "sgd" or any(state and key._local_tensor.numel() for key, state in optimizer.state.items()),
        "parameters": [
            {"address": id(one.sharded_param), "name": names[id(one.sharded_param)], "elements": one.sharded_param.numel(), "owned": one.sharded_param._local_tensor.numel(),
             "bytes": one.sharded_param.numel() * one.sharded_param.element_size()}
            for one in sharded
        ],
    }  # fmt: skip


if __name__ == "__main__":
    folder, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    kept = [make(seed, device) for seed in range(first, first + count)]
    hold(folder, {"shardings": [truth_of(*one) for one in kept]})
