"""known_memory.py KIND OUT: trains a small model in one of several ways under PyTorch's own recorder, and writes, beside
the snapshot OUT, what hooks saw: OUT.json has notes [address, category, time_us] and windows [phase, from_us,
to_us, step]. The tests hold gpumem's phases and categories against them."""

import contextlib
import json
import os
import sys
import tempfile
import time

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

kind, out = sys.argv[1:3]
notes, windows = [], []
step_now = 0


def now():
    return time.time_ns() // 1000


def note(tensor, category):
    if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
        notes.append([tensor.untyped_storage().data_ptr(), category, now()])


def note_all(value, category):
    if isinstance(value, torch.Tensor):
        note(value, category)
    elif isinstance(value, dict):
        for item in value.values():
            note_all(item, category)
    elif isinstance(value, (list, tuple)):
        for item in value:
            note_all(item, category)
    elif hasattr(value, "layers") and hasattr(value, "get_seq_length"):  # transformers' DynamicCache
        for layer in value.layers:
            note(layer.keys, "kv_cache")
            note(layer.values, "kv_cache")


@contextlib.contextmanager
def window(phase):
    start = now()
    try:
        yield
    finally:
        windows.append([phase, start, now(), step_now])


# --- hooks on everything: modules, backward, optimizers -------------------------------------------------------------

depth, forward_start, forward_phase = 0, 0, "forward"
in_backward = False


def before_module(module, args):
    global depth, forward_start
    if depth == 0:
        forward_start = now()
    depth += 1


def after_module(module, args, output):
    global depth
    depth -= 1
    if not in_backward:
        note_all(dict(output) if hasattr(output, "keys") else output, "activation")
    if depth == 0:
        windows.append(["recompute" if in_backward else forward_phase, forward_start, now(), step_now])


def timed_backward(original):
    def backward(*args, **kwargs):
        global in_backward, depth
        in_backward, before = True, depth
        with window("backward"):
            try:
                return original(*args, **kwargs)
            finally:
                in_backward, depth = False, before

    return backward


step_start = 0


def before_step(optimizer, args, kwargs):
    global step_start
    step_start = now()


def after_step(optimizer, args, kwargs):
    windows.append(["optimizer", step_start, now(), step_now])
    for state in optimizer.state.values():
        note_all(state, "optimizer_state")


shapes = set()  # of parameters; no activation has one of them


def pack(tensor):
    is_copy = tensor.dtype is torch.float16 and {tensor.shape, tensor.shape[::-1]} & shapes  # autocast's
    note(tensor, "copy" if is_copy else "activation")
    return tensor.detach()


def watch(model):
    for parameter in model.parameters():
        note(parameter, "parameter")
        shapes.add(parameter.shape)
        parameter.register_post_accumulate_grad_hook(lambda p: note(p.grad, "gradient"))
    for buffer in model.buffers():
        note(buffer, "buffer")


# --- programs -------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width=512, blocks=4, checkpoint=False, sampling=False):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, 8 * width)
        self.checkpoint, self.sampling = checkpoint, sampling

    def forward(self, x):
        for block in self.blocks:
            if self.checkpoint:
                # without early stop, or the hooks would not see where recomputing ends
                with torch.utils.checkpoint.set_checkpoint_early_stop(False):
                    x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        if self.sampling:  # its probs are computed with autograd on, also under no_grad()
            torch.distributions.Categorical(logits=x[:, :8], validate_args=False).sample()
        return self.head(x)


def batch(rows=2304, width=512):
    inputs = torch.randn(rows, width, device="cuda")
    targets = torch.zeros(rows, dtype=torch.long, device="cuda")
    note(inputs, "input")
    note(targets, "input")
    return inputs, targets


def loss_of(outputs, targets):
    with window(forward_phase):
        loss = nn.functional.cross_entropy(outputs, targets)
    return loss


def train(model, steps=4, scaler=None, accumulate=1, first=None):
    global step_now
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        step_now += 1
        if first:
            first(model)
        for _ in range(accumulate):
            inputs, targets = batch()
            with torch.autocast("cuda", torch.float16, enabled=scaler is not None):
                loss = loss_of(model(inputs), targets)
            (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        with window("zero_grad"):
            optimizer.zero_grad()


def run_evaluation(model):
    global forward_phase
    forward_phase = "evaluation"
    model.eval()
    with torch.no_grad():
        for _ in range(3):
            inputs, targets = batch(rows=16384)
            loss_of(model(inputs), targets)
    forward_phase = "forward"
    model.train()


def epochs(model):
    for _ in range(2):
        train(model, steps=3)
        run_evaluation(model)


def small_llama(layers=3):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=8000, hidden_size=256, intermediate_size=1024, num_hidden_layers=layers,
            num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=2048,
        )
    )  # fmt: skip


def trainer():
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Steps(TrainerCallback):
        def on_step_begin(self, *args, **kwargs):
            global step_now
            step_now += 1

    model = small_llama().to("cuda")
    watch(model)
    data = [{"input_ids": torch.zeros(256, dtype=torch.long), "labels": torch.zeros(256, dtype=torch.long)}] * 64
    args = TrainingArguments(
        output_dir=os.environ.get("TMPDIR", "/tmp"), per_device_train_batch_size=8, max_steps=4, report_to=[],
        save_strategy="no", logging_steps=1, disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    Trainer(model=model, args=args, train_dataset=data, callbacks=[Steps()]).train()


def generate():
    global forward_phase
    from transformers import LlamaForCausalLM

    with tempfile.TemporaryDirectory() as folder:  # the library reads the weights in threads of a pool
        small_llama().save_pretrained(folder)
        model = LlamaForCausalLM.from_pretrained(folder, device_map="cuda").eval()
    watch(model)
    prompt = torch.ones(4, 512, dtype=torch.long, device="cuda")
    note(prompt, "input")
    forward_phase = "generate"
    model.generate(prompt, max_new_tokens=12, min_new_tokens=12, do_sample=False, pad_token_id=0)


def ddp():
    import torch.distributed as dist

    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)  # a port that is free
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    model = Net().to("cuda")
    watch(model)
    train(nn.parallel.DistributedDataParallel(model))
    dist.destroy_process_group()


def plain(**options):
    net = Net(checkpoint=options.pop("checkpoint", False), sampling=options.pop("sampling", False)).to("cuda")
    watch(net)
    (epochs if options.pop("epochs", False) else train)(net, **options)


KINDS = {
    "plain": plain,
    "checkpoint": lambda: plain(checkpoint=True),
    "accumulate": lambda: plain(accumulate=3),
    "autocast": lambda: plain(scaler=torch.amp.GradScaler("cuda")),
    "evaluation": lambda: plain(epochs=True),
    "sampling": lambda: plain(sampling=True, first=run_evaluation),
    "trainer": trainer,
    "generate": generate,
    "ddp": ddp,
}

nn.modules.module.register_module_forward_pre_hook(before_module)
nn.modules.module.register_module_forward_hook(after_module)
torch.Tensor.backward = timed_backward(torch.Tensor.backward)
register_optimizer_step_pre_hook(before_step)
register_optimizer_step_post_hook(after_step)

torch.cuda.memory._record_memory_history(context="all", stacks=os.environ.get("STACKS", "python"), max_entries=1000000)
with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
    KINDS[kind]()
torch.cuda.memory._dump_snapshot(out)
with open(out + ".json", "w") as file:
    json.dump({"notes": notes, "windows": windows}, file)
