"""Two ranks, of which one dies: the other's next collective must fail, not wait for ever."""

import os
import time

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
tensor = torch.ones(2, device="cuda")
dist.all_reduce(tensor)
torch.cuda.synchronize()
if dist.get_rank() == 1:
    os._exit(0)
dist.all_reduce(tensor)
torch.cuda.synchronize()
time.sleep(60)  # NCCL's errors come later than the call: PyTorch's watchdog sees them, and ends the process
print("went on", flush=True)
