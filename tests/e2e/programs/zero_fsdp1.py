"""One rank that trains random models under FSDP1 (FullyShardedDataParallel), keeps them all, and writes what it owns, as PyTorch tells
it: FOLDER/RANK.json. Then it stands still until FOLDER/done is there.

    zero_fsdp1.py FOLDER FIRST COUNT       # seeds
"""

import os
import random
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffload, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from zero_fsdp2 import OPTIMIZERS
from zero_hold import hold


def choose(seed):
    some = random.Random(seed)
    given = {
        "seed": seed,
        "sizes": [some.choice((8, 65, 256)), *(some.choice((1, 3, 16, 40, 128, 333)) for _ in range(some.randint(1, 5)))],
        "dtype": some.choice(("float32", "float32", "bfloat16")),
        "mixed": some.random() < 0.4,
        "low_gradients": some.random() < 0.3,  # keep them in the low precision
        "strategy": some.choice(("FULL_SHARD", "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")),
        "originals": some.random() < 0.5,  # the optimizer has the model's own parameters
        "offload": some.random() < 0.2,
        "optimizer": some.choice(list(OPTIMIZERS)),
        "inner": some.random() < 0.6,  # each layer is a unit of its own
        "frozen": some.random() < 0.2,
        "only_trained": some.random() < 0.5,  # are given to the optimizer
        "steps": some.choice((0, 1, 2)),
        "end": some.choice(("kept", "none", "backward", "forward", "gathered", "unsynced")),
    }
    # PyTorch has no Adam of mixed dtypes, and no such gradients in the host's memory
    given["low_gradients"] = given["low_gradients"] and given["mixed"] and not given["offload"] and given["optimizer"] != "adamw"
    return some, given


def make(seed, device):
    some, given = choose(seed)
    torch.manual_seed(seed)
    sizes, dtype = given["sizes"], getattr(torch, given["dtype"])
    model = nn.Sequential(*(nn.Linear(a, b, bias=some.random() < 0.6) for a, b in zip(sizes, sizes[1:]))).to(device, dtype)
    # with flat parameters, all of a unit are trained or none is
    if given["frozen"] and len(model) > 1 and (given["originals"] or given["inner"]):
        model[some.randrange(len(model))].requires_grad_(False)
    options = {
        "sharding_strategy": ShardingStrategy[given["strategy"]],
        "use_orig_params": given["originals"],
        "device_id": device,
        "cpu_offload": CPUOffload(offload_params=given["offload"]),
    }
    if "HYBRID" in given["strategy"]:  # two copies of the model, each divided among half of the ranks
        copies = 1 if dist.get_world_size() % 2 else 2
        options["device_mesh"] = init_device_mesh("cuda", (copies, dist.get_world_size() // copies))
    if given["mixed"]:
        options["mixed_precision"] = MixedPrecision(torch.bfloat16, torch.bfloat16, keep_low_precision_grads=given["low_gradients"])
    if given["inner"]:
        model = nn.Sequential(*(FSDP(layer, **options) for layer in model))
    model = FSDP(model, **options)
    kind, settings, per_element = OPTIMIZERS[given["optimizer"]]
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad or not given["only_trained"]]
    optimizer = kind(parameters, **settings)
    data = torch.ones(4, sizes[0], device=device, dtype=dtype)
    for step in range(given["steps"]):
        optimizer.zero_grad()
        model(data).sum().backward()
        if step + 1 < given["steps"] or given["end"] != "backward":
            optimizer.step()
    if given["end"] == "none":
        optimizer.zero_grad()
    kept, names = None, {id(parameter): name.replace("_fsdp_wrapped_module.", "") for name, parameter in model.named_parameters()}
    if given["end"] == "forward":
        kept = model(data)  # its backward may still come
    if given["end"] == "unsynced" and given["steps"] and not given["offload"]:
        with model.no_sync():
            model(data).sum().backward()
    if given["end"] == "gathered" and given["steps"]:
        kept = FSDP.summon_full_params(model, with_grads=given["originals"] and not (given["offload"] or given["frozen"] or given["low_gradients"]))
        kept.__enter__()
    return given, model, optimizer, per_element, names, kept


def truth_of(given, model, optimizer, per_element, names, kept):
    storages = {term: {} for term in ("parameters", "gradients", "optimizer_state", "buffers")}
    seen = set()

    def count(term, tensor):
        if torch.is_tensor(tensor) and (key := tensor.untyped_storage()._cdata) not in seen:
            seen.add(key)
            storages[term][key] = tensor.untyped_storage().nbytes()

    updated = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    units = [module for module in model.modules() if isinstance(module, FSDP) and module._handle]
    units = [unit for unit in units if updated & {id(one) for one in unit._handle.flat_param._params or [unit._handle.flat_param]}]
    handles = [unit._handle for unit in units]
    shards = [getattr(handle.flat_param, "_local_shard", handle.flat_param) for handle in handles]
    for shard in shards:
        count("parameters", shard)
    for handle in handles:
        for name in ("_cpu_grad", "_saved_grad_shard", "grad"):
            count("gradients", getattr(handle.flat_param, name, None))
        for parameter in handle.flat_param._params or ():
            count("gradients", parameter.grad)
    steps = 0
    for state in optimizer.state.values():
        for name, value in state.items():
            count("optimizer_state", value)
            steps += value.untyped_storage().nbytes() if name == "step" and torch.is_tensor(value) else 0
    for handle in handles:
        for name in ("_full_param_padded", "_full_prec_full_param_padded", "_mp_shard"):
            count("buffers", getattr(handle.flat_param, name, None))
    parameters = []
    for unit, handle, shard in zip(units, handles, shards):
        flat = handle.flat_param
        owned = [info.numel_in_shard if info.in_shard else 0 for info in flat._shard_param_infos]
        if flat._params is None:
            elements = sum(flat._numels)
            parameters.append({"address": id(flat), "name": names[id(flat)], "shape": [elements], "elements": elements, "owned": sum(owned),
                               "owner": None, "trainable": flat.requires_grad})  # fmt: skip
            continue
        starts = [sum(flat._numels_with_padding[:i]) for i, padding in enumerate(flat._is_padding_mask) if not padding]
        for parameter, shape, numel, part, start in zip(flat._params, flat._shapes, flat._numels, owned, starts):
            owners = {start // shard.numel(), (start + numel - 1) // shard.numel()}
            parameters.append({"address": id(parameter), "name": names[id(parameter)], "shape": list(shape), "elements": numel, "owned": part,
                               "owner": owners.pop() if len(owners) == 1 and handle.uses_sharded_strategy else None,
                               "trainable": parameter.requires_grad})  # fmt: skip
    size = shards[0].element_size()
    # a momentum begins as a copy of the gradient
    low = given["low_gradients"] and given["optimizer"] == "momentum"
    return {
        "address": id(optimizer),
        "given": given,
        "rank": handles[0].rank,
        "world_size": handles[0].world_size,
        "strategy": handles[0]._sharding_strategy.name,
        "class": type(optimizer).__name__,
        "size": size,
        "state_per_element": per_element * (2 if low else size),
        "part": sum(shard.numel() for shard in shards),
        "bytes": {term: sum(found.values()) for term, found in storages.items()},
        "steps_bytes": steps,
        "has_state": given["optimizer"] == "sgd" or any(state and key.numel() for key, state in optimizer.state.items()),
        "parameters": parameters,
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    folder, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    kept = [make(seed, device) for seed in range(first, first + count)]
    hold(folder, {"shardings": [truth_of(*one) for one in kept]})
