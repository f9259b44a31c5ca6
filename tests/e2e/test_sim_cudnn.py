"""cuDNN on the simulated device: convolutions, recurrent networks and attention train a step, computing nothing."""

import ctypes
import json
from pathlib import Path

import pytest
from conftest import BUILD, PYTHON, TORCH_VERSION, site_packages

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def ran(run_gpumem, tmp_path_factory):
    account = tmp_path_factory.mktemp("cudnn") / "account.json"
    finished = run_gpumem("run", "--sim", "--json", account, "--", PYTHON, PROGRAMS / "sim_cudnn.py")
    return finished.check(), json.loads(account.read_text())


@pytest.fixture(scope="module")
def facts(ran):
    return ran[0].out.json()


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("available", True),
        ("float", [4, 10]),
        ("bf16", [4, 10]),
        ("channels_last", [4, 10]),
        ("benchmark", [4, 10]),
        ("conv3d", [2, 8, 6, 6, 6]),
        ("conv1d", [2, 8, 14]),
        ("inference", [4, 10]),
        ("lstm", [10, 4, 128]),
        ("gru", [10, 4, 128]),
        ("rnn", [10, 4, 128]),
        ("projected", [10, 4, 16]),
        ("packed", [25, 64]),
        ("masked", [2, 8, 128, 64]),
        ("ctc", [20, 4, 12]),
        ("grid", [4, 3, 8, 8]),
    ],
)
def test_a_step_is_trained(facts, fact, expected):
    assert facts[fact] == expected


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_a_recurrent_network_s_weights_fill_one_buffer_side_by_side(facts, cell):
    assert facts[cell + "_flat"] == [1, True, True]


BACKWARD = {
    "MATH": "ToCopyBackward0",
    "FLASH_ATTENTION": "ScaledDotProductFlashAttentionBackward0",
    "EFFICIENT_ATTENTION": "ScaledDotProductEfficientAttentionBackward0",
    "CUDNN_ATTENTION": "ScaledDotProductCudnnAttentionBackward0",
    # what PyTorch prefers on an H100
    "chosen": "ScaledDotProductCudnnAttentionBackward0",
}
CUDNN_PREFERRED = (2, 11)  # from this version on; before, flash attention


@pytest.mark.parametrize("causal", ["", " causal"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("backend", BACKWARD)
def test_attention_goes_through_each_backend(facts, backend, dtype, causal):
    if TORCH_VERSION < (2, 5):
        pytest.skip("PyTorch 2.4 does not give cuDNN this attention, and has other nodes for the others")
    node = BACKWARD["FLASH_ATTENTION" if backend == "chosen" and TORCH_VERSION < CUDNN_PREFERRED else backend]
    assert facts["attention"][f"{backend} {dtype}{causal}"] == [[2, 8, 128, 64], True, node]


def test_ctc_goes_through_cudnn(facts):
    assert "CudnnCtcLossBackward0" in facts["ctc_by"]


def test_no_call_of_cudnn_was_refused_and_all_are_counted(ran):
    assert ran[1]["calls_not_simulated"] == 0
    assert ran[1]["library_calls_not_computed"] > 200


def test_its_version_is_that_of_the_library_it_replaces(facts):
    # of the programs' PyTorch, which may have another cuDNN than this Python's
    real = site_packages() / "nvidia/cudnn/lib/libcudnn_graph.so.9"
    if not real.exists():
        pytest.skip("NVIDIA's cuDNN 9 is not installed with this torch")
    get = ctypes.CDLL(str(real)).cudnnGetVersion
    get.restype = ctypes.c_size_t
    assert facts["version"] == get()


CALLS = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
lib.cudnnGetErrorString.restype = ctypes.c_char_p
p, n = ctypes.c_void_p(), ctypes.c_int64()
facts = {"text": lib.cudnnGetErrorString(2000).decode()}
facts["create"] = lib.cudnnBackendCreateDescriptor(17, ctypes.byref(p))
dims = (ctypes.c_int64 * 4)(1, 2, 3, 4)
facts["set"] = [lib.cudnnBackendSetAttribute(p, 902, 3, ctypes.c_int64(4), dims),
    lib.cudnnBackendSetAttribute(p, 902, 3, ctypes.c_int64(-1), dims),
    lib.cudnnBackendSetAttribute(p, 902, 3, ctypes.c_int64(1 << 60), dims),
    lib.cudnnBackendSetAttribute(p, 902, 9999, ctypes.c_int64(1), dims),
    lib.cudnnBackendSetAttribute(None, 902, 3, ctypes.c_int64(4), dims)]
got = (ctypes.c_int64 * 4)()
facts["get"] = [lib.cudnnBackendGetAttribute(p, 902, 3, ctypes.c_int64(3), ctypes.byref(n), got), n.value, list(got)]
facts["get_wrong"] = [lib.cudnnBackendGetAttribute(p, 902, 4, ctypes.c_int64(4), ctypes.byref(n), got),
    lib.cudnnBackendGetAttribute(p, 903, 3, ctypes.c_int64(4), ctypes.byref(n), got)]
facts["finalize"] = [lib.cudnnBackendFinalize(p),
    lib.cudnnBackendSetAttribute(p, 902, 3, ctypes.c_int64(4), dims)]
facts["destroy"] = lib.cudnnBackendDestroyDescriptor(p)
facts["refused"] = lib.cudnnDeriveBNTensorDescriptor(p, p, 0)
json.dump(facts, sys.stdout)
"""


def test_the_backend_s_calls_keep_attributes_and_refuse_wrong_ones(run_gpumem):
    finished = run_gpumem("run", "--sim=1GiB", "--", PYTHON, "-c", CALLS, BUILD / "lib/libgpumem-sim.so").check()
    assert finished.out.json() == {
        "text": "CUDNN_STATUS_BAD_PARAM",
        "create": 0,
        "set": [0, 2000, 2000, 2000, 2000],
        "get": [0, 4, [1, 2, 3, 0]],
        "get_wrong": [2000, 3000],
        "finalize": [0, 2000],
        "destroy": 0,
        "refused": 3000,
    }
    assert "cudnnDeriveBNTensorDescriptor: not simulated: returned CUDNN_STATUS_NOT_SUPPORTED" in finished.err
