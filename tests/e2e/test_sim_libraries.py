"""Libraries that stand on CUDA, in front of the simulated device: Fourier transforms, solvers, sparse matrices."""

import json
import os

import pytest
from conftest import PYTHON

PROGRAM = """
import json, torch
a, many = torch.randn(16, 16, device="cuda"), torch.randn(16, 32, 32, device="cuda")
calls = {
    "rfft": lambda: torch.fft.rfft(a), "ifft2": lambda: torch.fft.ifft2(a.to(torch.complex64)),
    "stft": lambda: torch.stft(torch.randn(2, 1000, device="cuda"), 64, return_complex=True, window=a.new_ones(64)),
    "large_fft": lambda: torch.fft.fft2(torch.randn(512, 509, device="cuda")),
    "solve": lambda: torch.linalg.solve(a, a), "svd": lambda: torch.linalg.svd(a).S, "qr": lambda: torch.linalg.qr(a).R,
    "cholesky": lambda: torch.linalg.cholesky(a), "eigh": lambda: torch.linalg.eigh(a).eigenvalues,
    "inverse": lambda: torch.inverse(a), "lstsq": lambda: torch.linalg.lstsq(a, a).solution,
    "batched_qr": lambda: torch.linalg.qr(many)[0], "batched_lstsq": lambda: torch.linalg.lstsq(many, many).solution,
    "batched_solve": lambda: torch.linalg.solve(many, many.cfloat().real),
    "orthogonal": lambda: torch.nn.init.orthogonal_(torch.empty(8, 8, device="cuda")),
    "coo": lambda: torch.sparse.mm(a.to_sparse(), a), "csr": lambda: a.to_sparse_csr() @ a,
    "jiterator": lambda: a.prod(), "nvrtc": lambda: torch.special.i0(a),
}
found = {}
for name, call in calls.items():
    try:
        found[name] = list(call().shape)
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def ran(run_gpumem, tmp_path_factory):
    account = tmp_path_factory.mktemp("libraries") / "account.json"
    finished = run_gpumem("run", "--sim", "--json", account, "--", PYTHON, "-c", PROGRAM).check()
    return finished, finished.out.json(), json.loads(account.read_text())


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("rfft", [16, 9]),
        ("ifft2", [16, 16]),
        ("stft", [2, 33, 63]),
        ("large_fft", [512, 509]),
        ("solve", [16, 16]),
        ("svd", [16]),
        ("qr", [16, 16]),
        ("cholesky", [16, 16]),
        ("eigh", [16]),
        ("inverse", [16, 16]),
        ("lstsq", [16, 16]),
        *((name, [16, 32, 32]) for name in ("batched_qr", "batched_lstsq", "batched_solve")),
        ("orthogonal", [8, 8]),
        ("coo", [16, 16]),
        ("csr", [16, 16]),
        ("jiterator", []),
        ("nvrtc", [16, 16]),
    ],
)
def test_a_call_is_accepted(ran, call, shape):
    assert ran[1][call] == shape


def test_what_the_libraries_did_not_compute_is_counted(ran):
    assert ran[2]["library_calls_not_computed"] >= 15


REFUSALS = """
import ctypes
cuda = ctypes.CDLL(None)
print(cuda.cusparseXcsrgeam2Nnz(), cuda.cufftDestroy(ctypes.c_int(7)))
a, b = ctypes.c_void_p(), ctypes.c_void_p()
print(cuda.cudaMalloc(ctypes.byref(a), ctypes.c_size_t(1 << 20)), cuda.cudaFree(a), cuda.cudaFree(a))
cuda.cudaMalloc(ctypes.byref(a), ctypes.c_size_t(1 << 20))
print(cuda.cudaFree(ctypes.c_void_p(a.value + 512)), cuda.cudaMemset(a, 1, ctypes.c_size_t((1 << 20) + 1)))
print(cuda.cudaMemcpy(a, ctypes.c_void_p(a.value + (1 << 19)), ctypes.c_size_t(1 << 20), 3))
"""


def test_calls_outside_are_named_and_wrong_addresses_are_errors(run_gpumem):
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", REFUSALS).check()
    assert "cusparseXcsrgeam2Nnz: not simulated: returned CUSPARSE_STATUS_NOT_SUPPORTED" in finished.err
    # CUSPARSE_STATUS_NOT_SUPPORTED, CUFFT_INVALID_PLAN; freed once, not twice; not inside; not past the end.
    assert finished.out == "10 1\n0 0 1\n1 1\n1\n"


DRIVER = """
import ctypes, torch
cuda, n, p = ctypes.CDLL(None), ctypes.c_int(), ctypes.c_void_p()
wrong, large, out = ctypes.c_void_p(0x1234567), ctypes.c_size_t(1 << 45), ctypes.byref
x = torch.zeros(3, device="cuda")
calls = {
    "cuDeviceGetAttribute": (out(n), 99999, 0), "cuDeviceGetPCIBusId": (None, 0, 0), "cuDeviceGetByPCIBusId": (out(n), b"none"),
    "cuMemAlloc_v2": (out(p), large), "cuMemFree_v2": (wrong,), "cuMemAllocManaged": (out(p), large, 99), "cuMemFreeHost": (wrong,),
    "cuMemAllocAsync": (out(p), large, None), "cuMemHostUnregister": (wrong,),
    "cuMemsetD8_v2": (wrong, 0, ctypes.c_size_t(8)), "cuMemsetD32_v2": (wrong, 7, ctypes.c_size_t(8)), "cuMemPoolTrimTo": (None, large),
    "cuDeviceGetDefaultMemPool": (out(p), 99), "cuFuncSetAttribute": (None, 8, 1), "cuCtxGetLimit": (None, 0),
    "cuLaunchKernel": (None, 1, 1, 1, 1, 1, 1, 0, None, None, None), "cuFuncGetAttribute": (out(n), 0, None),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (None, None, 32, ctypes.c_size_t(0)),
    "ncclMemAlloc": (out(p), large), "ncclMemFree": (wrong,),
}
for name, arguments in calls.items():
    if not getattr(cuda, name)(*arguments) or cuda.cudaPeekAtLastError():
        print(name, cuda.cudaGetLastError())
