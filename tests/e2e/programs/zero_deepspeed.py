"""One rank that trains random models under DeepSpeed's ZeRO stages 1 and 2, keeps them all, and writes what it owns, as PyTorch and
DeepSpeed tell it: FOLDER/RANK.json. Then it stands still until FOLDER/done is there.

    zero_deepspeed.py FOLDER FIRST COUNT       # seeds
"""

import logging
import os
import random
import sys

import deepspeed
import torch
import torch.distributed as dist
from torch import nn
from zero_hold import hold

OPTIMIZERS = {  # bytes of state for an element of the master copy
    "Adam": ({"lr": 1e-3, "torch_adam": True}, 8),
    "AdamW": ({"lr": 1e-3, "torch_adam": True}, 8),
    "SGD": ({"lr": 1e-3, "momentum": 0.9}, 4),
}


def choose(seed):
    some = random.Random(seed)
    return some, {
        "seed": seed,
        "sizes": [some.choice((8, 65, 256)), *(some.choice((1, 3, 16, 40, 128, 333)) for _ in range(some.randint(1, 6)))],
        "dtype": some.choice(("float16", "bfloat16", "float32")),
        "optimizer": some.choice(list(OPTIMIZERS)),
        "stage": some.choice((1, 1, 2)),
        "groups": some.choice((1, 1, 2)),
        "overlap": some.random() < 0.5,
        "contiguous": some.random() < 0.5,
        "round_robin": some.random() < 0.3,
        "offload": some.random() < 0.2,
        "bucket": some.choice((1000, 100_000, 5_000_000)),
        "frozen": some.random() < 0.2,
        "steps": some.choice((0, 1, 2, 3)),
        "end": some.choice(("stepped", "stepped", "backward")),
    }


def engine_of(some, given, config):
    """An engine for a random model, the model, and data for it. `config`: what is not the same for each stage."""
    torch.manual_seed(given["seed"])
    sizes = given["sizes"]
    model = nn.Sequential(*(nn.Linear(a, b, bias=some.random() < 0.6) for a, b in zip(sizes, sizes[1:])))
    if given["frozen"] and len(model) > 1:
        model[some.randrange(len(model))].requires_grad_(False)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [parameters[i :: given["groups"]] for i in range(min(given["groups"], len(parameters)))]
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "optimizer": {"type": given["optimizer"], "params": OPTIMIZERS[given["optimizer"]][0]},
        "zero_force_ds_cpu_optimizer": False,
        "zero_allow_untested_optimizer": True,
        "fp16": {"enabled": given["dtype"] == "float16"},
        "bf16": {"enabled": given["dtype"] == "bfloat16"},
        **config,
    }
    engine, *_ = deepspeed.initialize(model=model, model_parameters=[{"params": group} for group in groups], config=config)
    return engine, model, torch.ones(4, sizes[0], device=engine.device, dtype=getattr(torch, given["dtype"]))


class Storages:
    """Bytes of storages by term; each counts once, in the first term that has it."""

    def __init__(self):
        self.found = {term: {} for term in ("parameters", "gradients", "masters", "optimizer_state", "buffers")}
        self.seen = set()
        self.steps = 0  # bytes of the counts of steps

    def count(self, term, tensor):
        if torch.is_tensor(tensor) and (key := tensor.untyped_storage()._cdata) not in self.seen:
            self.seen.add(key)
            self.found[term][key] = tensor.untyped_storage().nbytes()

    def count_state(self, optimizer):
        for state in optimizer.state.values():
            for name, value in state.items():
                self.count("optimizer_state", value)
                self.steps += value.untyped_storage().nbytes() if name == "step" and torch.is_tensor(value) else 0

    def bytes(self, term):
        return sum(self.found[term].values())


