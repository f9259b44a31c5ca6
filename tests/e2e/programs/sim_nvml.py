"""What a program sees through NVML on the second of two simulated devices, beside another process: as JSON."""
import json
import subprocess
import sys

import torch

GIB = 1 << 30
if sys.argv[1:] == ["neighbour"]:
    held = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    print("ready", flush=True)
    sys.stdin.read()
    sys.exit()

facts = {"count": torch.cuda.device_count(), "context_before": torch.cuda.is_initialized()}
neighbour = subprocess.Popen(
    [sys.executable, __file__, "neighbour"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
neighbour.stdout.readline()
held = torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
free, total = torch.cuda.mem_get_info()
used = getattr(torch.cuda, "device_memory_used", lambda: total - free)  # PyTorch 2.4 has none
facts["used"] = [used(), total - free]
facts["utilization"] = torch.cuda.utilization()
facts["memory_usage"] = torch.cuda.memory_usage()
facts["clock"] = torch.cuda.clock_rate()
facts["processes"] = torch.cuda.list_gpu_processes().splitlines()
facts["pids"] = [neighbour.pid, __import__("os").getpid()]
try:
    torch.cuda.temperature()
except Exception as error:
    facts["temperature"] = type(error).__name__

import pynvml

pynvml.nvmlInit()
facts["machine"] = pynvml.nvmlDeviceGetCount()
first, second = (pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(2))
facts["name"] = pynvml.nvmlDeviceGetName(second)
facts["uuid"] = [pynvml.nvmlDeviceGetUUID(second), "GPU-" + str(getattr(torch.cuda.get_device_properties(0), "uuid", ""))]  # 2.4 has none
facts["bus"] = [pynvml.nvmlDeviceGetPciInfo(second).bus, getattr(torch.cuda.get_device_properties(0), "pci_bus_id", None)]
facts["first_used"] = pynvml.nvmlDeviceGetMemoryInfo(first).used
two = pynvml.nvmlDeviceGetMemoryInfo(second, version=pynvml.nvmlMemory_v2)
facts["version_2"] = [two.total, two.used, two.free]
facts["by_uuid"] = pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(facts["uuid"][0]))
try:
    torch.empty(200 * GIB, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    facts["oom"] = str(error)
neighbour.communicate("")
facts["alone"] = [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(second)]
free, total = torch.cuda.mem_get_info()
facts["used_alone"] = [used(), total - free]
pynvml.nvmlShutdown()
print(json.dumps(facts))
