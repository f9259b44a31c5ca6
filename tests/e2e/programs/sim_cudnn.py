"""What goes through cuDNN, each trained a step on the simulated device; a JSON object of what came out."""

import contextlib
import json
import os
import sys

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

CUDNN_ATTENTION = not torch.__version__.startswith("2.4.")  # which does not accept this layout
facts = {"available": torch.backends.cudnn.is_available(), "version": torch.backends.cudnn.version()}


class Block(nn.Module):
    """A bottleneck as ResNet-50 has them."""

    def __init__(self, inside, width, stride=1):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
        )
        self.skip = nn.Sequential(nn.Conv2d(inside, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return nn.functional.relu(self.path(x) + self.skip(x))


def network():
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        Block(64, 64),
        Block(256, 128, 2),
        nn.ConvTranspose2d(512, 64, 2, 2),
        nn.Conv2d(64, 64, 3, padding=1, groups=64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    ).cuda()


def step(model, *inputs, autocast=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with torch.autocast("cuda", autocast) if autocast else contextlib.nullcontext():
        out = model(*inputs)
        out = out[0] if isinstance(out, tuple) else out
        loss = out.float().sum()
    loss.backward()
    optimizer.step()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in model.parameters())
    return list(out.shape)


images = torch.randn(4, 3, 64, 64, device="cuda")
facts["float"] = step(network(), images)
facts["bf16"] = step(network(), images, autocast=torch.bfloat16)
facts["channels_last"] = step(
    network().to(memory_format=torch.channels_last),
    images.contiguous(memory_format=torch.channels_last),
    autocast=torch.float16,
)
torch.backends.cudnn.benchmark = True
facts["benchmark"] = step(network(), images)
torch.backends.cudnn.benchmark = False
facts["conv3d"] = step(nn.Conv3d(3, 8, 3).cuda(), torch.randn(2, 3, 8, 8, 8, device="cuda"))
facts["conv1d"] = step(nn.Conv1d(3, 8, 3).cuda(), torch.randn(2, 3, 16, device="cuda"))
with torch.no_grad():
    facts["inference"] = list(network().eval()(images).shape)

for name, build in {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}.items():
    model = build(32, 64, num_layers=2, bidirectional=True, dropout=0.1).cuda()
    facts[name] = step(model, torch.randn(10, 4, 32, device="cuda"))
    buffer = {p.untyped_storage().data_ptr() for p in model.parameters()}
    # All weights are views of one buffer, side by side, none over another.
    spans = sorted((p.data_ptr(), p.data_ptr() + p.numel() * 4) for p in model.parameters())
    facts[name + "_flat"] = [
        len(buffer),
        all(a[1] <= b[0] for a, b in zip(spans, spans[1:])),
        next(model.parameters()).untyped_storage().nbytes() == sum(b - a for a, b in spans),
    ]
facts["projected"] = step(nn.LSTM(32, 64, proj_size=16).cuda(), torch.randn(10, 4, 32, device="cuda"))
packed = nn.utils.rnn.pack_padded_sequence(torch.randn(10, 4, 32), [10, 8, 5, 2]).to("cuda")
facts["packed"] = list(nn.LSTM(32, 64).cuda()(packed)[0].data.shape)

facts["attention"] = {}
for dtype in torch.float16, torch.bfloat16:
    for backend in (
        SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, None,
    ):
        if backend == SDPBackend.CUDNN_ATTENTION and not CUDNN_ATTENTION:
            continue
        for causal in False, True:
            q, k, v = (torch.randn(2, 8, 128, 64, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3))
            with sdpa_kernel(backend) if backend else contextlib.nullcontext():
                out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            out.sum().backward()
            name = f"{backend.name if backend else 'chosen'} {str(dtype)[6:]}{' causal' if causal else ''}"
            facts["attention"][name] = [list(out.shape), q.grad.shape == q.shape, type(out.grad_fn).__name__]
with sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if CUDNN_ATTENTION else contextlib.nullcontext():
    mask = torch.zeros(2, 1, 128, 128, device="cuda", dtype=torch.bfloat16)
    facts["masked"] = list(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).shape)

logs = torch.randn(20, 4, 12, device="cuda", requires_grad=True)
loss = nn.functional.ctc_loss(logs.log_softmax(2), torch.ones(16, dtype=torch.int32), (20,) * 4, (4,) * 4)
facts["ctc_by"] = []
node = loss.grad_fn
while node and len(facts["ctc_by"]) < 4:
    facts["ctc_by"].append(type(node).__name__)
    node = node.next_functions[0][0] if node.next_functions else None
loss.backward()
facts["ctc"] = list(logs.grad.shape)
facts["grid"] = list(
    nn.functional.grid_sample(images, torch.zeros(4, 8, 8, 2, device="cuda"), align_corners=True).shape
)
json.dump(facts, sys.stdout)
