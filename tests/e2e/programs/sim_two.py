"""Two devices in one process: DataParallel, and counts of PyTorch against the device's own."""

import json

import torch
from torch import nn

facts = {"count": torch.cuda.device_count(), "agree": []}


def agree():
    for i in range(2):
        free, total = torch.cuda.mem_get_info(i)
        stats = torch.cuda.memory_stats(i)
        facts["agree"].append([total - free - stats.get("reserved_bytes.all.current", 0), i])


agree()
model = nn.DataParallel(nn.Linear(512, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    out = model(torch.randn(64, 512).cuda())
    out.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    agree()
facts["out"] = [str(out.device), list(out.shape)]
facts["peaks"] = [torch.cuda.max_memory_allocated(i) > 0 for i in range(2)]
moved = torch.arange(100_000, device="cpu").to("cuda:1").to("cuda:0")
facts["moved"] = moved.cpu().tolist() == list(range(100_000))
del moved, out
torch.cuda.empty_cache()
agree()
print(json.dumps(facts))