def facts_of(zero, given, storages):
    """What is told of each stage's optimizer."""
    return {
        "address": id(zero),
        "given": given,
        "rank": dist.get_rank(),
        "world_size": dist.get_world_size(),
        "class": type(zero.optimizer).__name__,
        "state_per_element": OPTIMIZERS[given["optimizer"]][1],
        "bytes": {term: storages.bytes(term) for term in storages.found},
        "steps_bytes": storages.steps,
        "has_state": any(zero.optimizer.state.values()),
    }


def parts_of(engine, groups, flats):
    """The parameters with what this rank owns of each, and the elements of its parts that are no parameter's."""
    names = {parameter: name for name, parameter in engine.named_parameters()}
    parameters, padding, rank, world = [], 0, dist.get_rank(), dist.get_world_size()
    for group, base in zip(groups, flats):
        part = base.numel() // world
        owned_here = 0
        for parameter in group:
            first = (parameter.data_ptr() - base.data_ptr()) // base.element_size()
            owned = max(0, min(first + parameter.numel(), (rank + 1) * part) - max(first, rank * part))
            ranks = range(first // part, (first + parameter.numel() - 1) // part + 1)
            owned_here += owned
            parameters.append({"address": id(parameter), "name": names[parameter], "elements": parameter.numel(), "owned": owned,
                               "bytes": parameter.numel() * parameter.element_size(), "owner": ranks[0] if len(ranks) == 1 else None})  # fmt: skip
        padding += part - owned_here
    return parameters, padding


def make(seed):
    some, given = choose(seed)
    offload = {"offload_optimizer": {"device": "cpu", "pin_memory": False}} if given["offload"] else {}
    config = {
        "zero_optimization": {
            "stage": given["stage"], "overlap_comm": given["overlap"], "contiguous_gradients": given["contiguous"],
            "round_robin_gradients": given["round_robin"], "reduce_bucket_size": given["bucket"],
            "allgather_bucket_size": 5_000_000, **offload,
        },
    }  # fmt: skip
    engine, _, data = engine_of(some, given, config)
    for step in range(given["steps"]):
        engine.backward(engine(data).float().sum())
        if step + 1 < given["steps"] or given["end"] == "stepped":
            engine.step()
    return given, engine


def truth_of(given, engine):
    zero = engine.optimizer
    storages = Storages()
    count = storages.count
    flat = [tensor for group in zero.round_robin_bit16_groups for tensor in group]
    for parameter in flat:
        count("parameters", parameter)
    for parameter in flat:
        count("gradients", parameter.grad)
        count("gradients", getattr(parameter, "grad_accum", None))
    for kept in (zero.averaged_gradients, zero.all_grad_tensors):
        for group in kept.values():
            for tensor in group or ():
                count("gradients", tensor)
    count("gradients", getattr(zero, "grads_in_partition", None))
    for master in zero.single_partition_of_fp32_groups:
        count("gradients", master.grad)
        count("masters", master)
    storages.count_state(zero.optimizer)
    for bucket in zero.ipg_buckets.values():
        for tensor in bucket.buffer:
            count("buffers", tensor)
    for name in ("temp_grad_buffer_for_cpu_offload", "temp_grad_buffer_for_gpu_offload"):
        count("buffers", getattr(zero, name, None))
    for tensor in getattr(zero, "param_buffer_of_bit16_for_cpu_offload_groups", ()):
        count("buffers", tensor)
    parameters, padding = parts_of(engine, zero.round_robin_bit16_groups, zero.bit16_groups_flat)
    return {
        **facts_of(zero, given, storages),
        "master_size": zero.single_partition_of_fp32_groups[0].element_size(),
        "padding": padding,
        "parameters": parameters,
    }


def main(make, truth_of):
    """Of a program that makes engines from seeds."""
    logging.disable(logging.INFO)
    folder, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    deepspeed.init_distributed("nccl", verbose=False)
    kept = [make(seed) for seed in range(first, first + count)]
    hold(folder, {"shardings": [truth_of(*one) for one in kept]})


if __name__ == "__main__":
    main(make, truth_of)
