"""Two simulated devices in one process: their memory is apart, copies go between them; JSON."""

import json
import sys

import torch

host = torch.arange(1 << 20)
first, second = host.to("cuda:0"), torch.empty(1 << 20, dtype=torch.int64, device="cuda:1")
facts = {
    "count": torch.cuda.device_count(),
    "names": [torch.cuda.get_device_name(i) for i in range(2)],
    "peers": [torch.cuda.can_device_access_peer(0, 1), torch.cuda.can_device_access_peer(1, 0)],
}
second.copy_(first)
facts["copied"] = bool((second.cpu() == host).all())
back = second.to("cuda:0", non_blocking=True)
facts["back"] = bool((back.cpu() == host).all())
facts["part"] = second[1000:1010].to("cuda:0").cpu().tolist()
facts["reserved"] = [torch.cuda.memory_reserved(i) for i in range(2)]
with torch.cuda.device(1):
    big = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
facts["where"] = str(big.device)
facts["free"] = [torch.cuda.mem_get_info(i)[0] for i in range(2)]
json.dump(facts, sys.stdout)
