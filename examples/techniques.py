"""Ways to need less memory, each on the same transformer: how much does each save, and of what?

Names: plain, checkpoint, autocast, offload, accumulate, chunked. `gpumem diff` of two recordings says what one changed.

    build/bin/gpumem run --sim -o plain.gpumem -- .venv/bin/python examples/techniques.py
"""

import contextlib
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH, HEADS, LAYERS, BATCH, LENGTH = 512, 8, 8, 16, 512


def full_attention(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v


def chunked_attention(q, k, v, block_size=128):
    """The scores of a block of queries at a time, so that not all of them are there at once."""
    output = torch.zeros_like(q)
    for i in range(0, q.size(-2), block_size):
        scores = torch.matmul(q[..., i : i + block_size, :], k.transpose(-2, -1))
        output[..., i : i + block_size, :] = torch.matmul(torch.softmax(scores, dim=-1), v)
    return output


class Block(nn.Module):
    def __init__(self, way):
        super().__init__()
        self.attend = chunked_attention if way == "chunked" else full_attention
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        heads = self.qkv(self.norm(x)).view(BATCH, -1, 3 * HEADS, WIDTH // HEADS).transpose(1, 2)
        x = x + self.out(self.attend(*heads.chunk(3, dim=1)).transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, way):
        super().__init__()
        self.way = way
        self.blocks = nn.ModuleList(Block(way) for _ in range(LAYERS))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.way == "checkpoint" else block(x)
            if self.way == "offload" and not x.requires_grad:
                x = x.cpu().cuda()
        return x


def train(way, steps=3):
    model = Model(way).to("cuda")
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=way == "autocast")
    parts = 4 if way == "accumulate" else 1
    precision = torch.autocast("cuda", torch.float16) if way == "autocast" else contextlib.nullcontext()
    for _ in range(steps):
        for _ in range(parts):
            data = torch.randn(BATCH, LENGTH, WIDTH, device="cuda")
            with precision:
                loss = model(data).square().mean() / parts
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def infer(way):
    with torch.no_grad():
        Model(way).to("cuda")(torch.randn(BATCH, LENGTH, WIDTH, device="cuda"))


if __name__ == "__main__":
    way = sys.argv[1] if len(sys.argv) > 1 else "plain"
    (infer if "infer" in sys.argv else train)(way)
    print(f"{way}: peak {torch.cuda.max_memory_allocated():,} bytes")
