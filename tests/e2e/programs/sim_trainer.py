"""transformers' Trainer on a GPT-2 from config, as its documentation has it; the first argument is the kind of parallelism."""

import json
import os
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        tokens = torch.arange(i, i + 128) % 1000
        return {"input_ids": tokens, "labels": tokens}


kind = sys.argv[1]
more = {}
if kind == "fsdp1":
    more = {"fsdp": "full_shard auto_wrap", "fsdp_config": {"transformer_layer_cls_to_wrap": ["GPT2Block"]}}
elif kind == "fsdp2":
    os.environ["FSDP_VERSION"] = "2"  # as `accelerate launch` says it
    more = {
        "fsdp": "full_shard auto_wrap",
        "fsdp_config": {"reshard_after_forward": True, "transformer_layer_cls_to_wrap": ["GPT2Block"]},
    }
elif kind.startswith("zero"):
    more = {
        "deepspeed": {
            # Small buckets: those of the default would be most of what is allocated.
            "zero_optimization": {
                "stage": int(kind[4]),
                "reduce_bucket_size": 5_000_000,
                "allgather_bucket_size": 5_000_000,
                "stage3_prefetch_bucket_size": 5_000_000,
            },
            "train_micro_batch_size_per_gpu": 4,
            "optimizer": {"type": "Adam", "params": {"lr": "auto", "torch_adam": True}},
            "zero_force_ds_cpu_optimizer": False,
            "bf16": {"enabled": True},
        },
        "bf16": True,
    }
arguments = TrainingArguments(
    output_dir=os.environ.get("TMPDIR", "/tmp"),
    per_device_train_batch_size=4,
    max_steps=3,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
    **more,
)
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=16000, n_embd=768, n_layer=6, n_head=12, n_positions=256))
parameters = sum(p.numel() for p in model.parameters())
trainer = Trainer(model=model, args=arguments, train_dataset=Tokens())
trainer.train()
state = trainer.optimizer.state if hasattr(trainer.optimizer, "state") else {}
free, total = torch.cuda.mem_get_info()
print(
    json.dumps(
        {
            "rank": int(os.environ.get("RANK", 0)),
            "steps": trainer.state.global_step,
            "parameters": parameters,
            "allocated": torch.cuda.memory_allocated(),
            "peak": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.memory_reserved(),
            "used": total - free,
        }
    ),
    flush=True,
)
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
