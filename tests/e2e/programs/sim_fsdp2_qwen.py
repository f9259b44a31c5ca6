"""FSDP2 of a 7.6-billion-parameter Qwen2 from config: three steps of bf16 training, as scripts of its kind are."""

import json
import os
import resource
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import AutoModelForCausalLM, Qwen2Config

began = time.time()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
config = Qwen2Config(
    hidden_size=3584,
    intermediate_size=18944,
    num_hidden_layers=28,
    num_attention_heads=28,
    num_key_value_heads=4,
    vocab_size=152064,
    max_position_embeddings=4096,
    use_cache=False,
)
with torch.device("meta"):
    model = AutoModelForCausalLM.from_config(config)
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model.model.layers:
    fully_shard(layer, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
model.to_empty(device="cuda")
sharded = torch.cuda.memory_allocated()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
tokens = torch.randint(0, config.vocab_size, (2, 2048)).cuda()
for _ in range(3):
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
parameters = sum(p.numel() for p in model.parameters())
print(
    json.dumps(
        {
            "rank": dist.get_rank(),
            "world": dist.get_world_size(),
            "parameters": parameters,
            "sharded": sharded,
            "peak": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.max_memory_reserved(),
            "stats": torch.cuda.memory_stats()["reserved_bytes.all.current"],
            "device_used": torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0],
            "seconds": time.time() - began,
            "host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
    )
)
dist.destroy_process_group()
