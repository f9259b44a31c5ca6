"""A model under DistributedDataParallel, between its backward pass and the next step; stands still. Run by test_retained.py."""

import os
import time

import torch
import torch.distributed

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
store = torch.distributed.TCPStore("127.0.0.1", 0, 1, is_master=True)
torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
model = torch.nn.Sequential(torch.nn.Linear(2000, 2000), torch.nn.ReLU(), torch.nn.Linear(2000, 1000)).cuda()
parallel = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(parallel.parameters())


def train():
    for _ in range(2):  # the second pass has its buckets in the order in which gradients came
        optimizer.zero_grad()
        parallel(torch.ones(64, 2000, device="cuda")).sum().backward()
        optimizer.step()


train()
buckets = [2000 * 2000 + 2000, 2000 * 1000 + 1000]  # elements: one bucket for each layer's gradients
print(os.getpid(), torch.cuda.memory_allocated(), *(4 * count for count in buckets), flush=True)
time.sleep(1000)
