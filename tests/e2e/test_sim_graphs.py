"""CUDA graphs on the simulated device: captured into private pools, replayed; copies move bytes, small kernels are computed."""

import ast
import json
from pathlib import Path

import pytest
from conftest import PYTHON

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def ran(run_gpumem, tmp_path_factory):
    account = tmp_path_factory.mktemp("graphs") / "account.json"
    finished = run_gpumem("run", "--sim", "--json", account, "--", PYTHON, PROGRAMS / "sim_graphs.py")
    return finished.check(), json.loads(account.read_text())


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("capturing", True),
        ("after", False),
        ("grew", True),
        ("private_pools", 1),
        ("joined", True),
        ("before_replay", 0.0),
        ("after_replay", 7.0),
        ("loss", 0.0),
        ("computed", [True] * 3),
        ("drawn", [True] * 4),
        ("goes_on", 3.0),
        ("graphed", [4, 8]),
        ("agree", True),
    ],
)
def test_a_graph(ran, fact, expected):
    assert ran[0].out.json()[fact] == expected


def test_reading_a_value_while_capturing_is_refused_as_on_a_gpu(ran):
    assert "previous error during capture" in ran[0].out.json()["refused"]


def test_kernels_of_replays_are_counted(ran):
    assert ran[1]["launches"] == sum(ran[1]["kernels"].values()) > 50
    assert ran[1]["calls_not_simulated"] == 0


def test_kernels_that_a_replay_computed_are_counted_as_such(ran):
    assert any("vectorized_elementwise" in name for name in ran[1]["computed"])
    assert ran[1]["kernels_not_computed"] == ran[1]["launches"] - sum(ran[1]["computed"].values())


def test_no_graph_is_empty_a_library_s_call_is_work_too(ran):
    assert "Graph is empty" not in ran[0].err


HANDLES = """
import ctypes, threading, torch

cuda = ctypes.CDLL("libcudart.so.13" if torch.version.cuda.startswith("13") else "libcudart.so.12")
x, told, MODES = torch.ones(100, 100, device="cuda"), [], ("global", "thread_local", "relaxed")
side = torch.cuda.Stream()
stream = ctypes.c_void_p(side.cuda_stream)
if WARM:
    x @ x


def take():
    told.append(cuda.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 20)))


def captured(mode, work):
    graph = ctypes.c_void_p()
    told.append(cuda.cudaStreamBeginCapture(stream, MODES.index(mode)))
    work()
    told.append(cuda.cudaStreamEndCapture(stream, ctypes.byref(graph)))
    cuda.cudaGetLastError()  # or PyTorch finds it


def in_thread():
    thread = threading.Thread(target=take)
    thread.start()
    thread.join()


for mode in MODES:
    captured(mode, take)
for mode in ("global", "thread_local"):
    captured(mode, in_thread)
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        x @ x
except RuntimeError as error:
    told.append(str(error).splitlines()[0])
print(told)
"""


@pytest.mark.parametrize("warm", [False, True])
def test_a_capture_forbids_what_it_forbids_on_a_gpu(run_gpumem, tmp_path, warm):
    """Without a product before, cuBLAS's handle is made during the capture: on an H200 PyTorch 2.11 ended with these errors."""
    program = tmp_path / "program.py"
    program.write_text(f"WARM = {warm}\n{HANDLES}")
    told = ast.literal_eval(run_gpumem("run", "--sim", "--no-record", "--", PYTHON, program).check().out)
    refused, allowed = [0, 900, 901], [0, 0, 0]  # began, cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated
    handle = [] if warm else ["CUDA error: operation failed due to a previous error during capture"]
    assert told == [*refused, *refused, *allowed, *refused, *allowed, *handle]
