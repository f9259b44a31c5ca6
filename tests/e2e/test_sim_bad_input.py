"""What the simulated device says of programs and machines that it cannot serve, or serves otherwise than thought."""

import os
import re
import subprocess
import uuid
from pathlib import Path

import pytest
from conftest import BUILD, PYTHON, ROOT, site_packages
from test_sim import SITE

PROGRAMS = Path(__file__).parent / "programs"
CUDA = SITE / "nvidia/cu13"
GIB = 1 << 30


def compile_c(folder, source, *arguments, name="program"):
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["cc", folder / f"{name}.c", "-o", folder / name, *arguments], check=True)
    return folder / name


def test_a_wrong_profile_is_refused_with_those_that_there_are(run_gpumem):
    finished = run_gpumem("run", "--sim=h100-8gb", "--", "true").check(2)
    assert "h100-8gb" in finished.err and "h100-80gb" in finished.err and "24GiB" in finished.err


def test_a_wrong_profile_set_by_hand_is_reported_and_there_is_no_device(run_gpumem):
    environment = {**os.environ, "LD_PRELOAD": str(BUILD / "lib/libgpumem-sim.so"), "GPUMEM_SIM": "nonsense"}
    program = "import ctypes; n = ctypes.c_int(); print(ctypes.CDLL('libcudart.so.13').cudaGetDeviceCount(ctypes.byref(n)))"
    done = subprocess.run([PYTHON, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "100\n"  # cudaErrorNoDevice
    assert "gpumem sim: " in done.stderr and "nonsense" in done.stderr and "h100-80gb" in done.stderr


def without_cuda(tmp_path):
    """A program that loads what a CPU build of PyTorch does: libtorch_cpu.so, and no libc10_cuda.so."""
    folder = tmp_path / "torch" / "lib"
    folder.mkdir(parents=True)
    library = compile_c(tmp_path, "int torch;", "-shared", "-fPIC", name="libtorch_cpu.so")
    library.rename(folder / "libtorch_cpu.so")
    return folder, f"import ctypes; ctypes.CDLL('{folder}/libtorch_cpu.so')"


@pytest.mark.usefixtures("own_process")  # the prepared Python has a PyTorch already
def test_a_pytorch_without_cuda_is_reported_with_its_folder(run_gpumem, tmp_path):
    folder, program = without_cuda(tmp_path)
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", program).check()
    assert finished.err.startswith(f"gpumem sim: {folder}: this PyTorch is built without CUDA")
    assert finished.err.count("\n") == 1


def test_of_many_processes_with_such_a_pytorch_one_reports_it(run_gpumem, tmp_path):
    _, program = without_cuda(tmp_path)
    shell = f'for i in 1 2 3; do {PYTHON} -c "{program}"; done'
    finished = run_gpumem("run", "--sim", "--", "sh", "-c", shell).check()
    assert finished.err.count("built without CUDA") == 1


def test_a_program_without_pytorch_gets_no_message(run_gpumem):
    assert run_gpumem("run", "--sim", "--", PYTHON, "-c", "print(1)").check().err == ""


@pytest.mark.parametrize("name", ["nvidia0", "dxg"])
def test_a_real_gpu_is_not_used_and_that_is_reported(run_gpumem, tmp_path, name):
    (tmp_path / name).touch()
    environment = {**os.environ, "GPUMEM_DEV": str(tmp_path)}
    finished = run_gpumem("run", "--sim=t4-16gb", "--", "true", env=environment).check()
    assert finished.err == (
        f"gpumem: {tmp_path}/{name}: this machine's GPU is not used: the program runs on the simulated t4-16gb; "
        "without --sim it runs on the GPU\n"
    )
    assert run_gpumem("run", "--", "true", env=environment).check().err == ""
    quiet = {**environment, "GPUMEM_SIM_QUIET": "1"}
    assert run_gpumem("run", "--sim", "--", "true", env=quiet).check().err == ""


def test_in_gdb_a_real_gpu_is_not_used_either_and_that_is_reported(run_gpumem, tmp_path):
    (tmp_path / "nvidia0").touch()
    environment = {**os.environ, "GPUMEM_DEV": str(tmp_path)}
    finished = run_gpumem("gdb", "--sim", "-nx", "-batch", "--", "true", env=environment).check()
    assert f"{tmp_path}/nvidia0: this machine's GPU is not used" in finished.err


STATIC = """
#include <cuda_runtime_api.h>
#include <stdio.h>
int main(void)
{
	int count = 0;
	cudaError_t code = cudaGetDeviceCount(&count);
	void *memory = 0;
	printf("%d %d\\n", code, cudaMalloc(&memory, 1 << 20));
	return code ? 3 : 0;
}
"""


def test_a_runtime_that_is_linked_in_statically_fails_and_is_reported_once(run_gpumem, tmp_path):
    archive = CUDA / "lib/libcudart_static.a"
    if not archive.exists():
        pytest.skip("libcudart_static.a is not installed")
    headers = (f"-I{CUDA}/include", f"-I{ROOT}/core/sim/cuda/headers")
    program = compile_c(tmp_path, STATIC, *headers, archive, "-lpthread", "-ldl", "-lrt")
    finished = run_gpumem("run", "--sim", "--", program)
    finished.check(3)
    assert finished.err == (
        f"gpumem sim: {program}: the CUDA runtime is linked into it statically, which cannot be simulated: "
        "its calls fail: link it with the shared one (nvcc -cudart shared)\n"
    )


def test_a_runtime_of_another_cuda_is_recognized_by_its_file(run_gpumem, tmp_path):
    """CUDA 11's own library is not at hand: one of its name that asks the driver as a runtime does."""
    source = """
	#include <dlfcn.h>
	int cudaGetDeviceCount(int *count)
	{
		int (*ask)(const char *, void **, int, unsigned long, void *) =
		        dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
		void *code;
		int answers = ask("", &code, 11080, 0, 0) + ask("cuGetExportTable", &code, 11080, 0, 0);
		return answers ? 35 : 0;
	}"""
    library = compile_c(tmp_path, source, "-shared", "-fPIC", name="libcudart.so.11.0")
    program = f"import ctypes; print(ctypes.CDLL('{library}').cudaGetDeviceCount(None))"
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", program).check()
    assert finished.out == "35\n"
    assert finished.err == (
        f"gpumem sim: {library}: this CUDA runtime is not simulated: its calls fail: the runtimes of CUDA 12 and 13 are\n"
    )


@pytest.mark.parametrize("name", ["libcuda.so.580.65.06", "libcuda.so", "libcuda.so.1"])
def test_a_driver_opened_by_its_path_is_the_simulated_one(run_gpumem, tmp_path, name):
    library = compile_c(tmp_path, "int cuInit(unsigned f) { return 100; }", "-shared", "-fPIC", name=name)
    program = f"import ctypes; print(ctypes.CDLL('{library}').cuInit(0))"
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", program).check()
    assert finished.out == "0\n"
    assert finished.err == f"gpumem sim: {library}: opened by its path: the simulated device answers in its place\n"


def test_cuda_s_own_runtime_opened_by_its_path_is_the_simulated_one(run_gpumem):
    library = CUDA / "lib/libcudart.so.13"
    if not library.exists():
        pytest.skip("CUDA 13's runtime is not installed with this torch")
    program = f"import ctypes; n = ctypes.c_int(); r = ctypes.CDLL('{library}'); print(r.cudaGetDeviceCount(ctypes.byref(n)), n.value)"
    finished = run_gpumem("run", "--sim=t4-16gbx2", "--", PYTHON, "-c", program).check()
    assert finished.out == "0 2\n"


@pytest.mark.parametrize("how", ["path", "name", "before_torch"])
def test_nccl_opened_by_its_path_or_name_is_the_simulated_one(run_gpumem, how):
    """As vLLM opens it. PyTorch, where its libraries are not found otherwise, opens the file before those that are linked with it."""
    library = site_packages() / "nvidia/nccl/lib/libnccl.so.2"
    if not library.exists():
        pytest.skip("NCCL is not installed with this torch")
    program = f"""if True:
        import ctypes
        if {how != "before_torch"}:
            import torch
        nccl = ctypes.CDLL({"libnccl.so.2" if how == "name" else str(library)!r})
        import torch
        comm, version, device = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int(-1)
        class Id(ctypes.Structure):
            _fields_ = [("bytes", ctypes.c_char * 128)]
        id = Id()
        torch.zeros(1, device="cuda")
        print(nccl.ncclGetUniqueId(ctypes.byref(id)), nccl.ncclCommInitRank(ctypes.byref(comm), 1, id, 0))
        print(nccl.ncclCommCuDevice(comm, ctypes.byref(device)), device.value)
        nccl.ncclGetVersion(ctypes.byref(version))
        major, minor, patch = torch.cuda.nccl.version()[:3]
        print(version.value == major * 10000 + minor * 100 + patch)
    """
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", program).check()
    assert finished.out == "0 0\n0 0\nTrue\n"
    assert ("opened by its path: the simulated device answers" in finished.err) == (how != "name")


def test_a_library_that_is_not_there_fails_as_it_would(run_gpumem, tmp_path):
    program = f"import ctypes\ntry: ctypes.CDLL('{tmp_path}/libnccl.so.2')\nexcept OSError as e: print(e)"
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", program).check()
    assert finished.out == f"{tmp_path}/libnccl.so.2: cannot open shared object file: No such file or directory\n"


def test_a_path_where_no_driver_is_fails_as_it_would(run_gpumem, tmp_path):
    program = f"import ctypes\ntry: ctypes.CDLL('{tmp_path}/libcuda.so.1')\nexcept OSError as e: print(e)"
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", program).check()
    assert finished.out == f"{tmp_path}/libcuda.so.1: cannot open shared object file: No such file or directory\n"
    assert finished.err == ""


def test_a_library_still_finds_files_on_its_own_search_path(run_gpumem, tmp_path):
    """dlopen() goes by the caller's RUNPATH, which a wrapper in another library would hide."""
    inner = tmp_path / "inner"
    inner.mkdir()
    compile_c(inner, "int inner(void) { return 42; }", "-shared", "-fPIC", name="libinner.so")
    source = """
	#include <dlfcn.h>
	int outer(void)
	{
		void *library = dlopen("libinner.so", RTLD_NOW);
		int (*inner)(void) = library ? dlsym(library, "inner") : 0;
		return inner ? inner() : -1;
	}"""
    outer = compile_c(tmp_path, source, "-shared", "-fPIC", "-Wl,-rpath,$ORIGIN/inner", name="libouter.so")
    program = f"import ctypes; print(ctypes.CDLL('{outer}').outer())"
    assert run_gpumem("run", "--sim", "--", PYTHON, "-c", program).check().out == "42\n"


# --- host memory ----------------------------------------------------------------------------------------


def check_host_memory(finished, *possible):
    answer = finished.check().out.json()
    kept = sum(answer["kept"])
    assert kept in possible and answer["kept"] == [True] * kept + [False] * (6 - kept)
    assert (answer["small"], answer["again"]) == (10, 1)
    assert answer["allocated"] == 6 * GIB // 4 + 512
    assert len(re.findall(r"^gpumem sim: host memory is running out \(\d+ MiB left; ", finished.err, re.M)) == 1
    assert "peak allocated 1.50 GiB" in finished.err


def test_copies_beyond_the_host_memory_that_may_be_used_are_not_kept_and_sizes_stay_exact(run_gpumem):
    environment = {**os.environ, "GPUMEM_SIM_HOST_MEMORY": "600"}
    finished = run_gpumem("run", "--sim", "--", PYTHON, PROGRAMS / "sim_host_memory.py", env=environment)
    check_host_memory(finished, 2)


def small_group():
    """A memory control group of 1.6 GB; None where this machine lets nobody make one."""
    for mount, limit in (("memory", "memory.limit_in_bytes"), (".", "memory.max")):
        group = Path("/sys/fs/cgroup", mount, f"gpumem-{uuid.uuid4().hex[:8]}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text("1600000000")
            return group
        except OSError:
            group.rmdir()
    return None


def test_a_program_in_a_small_memory_group_runs_to_its_end_and_is_reported(run_gpumem):
    group = small_group()
    if not group:
        pytest.skip("no memory control group can be made here")
    try:
        shell = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        program = (PYTHON, PROGRAMS / "sim_host_memory.py")
        check_host_memory(run_gpumem("run", "--sim", "--", "sh", "-c", shell, "sh", *program), 2, 3, 4)
    finally:
        group.rmdir()
