"""Operators in a random order, from a seed; writes which tensors they made: address, dtype, shape, strides, time.

    tensor_shapes.py SEED OUT.json [cpu]
"""

import json
import random
import sys

import torch
from tensor_watch import Watch

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool]
FLOATS = DTYPES[:4]
DEVICE = (sys.argv[3:] or ["cuda"])[0]


def shape(choose, dimensions=None):
    return [choose.randint(1, 17) for _ in range(choose.randint(0, 5) if dimensions is None else dimensions)]


def make(choose):
    """A new tensor by one of the ways to make one."""
    dtype, size = choose.choice(DTYPES), shape(choose)
    keys = {"device": DEVICE, "dtype": dtype}
    way = choose.randrange(10)
    if way == 0:
        return torch.empty(size, **keys)
    if way == 1:
        return torch.zeros(size, **keys)
    if way == 2:
        return torch.full(size, 1, **keys)
    if way == 3:
        strides = [choose.randint(0, 40) for _ in size]
        return torch.empty_strided(size, strides, **keys)
    if way == 4:
        return torch.ones(size, dtype=dtype).to(DEVICE)
    if way == 5:
        size = shape(choose, choose.choice([4, 5]))
        format = torch.channels_last if len(size) == 4 else torch.channels_last_3d
        return torch.empty(size, memory_format=format, **keys)
    if way == 6:
        return torch.arange(choose.randint(1, 1000), device=DEVICE)
    if way == 7:
        return torch.empty(0, **keys).resize_(size)
    if way == 8:
        return resized(torch.empty(size, **keys))
    return torch.randn(size, device=DEVICE, dtype=choose.choice(FLOATS))


def resized(tensor):
    """FSDP's way to free a tensor's memory and to get it anew."""
    storage = tensor.untyped_storage()
    bytes = storage.nbytes()
    storage.resize_(0)
    storage.resize_(bytes)
    return tensor


def use(choose, tensor):
    """What an operator makes of it."""
    way = choose.randrange(12)
    if way == 0:
        return tensor + 1
    if way == 1:
        return tensor.to(choose.choice(DTYPES))
    if way == 2 and tensor.dim() >= 2:
        return tensor.transpose(0, -1).contiguous()
    if way == 3 and tensor.dim() >= 1:
        return torch.cat([tensor, tensor], dim=choose.randrange(tensor.dim()))
    if way == 4:
        return tensor.float().sum()
    if way == 5 and tensor.dim() >= 1:
        return tensor.float().softmax(-1)
    if way == 6 and tensor.dim() >= 1:
        return tensor.repeat([2] * tensor.dim())
    if way == 7:
        return torch.empty_like(tensor)
    if way == 8 and tensor.dim() >= 1:
        return tensor.unsqueeze(0).expand(3, *tensor.shape).clone()
    if way == 9 and tensor.dim() == 4:
        return tensor.float().contiguous(memory_format=torch.channels_last)
    if way == 10 and tensor.dim() >= 1:
        return torch.stack([tensor, tensor])
    return tensor.clone()


def train(choose):
    """A small model, forward and backward."""
    width = choose.randint(2, 64)
    model = torch.nn.Sequential(
        torch.nn.Linear(width, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, choose.randint(1, 9))
    ).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=choose.random() < 0.5)
    with torch.autocast(DEVICE, dtype=torch.float16, enabled=choose.random() < 0.5):
        loss = model(torch.randn(choose.randint(1, 33), width, device=DEVICE)).sum()
    loss.backward()
    optimizer.step()


def main():
    choose = random.Random(int(sys.argv[1]))
    kept = []
    watch = Watch(DEVICE)
    watch.see_storages()
    with watch:
        for _ in range(300):
            tensor = make(choose)
            for _ in range(choose.randint(0, 3)):
                tensor = use(choose, tensor)
            kept.append(tensor)
            if len(kept) > choose.randint(3, 40):
                del kept[choose.randrange(len(kept))]
        for _ in range(3):
            train(choose)
    with open(sys.argv[2], "w") as out:
        json.dump(watch.made, out)


main()
