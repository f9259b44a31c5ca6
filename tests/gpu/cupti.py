"""Libraries with a CUDA runtime of their own, in a PyTorch program: NCCL, and a profiler of the program's own."""

import sys

import torch

a = torch.randn(512, 512, device="cuda")
if "profiler" in sys.argv:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        (a @ a).sum().item()
    kernels = [e.key for e in seen.key_averages() if e.device_type == torch.autograd.DeviceType.CUDA]
    print("kernels seen by the profiler:", len(kernels))
import torch.distributed as dist

free = [torch.cuda.mem_get_info()[0]]
dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{29500 + (len(sys.argv) > 1)}", rank=0, world_size=1)
dist.all_reduce(a)
torch.cuda.synchronize()
free.append(torch.cuda.mem_get_info()[0])
torch.nn.functional.conv2d(torch.randn(8, 3, 64, 64, device="cuda"), torch.randn(8, 3, 3, 3, device="cuda"))
torch.linalg.svd(a)
free.append(torch.cuda.mem_get_info()[0])
print("free:", free)
dist.destroy_process_group()
