"""Builds the model of a config on the simulated device, runs two steps of it, and tells what PyTorch's allocator had. With the
method "hooks" it builds the model on the meta device and adds up what forward hooks see; a model that looks at values, which the
meta device has not, is built on the simulated device instead.

Standard input is a JSON object: method, config (a path), batch, sequence, dtype, autocast, optimizer, checkpointing, accumulation,
attention, inference. Standard output gets one line, "result " and a JSON object, or "refused " and a reason. No code that a config
names is loaded, and nothing is asked of a network.
"""

import contextlib
import gc
import json
import os
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false")

import torch  # noqa: E402
import transformers  # noqa: E402

ATTENTION = {"efficient": "sdpa", "materialized": "eager"}
OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, foreach=True),
    "adamw-fused": lambda parameters: torch.optim.AdamW(parameters, fused=True),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
    "sgd-momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
}


def allocated():
    return torch.cuda.memory_allocated()


def peak_since_reset():
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return peak


def build(asked, device="cuda"):
    config = transformers.AutoConfig.from_pretrained(asked["config"], trust_remote_code=False)
    words = {"dtype": getattr(torch, asked["dtype"]), "attn_implementation": ATTENTION[asked["attention"]]}
    with torch.device(device):
        try:
            model = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False, **words)
        except ValueError:  # some architectures have no efficient attention
            words["attn_implementation"] = "eager"
            model = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False, **words)
    if asked["checkpointing"] == "full" and asked["method"] != "hooks":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def tokens_of(model, asked):
    return torch.zeros((asked["batch"], asked["sequence"]), dtype=torch.long, device="cuda")


def train(model, asked, result):
    """Two steps: in the second the optimizer's state is there from the beginning."""
    model.train()
    optimizer = OPTIMIZERS[asked["optimizer"]](model.parameters())
    tokens = tokens_of(model, asked)
    context = torch.autocast("cuda", getattr(torch, asked["autocast"])) if asked["autocast"] else contextlib.nullcontext()
    for _step in range(2):
        peak_since_reset()
        for _ in range(asked["accumulation"]):
            before = allocated()
            with context:
                output = model(input_ids=tokens, labels=tokens, use_cache=False)
            result["activations"] = allocated() - before
            output.loss.backward()
            del output
        result["backward_peak"] = peak_since_reset()
        result["gradients"] = sum(p.grad.numel() * p.grad.element_size() for p in model.parameters() if p.grad is not None)
        optimizer.step()
        result["optimizer_peak"] = peak_since_reset()
        optimizer.zero_grad()
    result["state"] = sum(
        value.numel() * value.element_size()
        for state in optimizer.state.values()
        for value in state.values()
        if torch.is_tensor(value) and value.is_cuda
    )


def infer(model, asked, result):
    model.eval()
    tokens = tokens_of(model, asked)
    peak_since_reset()
    with torch.no_grad():
        output = model(input_ids=tokens, use_cache=True, logits_to_keep=1)
        result["kv_cache"] = sum(
            tensor.numel() * tensor.element_size() for layer in output.past_key_values.layers for tensor in (layer.keys, layer.values)
        )
    result["inference_peak"] = peak_since_reset()


def simulate(asked, result):
    torch.cuda.init()
    model = build(asked)
    result["parameters"] = sum(p.numel() for p in model.parameters())
    result["parameter_bytes"] = sum(p.numel() * p.element_size() for p in model.parameters())
    (infer if asked["inference"] else train)(model, asked, result)
    result["reserved"] = torch.cuda.max_memory_reserved()


def outputs_of(model, batch, sequence):
    """Bytes of the tensors that modules return in a forward pass, as the text's hooks add them up."""
    sizes = []

    def hook(_module, _inputs, output):
        for one in output if isinstance(output, (tuple, list)) else [output]:
            if isinstance(one, torch.Tensor):
                sizes.append(one.numel() * one.element_size())

    hooks = [module.register_forward_hook(hook) for module in model.modules()]
    with torch.no_grad():
        model(torch.zeros((batch, sequence), dtype=torch.long, device=model.device))
    for one in hooks:
        one.remove()
    return sum(sizes)


def count(asked, result):
    try:
        count_on("meta", asked, result)
    except (NotImplementedError, RuntimeError):
        count_on("cuda", asked, result)


def count_on(device, asked, result):
    model = build(asked, device).eval()
    result["device"] = device
    result["parameters"] = sum(p.numel() for p in model.parameters())
    result["modules"] = sum(1 for _ in model.modules())
    result["token_bytes"] = outputs_of(model, 1, 1)
    result["output_bytes"] = outputs_of(model, asked["batch"], asked["sequence"])


def main():
    asked = json.load(sys.stdin)
    started = time.monotonic()
    result = {"torch": torch.__version__, "transformers": transformers.__version__}
    try:
        if asked["method"] == "hooks":
            count(asked, result)
        else:
            simulate(asked, result)
    except torch.OutOfMemoryError:
        print("refused the model does not fit the simulated device", flush=True)
        return
    except Exception as error:  # of transformers, for a config that it cannot build
        print("refused", " ".join(f"{type(error).__name__}: {error}".split())[:300], flush=True)
        return
    result["seconds"] = time.monotonic() - started
    print("result", json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    gc.disable()
    os._exit(0)
