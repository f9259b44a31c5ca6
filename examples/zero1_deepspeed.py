"""ZeRO-1 by DeepSpeed: the model of zero1.py in float16; what does a rank keep?

DeepSpeed keeps float16 weights all the time, and float32 copies ("masters") and Adam's moments of this rank's part alone. It needs
`pip install deepspeed`.

    build/bin/gpumem run --sim=h100-80gbx2 --rank 1 --world 2 -o zero1.gpumem -- .venv/bin/python examples/zero1_deepspeed.py
"""

import logging
import os

import deepspeed
import torch
from torch import nn

CONFIG = {
    "train_micro_batch_size_per_gpu": 512,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
    "fp16": {"enabled": True, "initial_scale_power": 12},
    "zero_optimization": {"stage": 1, "reduce_bucket_size": 8_000_000},
}


def train(engine, steps=3):
    for _ in range(steps):
        data = torch.randn(512, 2048, device="cuda", dtype=torch.float16)
        loss = engine(data).float().mean()
        engine.backward(loss)
        engine.step()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(4)))
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
    train(engine)
    print(f"rank {torch.distributed.get_rank()}: peak {torch.cuda.max_memory_allocated():,} bytes", flush=True)
    torch.distributed.destroy_process_group()
