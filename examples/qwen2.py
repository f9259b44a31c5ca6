"""A language model of 1.5 billion parameters in training: is its peak in forward or in the optimizer?

The model is Qwen2.5-1.5B, made from its configuration on the device. With a batch of 16 the activations make the peak,
with a batch of 2 the gradients and the optimizer's temporaries. `gpumem peak` says which, and where they change places.

    build/bin/gpumem run --sim -o qwen2.gpumem -- .venv/bin/python examples/qwen2.py
"""

import sys

import torch
from transformers import AutoModelForCausalLM, Qwen2Config

CONFIG = Qwen2Config(
    vocab_size=151936,
    hidden_size=1536,
    intermediate_size=8960,
    num_hidden_layers=28,
    num_attention_heads=12,
    num_key_value_heads=2,
    max_position_embeddings=131072,
    tie_word_embeddings=True,
    use_cache=False,
)


def make_model():
    with torch.device("cuda"):
        return AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32)


def train(model, batch, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        inputs = torch.randint(0, 100, (batch, 256), device="cuda")
        loss = torch.mean(model(inputs).logits)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def count_activations(model):
    """What the outputs of all modules have for one token: (elements, bytes)."""
    elements = size = 0

    def hook(module, args, output):
        nonlocal elements, size
        for tensor in output if isinstance(output, (tuple, list)) else (output,):
            if isinstance(tensor, torch.Tensor):
                elements += tensor.numel()
                size += tensor.numel() * tensor.element_size()

    for module in model.modules():
        module.register_forward_hook(hook)
    with torch.no_grad():
        model(torch.zeros((1, 1), dtype=torch.int64, device="cuda"))
    return elements, size


if __name__ == "__main__":
    model = make_model()
    if sys.argv[1:] == ["activations"]:
        print("activations of one token: {:,} elements, {:,} bytes".format(*count_activations(model)))
    else:
        train(model, int(sys.argv[1]) if len(sys.argv) > 1 else 16)
        print(f"peak: {torch.cuda.max_memory_allocated():,} bytes")
