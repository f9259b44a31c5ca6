"""One rank that trains random models under DeepSpeed's ZeRO stage 3, keeps them all, and writes what it owns, as PyTorch and DeepSpeed
tell it: FOLDER/RANK.json. Then it stands still until FOLDER/done is there.

    zero_deepspeed3.py FOLDER FIRST COUNT       # seeds
"""

import random

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.runtime.zero.partition_parameters import ZeroParamStatus
from zero_deepspeed import OPTIMIZERS, Storages, engine_of, facts_of, main


def choose(seed):
    some = random.Random(seed)
    return some, {
        "seed": seed,
        "sizes": [some.choice((8, 65, 256)), *(some.choice((1, 3, 16, 40, 128, 333)) for _ in range(some.randint(1, 6)))],
        "dtype": some.choice(("float16", "bfloat16", "float32")),
        "accumulate": some.choice((None, None, "fp32")),  # the dtype of the gradients' partitions
        "optimizer": some.choice(list(OPTIMIZERS)),
        "groups": some.choice((1, 1, 2)),
        "sub_group": some.choice((1_000_000_000, 20_000, 300)),
        "persistent": some.choice((0, 100, 100_000)),  # parameters of so many elements stay whole
        "live": some.choice((0, 1_000_000_000)),  # elements that stay gathered
        "contiguous": some.random() < 0.5,
        "overlap": some.random() < 0.5,
        "offload": some.choice((None, None, "optimizer", "parameters")),
        "bucket": some.choice((1000, 100_000, 5_000_000)),
        "frozen": some.random() < 0.2,
        "steps": some.choice((0, 1, 2, 3)),
        "end": some.choice(("stepped", "stepped", "backward", "forward", "gathered")),
    }


def make(seed):
    some, given = choose(seed)
    offload = {"offload_optimizer": {"device": "cpu", "pin_memory": False}} if given["offload"] else {}
    if given["offload"] == "parameters":
        offload["offload_param"] = {"device": "cpu", "pin_memory": False}
    config = {
        "data_types": {"grad_accum_dtype": given["accumulate"]},
        "zero_optimization": {
            "stage": 3, "overlap_comm": given["overlap"], "contiguous_gradients": given["contiguous"],
            "reduce_bucket_size": given["bucket"], "sub_group_size": given["sub_group"],
            "stage3_param_persistence_threshold": given["persistent"], "stage3_max_live_parameters": given["live"],
            "stage3_max_reuse_distance": given["live"], **offload,
        },
    }  # fmt: skip
    engine, model, data = engine_of(some, given, config)
    for step in range(given["steps"]):
        engine.backward(engine(data).float().sum())
        if step + 1 < given["steps"] or given["end"] != "backward":
            engine.step()
    if given["end"] == "forward":
        with torch.no_grad():
            engine(data)
    kept = None
    if given["end"] == "gathered":
        kept = deepspeed.zero.GatheredParameters(list(model[0].parameters()))
        kept.__enter__()
    return given, engine, kept


def truth_of(given, engine, kept):
    zero = engine.optimizer
    storages = Storages()
    count = storages.count
    named = dict(engine.named_parameters())
    for parameter in named.values():
        count("parameters", parameter.ds_tensor)
    for parameter in named.values():
        count("gradients", parameter.grad)
    gradient = zero.grad_partitions_flat_buffer
    count("gradients", gradient)
    for kept_gradients in zero.averaged_gradients.values():
        for tensor in kept_gradients or ():
            count("gradients", tensor)
    for master in zero.fp32_partitioned_groups_flat:
        count("gradients", master.grad)
        count("masters", master)
    storages.count_state(zero.optimizer)
    whole = {"gathered": 0, "persistent": 0}
    for parameter in named.values():
        if parameter.ds_status == ZeroParamStatus.AVAILABLE:
            before = storages.bytes("buffers")
            count("buffers", parameter.data)
            whole["persistent" if parameter.ds_persist else "gathered"] += storages.bytes("buffers") - before
    for bucket in zero.ipg_buckets.values():
        count("buffers", bucket.buffer)
    rank = dist.get_rank()
    parameters = []
    for name, parameter in named.items():
        part = parameter.ds_tensor.ds_numel
        owned = max(0, min(part, parameter.ds_numel - rank * part))
        parameters.append({"address": id(parameter), "name": name, "shape": list(parameter.ds_shape), "elements": parameter.ds_numel, "owned": owned, "part": part,
                           "element_size": parameter.element_size(), "trainable": parameter.requires_grad})  # fmt: skip
    master = zero.fp32_partitioned_groups_flat[0]
    return {
        **facts_of(zero, given, storages),
        "gradient_size": gradient.element_size(),
        "whole": whole,
        "master_size": 0 if storages.found["masters"] == {} else master.element_size(),
        "parameters": parameters,
    }


if __name__ == "__main__":
    main(make, truth_of)
