"""A rank of a pipeline: stages of consecutive ranks, each with its own layers; the ranks of a stage divide the batch.

    job_pipeline.py [STAGES]

Stage 0 has the embedding, the last one the head. Micro-batches go through the stages one after the other and come back in the same order (1F1B): a
stage keeps the activations of those that are on their way behind it, so the first one keeps most.
"""

import os
import sys
from collections import deque

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH, LAYERS, BATCH, LENGTH, MICRO = 4096, 256, 2, 4, 64, 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


stages = int(sys.argv[1]) if len(sys.argv) > 1 else 4
dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
width = world // stages  # ranks of a stage
stage = rank // width
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
group = dist.new_group([stage * width + i for i in range(width)], use_local_synchronization=True)
first, last = stage == 0, stage == stages - 1
layers = [Block() for _ in range(LAYERS)]
if first:
    layers.insert(0, nn.Embedding(WORDS, WIDTH))
if last:
    layers.append(nn.Linear(WIDTH, WORDS))
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)


def forward(under_way):
    if first:
        given = torch.randint(WORDS, (BATCH, LENGTH)).cuda()
    else:
        given = torch.empty(BATCH, LENGTH, WIDTH, device="cuda", requires_grad=True)
        dist.recv(given.detach(), rank - width)
    made = model(given)
    if last:
        made = F.cross_entropy(made.flatten(0, 1), torch.zeros(BATCH * LENGTH, dtype=torch.long, device="cuda"))
    else:
        dist.send(made.detach(), rank + width)
    under_way.append((given, made))


def backward(under_way):
    given, made = under_way.popleft()
    gradient = None
    if not last:
        gradient = torch.empty_like(made)
        dist.recv(gradient, rank + width)
    made.backward(gradient)
    if not first:
        dist.send(given.grad, rank - width)


for _ in range(2):
    under_way = deque()
    for number in range(MICRO):
        forward(under_way)
        if len(under_way) >= stages - stage:
            backward(under_way)
    while under_way:
        backward(under_way)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
