"""What a device says of itself and does with memory, as JSON: run on a GPU and on the simulated device, and compared.

    python facts.py OUT.json

Nothing else may use the device meanwhile: free memory is read before and after calls.
"""

import ctypes
import json
import random
import sys

import torch

cuda = ctypes.CDLL("libcudart.so.13" if (torch.version.cuda or "").startswith("13") else "libcudart.so.12")
driver = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
facts = {"torch": torch.__version__, "cuda": torch.version.cuda}


def free():
    left, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert cuda.cudaMemGetInfo(ctypes.byref(left), ctypes.byref(total)) == 0
    facts["total"] = total.value
    return left.value


def used_by_others():
    torch.cuda.synchronize()
    return facts["total"] - free() - torch.cuda.memory_reserved()


def attributes():
    value = ctypes.c_int()
    found = {}
    for which in range(1, 170):
        status = cuda.cudaDeviceGetAttribute(ctypes.byref(value), which, 0)
        cuda.cudaGetLastError()
        found[which] = value.value if status == 0 else f"error {status}"
    facts["attributes"] = found


def properties():
    raw = ctypes.create_string_buffer(4096)
    name = "cudaGetDeviceProperties" if hasattr(cuda, "cudaGetDeviceProperties") else "cudaGetDeviceProperties_v2"
    facts["properties_status"] = getattr(cuda, name)(raw, 0)
    facts["properties"] = raw.raw.hex().rstrip("0")
    asked = torch.cuda.get_device_properties(0)
    facts["asked"] = {n: str(getattr(asked, n)) for n in dir(asked) if not n.startswith("_")}


def limits():
    value = ctypes.c_size_t()
    facts["limits"] = {}
    for which in range(7):
        status = cuda.cudaDeviceGetLimit(ctypes.byref(value), which)
        cuda.cudaGetLastError()
        facts["limits"][which] = value.value if status == 0 else f"error {status}"
    version = ctypes.c_int()
    cuda.cudaDriverGetVersion(ctypes.byref(version))
    facts["driver_version"] = version.value
    cuda.cudaRuntimeGetVersion(ctypes.byref(version))
    facts["runtime_version"] = version.value


def sizes_of_pages():
    """(size, bytes of free memory that cudaMalloc of it takes), each with a second one of the same size after it."""
    found = []
    for size in (1, 512, 4096, 65536, MIB, MIB + 1, 2 * MIB, 2 * MIB + 1, 3 * MIB, 10 * MIB, 20 * MIB, 33 * MIB + 5, 1 << 30, (1 << 30) + 1):
        pointers, took = [], []
        for _ in range(3):
            pointer, before = ctypes.c_void_p(), free()
            assert cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
            took.append(before - free())
            pointers.append(pointer)
        gave = []
        for pointer in pointers:
            before = free()
            assert cuda.cudaFree(pointer) == 0
            gave.append(free() - before)
        found.append([size, took, gave])
    facts["pages"] = found


def addresses():
    """Where cudaMalloc puts what, from the first one on; a freed address may be given again."""
    rng, live, found = random.Random(7), [], []
    first = None
    for step in range(400):
        if live and rng.random() < 0.4:
            at = rng.randrange(len(live))
            pointer, name = live.pop(at)
            cuda.cudaFree(ctypes.c_void_p(pointer))
            found.append(["free", name])
            continue
        size = rng.choice((2, 2, 2, 20, 20, 22, 26, 40, 64, 100, 130, 512, 1024)) * MIB
        pointer = ctypes.c_void_p()
        assert cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
        first = first or pointer.value
        found.append(["malloc", step, size, pointer.value - first])
        live.append((pointer.value, step))
    for pointer, _ in live:
        cuda.cudaFree(ctypes.c_void_p(pointer))
    facts["first_address"], facts["addresses"] = hex(first), found


def pools():
    pool, found = ctypes.c_void_p(), []
    assert cuda.cudaDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0

    def values():
        value, got = ctypes.c_uint64(), []
        for which in range(1, 9):
            status = cuda.cudaMemPoolGetAttribute(pool, which, ctypes.byref(value))
            got.append((value.value & 0xFFFFFFFF if which < 4 else value.value) if status == 0 else f"error {status}")
        return got

    found.append(["start", values(), free()])
    rng, live = random.Random(3), []
    start = free()
    for step in range(40):
        if live and rng.random() < 0.4:
            pointer = live.pop(rng.randrange(len(live)))
            status, what = cuda.cudaFreeAsync(pointer, None), "free"
        else:
            size, pointer = rng.choice((1, 1000, MIB, 5 * MIB, 31 * MIB, 33 * MIB, 64 * MIB, 200 * MIB)), ctypes.c_void_p()
            status, what = cuda.cudaMallocAsync(ctypes.byref(pointer), ctypes.c_size_t(size), None), size
            live.append(pointer)
        cuda.cudaStreamSynchronize(None)
        found.append([what, status, values(), start - free()])
    for pointer in live:
        cuda.cudaFreeAsync(pointer, None)
    cuda.cudaDeviceSynchronize()
    found.append(["end", values(), start - free()])
    facts["pools"] = found


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", Location),
        ("meta", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 32),
    ]


