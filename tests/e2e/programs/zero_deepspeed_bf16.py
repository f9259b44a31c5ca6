"""One rank that trains random models in bfloat16 under DeepSpeed's BF16_Optimizer (stage 1, gradients accumulated in float32), keeps them
all, and writes what it owns, as PyTorch and DeepSpeed tell it: FOLDER/RANK.json. Then it stands still until FOLDER/done is there.

    zero_deepspeed_bf16.py FOLDER FIRST COUNT       # seeds
"""

import random

from zero_deepspeed import OPTIMIZERS, Storages, engine_of, facts_of, main, parts_of


def choose(seed):
    some = random.Random(seed)
    return some, {
        "seed": seed,
        "sizes": [some.choice((8, 65, 256)), *(some.choice((1, 3, 16, 40, 128, 333)) for _ in range(some.randint(1, 6)))],
        "dtype": "bfloat16",
        "optimizer": some.choice(list(OPTIMIZERS)),
        "stage": 1,
        "groups": some.choice((1, 1, 2)),
        "immediate": some.random() < 0.5,  # gradients are added to the accumulated ones by a hook
        "frozen": some.random() < 0.2,
        "steps": some.choice((0, 1, 2, 3)),
        "end": some.choice(("stepped", "stepped", "backward", "cleared")),
    }


def make(seed):
    some, given = choose(seed)
    config = {
        "bf16": {"enabled": True, "immediate_grad_update": given["immediate"]},
        "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1},
    }
    engine, _, data = engine_of(some, given, config)
    assert type(engine.optimizer).__name__ == "BF16_Optimizer", type(engine.optimizer)
    for step in range(given["steps"]):
        engine.backward(engine(data).float().sum())
        if step + 1 < given["steps"] or given["end"] != "backward":
            engine.step()
    if given["end"] == "cleared":
        engine.optimizer.zero_grad(set_to_none=True)
    return given, engine


def truth_of(given, engine):
    zero = engine.optimizer
    storages = Storages()
    count = storages.count
    parameters, padding = parts_of(engine, zero.bf16_groups, zero.bf16_groups_flat)
    for parameter in (one for group in zero.bf16_groups for one in group):
        count("parameters", parameter)
    for gradients in zero.fp32_groups_gradients_flat:
        count("gradients", gradients)
    accumulated = storages.bytes("gradients")
    for tensor in [*engine.parameters(), *zero.fp32_groups_flat_partition]:
        count("gradients", tensor.grad)
    for master in zero.fp32_groups_flat_partition:
        count("masters", master)
    storages.count_state(zero.optimizer)
    return {
        **facts_of(zero, given, storages),
        "master_size": zero.fp32_groups_flat_partition[0].element_size(),
        "padding": padding,
        "second_gradients": storages.bytes("gradients") - accumulated,
        "parameters": parameters,
    }


if __name__ == "__main__":
    main(make, truth_of)
