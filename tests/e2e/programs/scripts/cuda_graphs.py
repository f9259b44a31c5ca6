"""A whole training step captured in a CUDA graph and replayed; and make_graphed_callables."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), capturable=True)
static_input, static_target = torch.randn(32, 64, device="cuda"), torch.zeros(32, dtype=torch.long, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(static_input), static_target).backward()
        optimizer.step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = nn.functional.cross_entropy(model(static_input), static_target)
    loss.backward()
    optimizer.step()
for step in range(5):
    static_input.copy_(torch.randn(32, 64))
    graph.replay()
callables = torch.cuda.make_graphed_callables(nn.Linear(64, 64).cuda(), (torch.randn(8, 64, device="cuda"),))
callables(torch.randn(8, 64, device="cuda")).sum().backward()
print("replays", step + 1)