def virtual_memory():
    props, size, found = Properties(1, 0, Location(1, 0)), ctypes.c_size_t(), {}
    for which in 0, 1:
        status = driver.cuMemGetAllocationGranularity(ctypes.byref(size), ctypes.byref(props), which)
        found[f"granularity {which}"] = [status, size.value]
    reserved = []
    for size in (2 * MIB, 20 * MIB, 1 << 30, 90 << 30, 2 * MIB):
        pointer = ctypes.c_uint64()
        status = driver.cuMemAddressReserve(ctypes.byref(pointer), ctypes.c_size_t(size), ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        reserved.append([size, status, hex(pointer.value)])
    found["reserved"] = reserved
    facts["virtual_memory"] = found


def growth():
    """What the context and each library take of the device beside PyTorch's segments."""
    found = [["context", used_by_others()]]
    torch.zeros(1, device="cuda").add_(1)
    found.append(["first kernel", used_by_others()])
    a = torch.randn(256, 256, device="cuda")
    a @ a
    found.append(["cublas", used_by_others()])
    torch.nn.functional.linear(a, a, a[0])
    found.append(["cublasLt", used_by_others()])
    a.half() @ a.half()
    found.append(["half product", used_by_others()])
    torch.nn.functional.conv2d(torch.randn(2, 3, 32, 32, device="cuda"), torch.randn(8, 3, 3, 3, device="cuda"))
    found.append(["cudnn", used_by_others()])
    torch.fft.fft(a)
    found.append(["cufft", used_by_others()])
    torch.linalg.inv(a)
    found.append(["cusolver", used_by_others()])
    a.to_sparse_csr() @ a
    found.append(["cusparse", used_by_others()])
    torch.randperm(1 << 20, device="cuda").sort()
    found.append(["sort", used_by_others()])
    try:
        import torch.distributed as dist

        dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29777", rank=0, world_size=1)
        dist.all_reduce(a)
        found.append(["nccl", used_by_others()])
        dist.barrier()
        found.append(["nccl barrier", used_by_others()])
        dist.destroy_process_group()
        found.append(["nccl destroyed", used_by_others()])
    except Exception as error:  # noqa: BLE001 - what it says is the fact
        found.append(["nccl", str(error)[:300]])
    facts["growth"] = found
    facts["reserved"] = torch.cuda.memory_reserved()


def nvml():
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        memory, second = pynvml.nvmlDeviceGetMemoryInfo(handle), pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        facts["nvml"] = {
            "name": pynvml.nvmlDeviceGetName(handle),
            "memory": [memory.total, memory.used, memory.free],
            "memory2": [second.total, second.reserved, second.used, second.free],
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "processes": [p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)],
        }
    except Exception as error:  # noqa: BLE001
        facts["nvml"] = str(error)
    facts["cudaMemGetInfo used"] = facts["total"] - free()


def errors():
    found = {}
    for name, make in (
        ("oom", lambda: torch.empty(1 << 40, dtype=torch.uint8, device="cuda")),
        ("bad device", lambda: torch.empty(1, device="cuda:1")),
        ("negative", lambda: torch.cuda.set_device(7)),
    ):
        try:
            make()
        except Exception as error:  # noqa: BLE001
            found[name] = f"{type(error).__name__}: {error}"
    facts["errors"] = found
    texts = {}
    cuda.cudaGetErrorString.restype = cuda.cudaGetErrorName.restype = ctypes.c_char_p
    for code in range(1000):
        texts[code] = [cuda.cudaGetErrorName(code).decode(), cuda.cudaGetErrorString(code).decode()]
    facts["error_texts"] = {c: t for c, t in texts.items() if t[0] != "unrecognized error code"}


facts["before_context"] = torch.cuda.is_available()
assert cuda.cudaFree(None) == 0
facts["free_after_context"] = free()
for part in (attributes, properties, limits, sizes_of_pages, addresses, pools, virtual_memory, growth, nvml, errors):
    try:
        part()
    except Exception as error:  # noqa: BLE001 - the others are wanted all the same
        facts[part.__name__ + " failed"] = f"{type(error).__name__}: {error}"[:500]
with open(sys.argv[1], "w") as file:
    json.dump(facts, file)
print("facts", len(facts))
