"""NVML on the simulated device: PyTorch's questions and nvidia-ml-py's, answered from the run's own account."""

import importlib.util
import os
from pathlib import Path

import pytest
from conftest import PYTHON, TORCH_VERSION

PROGRAMS = Path(__file__).parent / "programs"
GIB = 1 << 30
CONTEXT = 529 << 20

if importlib.util.find_spec("pynvml") is None:
    pytest.skip("nvidia-ml-py is not in the private Python: run ./scripts/setup", allow_module_level=True)


@pytest.fixture(scope="module")
def facts(run_gpumem):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "1"}
    program = (PYTHON, PROGRAMS / "sim_nvml.py")
    finished = run_gpumem("run", "--sim=h100-80gbx2", "--", *program, env=environment).check()
    return {**finished.out.json(), "stderr": finished.err}


def test_the_program_sees_its_visible_device_and_nvml_the_machine_s_two(facts):
    assert (facts["count"], facts["machine"]) == (1, 2)


def test_counting_devices_makes_no_context(facts):
    assert facts["context_before"] is False


def test_used_memory_is_the_device_s_own_count_with_the_other_process_s(facts):
    assert facts["used"] == [3 * GIB + 2 * CONTEXT] * 2
    assert facts["version_2"] == [85028896768, facts["used"][0], 85028896768 - facts["used"][0]]


def test_memory_of_a_process_that_ended_is_free_again(facts):
    assert facts["used_alone"] == [2 * GIB + CONTEXT] * 2
    assert facts["alone"] == facts["pids"][1:]


def test_a_device_that_nobody_uses_has_nothing_in_use(facts):
    assert facts["first_used"] == 0


def test_processes_are_listed_with_their_memory(facts):
    other, own = facts["pids"]
    assert facts["processes"][0] == "GPU:1"
    assert sorted(facts["processes"][1:]) == sorted(
        [f"process {other:>10d} uses {1024 + 529:>12.3f} MB GPU memory"]
        + [f"process {own:>10d} uses {2048 + 529:>12.3f} MB GPU memory"]
    )


def test_a_device_that_computes_nothing_is_idle_at_its_full_clock(facts):
    assert (facts["utilization"], facts["memory_usage"], facts["clock"]) == (0, 0, 1980)


def test_what_only_a_board_can_measure_is_refused_by_name(facts):
    assert facts["temperature"] == "NVMLError_NotSupported"
    assert "gpumem sim: nvmlDeviceGetTemperature" in facts["stderr"]


def test_nvml_and_cuda_name_the_same_device(facts):
    named = TORCH_VERSION > (2, 4)  # which has neither of the two
    assert facts["uuid"][1] == (facts["uuid"][0] if named else "GPU-")
    assert facts["bus"][1] == (facts["bus"][0] if named else None)
    assert (facts["name"], facts["by_uuid"]) == ("NVIDIA H100 80GB HBM3", 1)


def test_pytorch_s_out_of_memory_message_shows_both_processes(facts):
    other, _ = facts["pids"]
    assert f"Process {other} has 1.52 GiB memory in use." in facts["oom"]
    assert "Including non-PyTorch memory, this process has 2.52 GiB memory in use." in facts["oom"]


def test_a_device_can_be_chosen_by_its_uuid(run_gpumem, facts):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": facts["uuid"][0]}
    program = "import torch; print(torch.cuda.device_count(), getattr(torch.cuda.get_device_properties(0), 'pci_bus_id', None))"
    out = run_gpumem("run", "--sim=h100-80gbx2", "--", PYTHON, "-c", program, env=environment).check().out
    assert out.split() == ["1", str(facts["bus"][1])]
