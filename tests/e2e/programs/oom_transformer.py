"""Trains a transformer of 1.5 billion parameters, built from a config, until a planted leak has filled the device.

Prints PyTorch's own words and what it knows that it holds, in bytes, then waits: the core is written from outside.
"""

import json
import os
import sys
import time

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

LAYERS = int(os.environ.get("LAYERS", "28"))
SHAPE = {"hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12, "num_key_value_heads": 2}


class Monitor:
    """Means to keep one number a step."""

    def __init__(self):
        self.samples = []

    def note(self, logits):
        self.samples.append(logits.detach().clone())  # meant: logits.mean().item()


def size(tensors):
    """Bytes of their blocks: the allocator rounds up to 512."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors if tensor.is_cuda}
    return sum(-(-one // 512) * 512 for one in storages.values())


def train(model, optimizer, monitor):
    while True:
        tokens = torch.randint(0, 1000, (4, 256), device="cuda")
        output = model(input_ids=tokens, labels=tokens)
        output.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.note(output.logits)


def main():
    with torch.device("cuda"):
        model = Qwen2ForCausalLM(Qwen2Config(num_hidden_layers=LAYERS, tie_word_embeddings=True, **SHAPE))
    optimizer = torch.optim.AdamW(model.parameters())
    monitor = Monitor()
    try:
        train(model, optimizer, monitor)
    except torch.OutOfMemoryError as error:
        state = [value for one in optimizer.state.values() for value in one.values() if torch.is_tensor(value)]
        said = {
            "pid": os.getpid(),
            "message": str(error),
            "stats": torch.cuda.memory_stats(),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "parameter_bytes": size(list(model.parameters())),
            "gradient_bytes": size([one.grad for one in model.parameters() if one.grad is not None]),
            "optimizer_bytes": size(state),
            "leak_bytes": size(monitor.samples),
            "leaked": len(monitor.samples),
        }
        print(json.dumps(said), flush=True)
        time.sleep(1000)


if __name__ == "__main__":
    sys.exit(main())