print((x + 1).tolist())
cuda.cudaFree(wrong)  # the runtime's own failures stay
cuda.cuMemFree_v2(wrong), cuda.cuCtxSynchronize()
print(cuda.cudaGetLastError())
"""


def test_a_failure_of_a_driver_s_call_is_not_the_runtime_s_last_error(run_gpumem):
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", DRIVER).check()
    assert finished.out == "[1.0, 1.0, 1.0]\n1\n"


NULLS = """
import ctypes, torch
cuda = ctypes.CDLL(None)
torch.zeros(1, device="cuda")
stream = ctypes.c_void_p(torch.cuda.Stream().cuda_stream)
calls = {
    "cudaGetDevice": (None,), "cudaGetDeviceFlags": (None,), "cudaDeviceCanAccessPeer": (None, 0, 1), "cudaDriverGetVersion": (None,),
    "cudaDeviceGetP2PAttribute": (None, 1, 0, 1), "cudaRuntimeGetVersion": (None,), "cudaDeviceGetCacheConfig": (None,),
    "cuDeviceGetCount": (None,), "cuDriverGetVersion": (None,), "cuDeviceGet": (None, 0), "cuDeviceGetName": (None, 9, 0),
    "cuDeviceTotalMem_v2": (None, 0), "cuDevicePrimaryCtxRetain": (None, 0), "cuCtxGetCurrent": (None,), "cuCtxGetDevice": (None,),
    "cuGetErrorString": (1, None), "cuGetErrorName": (1, None), "cudaStreamGetPriority": (stream, None), "cudaStreamGetFlags": (stream, None),
    "cudaStreamGetId": (stream, None), "cudaStreamGetDevice": (stream, None), "cudaStreamIsCapturing": (stream, None),
    "cudaLaunchHostFunc": (stream, None, None), "cudaStreamAddCallback": (stream, None, None, 0), "cudaDeviceEnablePeerAccess": (1, 1),
}
for name, arguments in calls.items():
    code = getattr(cuda, name)(*arguments)
    print(name, code, cuda.cudaGetLastError() == (code if name.startswith("cuda") else 0))
"""


def test_a_pointer_that_is_null_is_an_invalid_value(run_gpumem):
    lines = run_gpumem("run", "--sim=a100-40gbx2", "--", PYTHON, "-c", NULLS).check().out.splitlines()
    assert len(lines) == 25 and [line for line in lines if not line.endswith(" 1 True")] == []


RESET = """
import ctypes
cuda = ctypes.CDLL(None)
p, left, all_of_it, can = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
out = ctypes.byref
print(cuda.cudaDeviceEnablePeerAccess(1, 0), cuda.cudaMemGetInfo(out(left), out(all_of_it)))
before = left.value
print([cuda.cudaMalloc(out(p), ctypes.c_size_t(size)) for size in (1, 3 << 20, 5 << 30)])
print(cuda.cudaDeviceReset(), cuda.cudaGetLastError(), cuda.cudaMemGetInfo(out(left), out(all_of_it)), left.value == before)
print(cuda.cudaFree(p), cuda.cudaDeviceEnablePeerAccess(1, 0), cuda.cudaDeviceEnablePeerAccess(1, 0))
"""


def test_a_reset_of_a_device_frees_its_memory(run_gpumem):
    finished = run_gpumem("run", "--sim=a100-40gbx2", "--", PYTHON, "-c", RESET).check()
    assert finished.out == "0 0\n[0, 0, 0]\n0 0 0 True\n1 0 704\n"
    assert "not simulated" not in finished.err


SETTINGS = [
    "max_split_size_mb:64",
    "roundup_power2_divisions:4",
    "garbage_collection_threshold:0.6",
    "expandable_segments:True",
    "backend:cudaMallocAsync",
    "pinned_use_cuda_host_register:True,pinned_num_register_threads:2",
    "pinned_use_background_threads:True",
    "release_lock_on_cudamalloc:True",
    "max_non_split_rounding_mb:30",
    "graph_capture_record_stream_reuse:True",
    "per_process_memory_fraction:0.5",
]
ALLOCATES = """
import torch
kept = [torch.empty(1 << i, device="cuda") for i in range(10, 24)]
moved = torch.ones(10).pin_memory().cuda()
del kept
torch.cuda.empty_cache()
free, total = torch.cuda.mem_get_info()
print(moved.sum().item(), torch.cuda.memory_reserved() > 0, free <= total - torch.cuda.memory_reserved())
"""


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_of_the_allocator_works(run_gpumem, setting):
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": setting}
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", ALLOCATES, env=environment).check()
    assert finished.out == "10.0 True True\n"
