"""CUDA graphs on the simulated device: capture into a private pool, replay, what a capture refuses; JSON."""

import json
import sys

import torch

facts = {}
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
static = torch.zeros(32, 64, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = model(static).sum()
    loss.backward()
    optimizer.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
before = torch.cuda.memory_reserved()
with torch.cuda.graph(graph):
    facts["capturing"] = torch.cuda.is_current_stream_capturing()
    loss = step()
facts["after"] = torch.cuda.is_current_stream_capturing()
facts["grew"] = torch.cuda.memory_reserved() > before
pools = {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory._snapshot()["segments"]}
facts["private_pools"] = len(pools - {(0, 0)})
for _ in range(5):
    static.copy_(torch.randn(32, 64))
    graph.replay()
facts["loss"] = loss.item()

# A copy in a graph is done when it is replayed, not before; side streams belong to the capture.
source = torch.full((1000,), 7.0).cuda()
target = torch.zeros(1000).cuda()
copies = torch.cuda.CUDAGraph()
with torch.cuda.graph(copies):
    other = torch.cuda.Stream()
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        facts["joined"] = torch.cuda.is_current_stream_capturing()
        target.copy_(source)
    torch.cuda.current_stream().wait_stream(other)
facts["before_replay"] = target.cpu()[0].item()
copies.replay()
facts["after_replay"] = target.cpu()[999].item()

# Small kernels are computed at each replay, from what is there then; so are random numbers, as they would be drawn.
given = torch.zeros(50, dtype=torch.int64, device="cuda")
kernels = torch.cuda.CUDAGraph()
with torch.cuda.graph(kernels):
    doubled = given * 2 + 1
    largest = (doubled % 7).max()
    products = [(doubled % 7 + 1)[:9].prod(), (doubled % 5 + 1)[:9].double().prod(), (doubled % 3)[:3].int().prod()]
    index = torch.argsort(doubled, descending=True)[0]
    drawn = torch.rand(100, device="cuda")
    whole = torch.randint(0, 1000, (100,), device="cuda")
for case in range(3):
    given.copy_(torch.arange(50) * (case + 2))
    kernels.replay()
    host = torch.arange(50) * (case + 2) * 2 + 1
    if case == 0:
        facts["computed"] = []
    facts["computed"].append(
        torch.equal(doubled.cpu(), host)
        and largest.item() == (host % 7).max().item()
        and index.item() == 49
        and products[0].item() == (host % 7 + 1)[:9].prod().item()
        and products[1].item() == (host % 5 + 1)[:9].double().prod().item()
        and products[2].item() == (host % 3)[:3].prod().item()
    )
torch.manual_seed(5)
kernels.replay()
first, first_whole = drawn.cpu(), whole.cpu()
kernels.replay()
second = drawn.cpu()
torch.manual_seed(5)
eager = [torch.rand(100, device="cuda").cpu(), torch.randint(0, 1000, (100,), device="cuda").cpu()]
facts["drawn"] = [
    torch.equal(first, eager[0]),
    torch.equal(first_whole, eager[1]),
    torch.equal(second, torch.rand(100, device="cuda").cpu()),
    bool((first < 1).all() and first.unique().numel() > 90),
]

made = torch.cuda.make_graphed_callables(torch.nn.Linear(64, 8).cuda(), (torch.randn(4, 64, device="cuda"),))
facts["graphed"] = list(made(torch.randn(4, 64, device="cuda")).shape)
del graph, copies, made
torch.cuda.synchronize()
torch.cuda.empty_cache()
facts["agree"] = torch.cuda.memory_reserved() == sum(
    segment["total_size"] for segment in torch.cuda.memory._snapshot()["segments"]
)
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        static.zero_()
        loss.item()
except RuntimeError as error:
    facts["refused"] = str(error).splitlines()[0]
facts["goes_on"] = float((torch.ones(3).cuda()).cpu().sum())
json.dump(facts, sys.stdout)
