"""What goes wrong in collectives between two processes: the case is the first argument."""

import json
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

case = sys.argv[1]
rank = int(os.environ["RANK"])
if case == "duplicate":
    os.environ["LOCAL_RANK"] = "0"  # from 2.15 on, PyTorch refuses tensors of another device than that before NCCL sees them
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
began = time.time()
try:
    dist.init_process_group("nccl", timeout=timedelta(seconds=10 if case == "late" else 300))
    tensor = torch.ones(4).cuda()
    dist.all_reduce(tensor)
    if case == "dies":
        if rank == 1:
            os._exit(7)
        dist.all_reduce(tensor)
    elif case == "mismatch":
        dist.all_reduce(torch.ones(4 + rank).cuda())
    elif case == "late":
        if rank == 1:
            time.sleep(60)
        dist.all_reduce(tensor)
    torch.cuda.synchronize()
    if case in ("mismatch", "late"):
        time.sleep(60)  # from 2.15 on, PyTorch ends the process 15 seconds after it aborted the communicator, which ends the kernel
    print(json.dumps({"rank": rank, "values": tensor.tolist()}) + "\n", end="", flush=True)
except Exception as error:
    print(json.dumps({"rank": rank, "error": type(error).__name__, "text": str(error)}) + "\n", end="", flush=True)
    os._exit(3)
