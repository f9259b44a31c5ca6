"""The simulated CUDA device under the real PyTorch: what a program sees, and what it costs."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from conftest import BUILD, EXAMPLES, PYTHON, ROOT

PROGRAMS = Path(__file__).parent / "programs"
SITE = Path(sysconfig.get_paths()["purelib"])
MIB = 1 << 20


@pytest.fixture(scope="module")
def facts(run_gpumem):
    env = {**os.environ, "GPUMEM_SIM_CONTEXT": "529"}  # all that is outside PyTorch
    return run_gpumem("run", "--sim", "--", PYTHON, PROGRAMS / "sim_facts.py", env=env).check().out.json()


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("available", True),
        ("count", 1),
        ("name", "NVIDIA H100 80GB HBM3"),
        ("capability", [9, 0]),
        ("total", 85028896768),
        ("properties", {"sms": 132, "total": 85028896768}),
        ("round_trip", True),
        ("device_to_device", True),
        ("part", True),
        ("rows", True),
        ("pinned", True),
        ("pinned_round_trip", True),
        ("memset", 0),
        ("event_done", True),
        ("stream_done", True),
        ("same_block", True),
        ("zero_on_reuse", 0.0),
        ("zero_on_reuse_small", [True, 0.0]),
        ("neighbour_kept", True),
        ("nonzero", [1000, 1]),
        ("zeros_and_others", True),
        ("sum_of_zeros_and_others", 506),
        ("after_oom", True),
        ("threads", [True] * 4),
        ("parent_after_fork", True),
        ("not_in_cores", [True, True]),  # the device's bytes, and the marks of written pages
    ],
)
def test_a_program_sees_the_simulated_device(facts, fact, expected):
    assert facts[fact] == expected


def test_a_later_event_is_later(facts):
    assert facts["elapsed"] > 0


def test_unwritten_device_memory_costs_no_host_memory(facts):
    assert facts["cost_of_40_gib"] < 8 * MIB


def test_zeros_copied_to_the_host_and_back_cost_no_host_memory(facts):
    assert facts["cost_of_zeros"] < 64 * MIB


def test_freed_device_memory_goes_back_to_the_host(facts):
    assert facts["given_back"] >= 250 * MIB


def test_memory_used_on_the_device_is_what_the_allocator_reserved(facts):
    assert facts["used"] == facts["reserved"] > 0


def test_out_of_memory_is_pytorch_s_own_error_with_the_device_s_figures(facts):
    text = facts["oom"]
    assert "Tried to allocate 30.00 GiB. GPU 0 has a total capacity of 79.19 GiB of which 8.66 GiB is free" in text


def test_memory_can_be_shared_with_another_process(facts):
    assert facts["ipc"] is None


def test_a_device_that_is_not_there_is_refused(facts):
    assert "invalid device ordinal" in facts["bad_device"]


def test_a_forked_child_cannot_use_the_device(facts):
    assert "Cannot re-initialize CUDA in forked subprocess" in facts["fork"]


def test_the_linear_loop_has_its_seven_segments(run_gpumem):
    program = (
        "import runpy, torch, json;"
        f"runpy.run_path({str(EXAMPLES / 'linear_loop.py')!r}, run_name='__main__');"
        "sizes = sorted(s['total_size'] for s in torch.cuda.memory._snapshot()['segments']);"
        "print(json.dumps([sizes, [int(n) for n in torch.__version__.split('.')[:2]]]))"
    )
    out = run_gpumem("run", "--sim", "--", PYTHON, "-c", program).check().out
    segments, version = json.loads(out.splitlines()[-1])
    # PyTorch keeps a workspace for cuBLAS; from 2.15 on it takes one for a product that asks for it, and none does here.
    workspace = [33554432] if tuple(version) < (2, 15) else []
    assert segments == [2097152, *workspace, *[201326592] * 2, *[1000341504] * 2, 2000683008]


@pytest.fixture(scope="module")
def training(run_gpumem, tmp_path_factory):
    account = tmp_path_factory.mktemp("training") / "account.json"
    finished = run_gpumem(
        "run", "--sim=t4-16gb", "--json", account, "--", PYTHON, PROGRAMS / "sim_train.py", timeout=600
    ).check()
    return finished, finished.out.json(), [json.loads(line) for line in account.read_text().splitlines()]


def test_mixed_precision_with_loader_processes_trains_to_the_end(training):
    assert training[1]["steps"] == 2
    assert training[1]["state"] == 6


def test_the_account_s_peaks_are_pytorch_s_own(training):
    _, printed, (account,) = training
    device = account["devices"][0]
    assert device["peak_allocated"] == printed["peak_allocated"]
    assert device["peak_reserved"] == printed["peak_reserved"]
    assert (device["profile"], device["total"]) == ("t4-16gb", 15828320256)


def test_the_account_counts_kernels_that_computed_nothing(training):
    _, _, (account,) = training
    assert account["launches"] == sum(account["kernels"].values()) 
    assert account["kernels_not_computed"] == account["launches"] - sum(account["computed"].values()) > 0
    assert account["library_calls_not_computed"] > 0


def test_values_never_computed_are_flagged_once(training):
    finished, printed, (account,) = training
    assert finished.err.count("values read back from the simulated device were never computed") == 1
    assert account["read_back_not_computed"] > 0


def test_the_account_is_printed_once_and_by_the_process_that_used_the_device(training):
    assert len(re.findall(r"^gpumem sim: cuda:0 Tesla T4 \(t4-16gb", training[0].err, re.M)) == 1


def test_the_account_counts_out_of_memory_errors(run_gpumem):
    program = "import torch\nfor _ in range(3):\n  try: torch.empty(1 << 40, device='cuda')\n  except torch.OutOfMemoryError: pass"
    finished = run_gpumem("run", "--sim=1GiB", "--", PYTHON, "-c", program).check()
    assert "peak allocated 0 B (0 bytes), out-of-memory errors 3\n" in finished.err


def test_quiet_means_nothing_on_stderr(run_gpumem):
    environment = {**os.environ, "GPUMEM_SIM_QUIET": "1"}
    program = "import torch; print(torch.ones(3, device='cuda').sum().item())"
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", program, env=environment).check()
    assert finished.err == ""


def test_several_devices_hold_their_own_memory(run_gpumem):
    program = (
        "import torch; a = torch.arange(9., device='cpu'); b = a.to('cuda:1'); c = b.to('cuda:0');"
        "print(torch.cuda.device_count(), (c.cpu() == a).all().item(),"
        " torch.cuda.memory_reserved(0), torch.cuda.memory_reserved(1))"
    )
    out = run_gpumem("run", "--sim=2GiBx2", "--", PYTHON, "-c", program).check().out
    assert out.split() == ["2", "True", "2097152", "2097152"]


def test_a_core_leaves_the_device_memory_out(gpumem, tmp_path):
    program = "import torch, os; x = torch.ones(300 << 18).cuda(); os.abort()"
    command = f"ulimit -c unlimited; cd {tmp_path}; exec {gpumem} run --sim -- {PYTHON} -c '{program}'"
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith("|") or "/" in pattern:
        pytest.skip(f"cores do not land in the working folder: core_pattern is {pattern!r}")
    finished = subprocess.run(["bash", "-c", command], capture_output=True)
    assert finished.returncode == -signal.SIGABRT
    cores = list(tmp_path.glob("core*"))
    assert cores, "no core was written"
    # 300 MiB were on the device; torch's own writable data and heap are about 200 MiB.
    segments = subprocess.run(["readelf", "-lW", cores[0]], capture_output=True, text=True, check=True).stdout
    device = [line.split() for line in segments.splitlines() if "0x00006d" in line and "LOAD" in line]
    assert device and all(int(fields[4], 16) == 0 for fields in device)
    # The note of files comes before the memory, so readers of the core know what is missing by its name.
    with open(cores[0], "rb") as file:
        assert b"/memfd:gpumem-sim-device" in file.read(MIB)


def test_other_libraries_to_preload_are_kept_beside_ours(run_gpumem, tmp_path):
    other = tmp_path / "libother.so"
    subprocess.run(["cc", "-shared", "-o", other, "-x", "c", "/dev/null"], check=True)
    environment = {**os.environ, "LD_PRELOAD": f"{other} {other}.none"}
    again = ("run", "--sim", "--no-record", "--")
    shell = "echo $LD_PRELOAD"
    for command in ((), (BUILD / "bin/gpumem", *again)):
        listed = run_gpumem(*again, *command, "sh", "-c", shell, env=environment).check().out.strip().split(":")
        assert [Path(name).name for name in listed if "gpumem-sim" in name] == [
            *("libgpumem-sim.so", "libgpumem-sim-driver.so", "libgpumem-sim-nvml.so", "libgpumem-sim-runtime12.so")
        ]
        assert listed[4:] == [str(other), f"{other}.none"]


def test_sim_list_names_every_profile(run_gpumem):
    profiles = run_gpumem("sim", "list", "--json").check().out.json()["profiles"]
    names = "h100-80gb h200-141gb a100-80gb a100-40gb l4-24gb rtx4090-24gb t4-16gb"
    assert [profile["profile"] for profile in profiles] == names.split()
    text = run_gpumem("sim", "list").check().out
    assert all(profile["profile"] in text and profile["name"] in text for profile in profiles)


def test_a_wrong_profile_is_a_usage_error_naming_the_profiles(run_gpumem):
    finished = run_gpumem("run", "--sim=h1000", "--", "true")
    assert finished.status == 2
    assert finished.err.startswith("gpumem: simulated device 'h1000': no such profile: use one of h100-80gb, h200-141gb")


def test_a_missing_program_is_reported(run_gpumem):
    finished = run_gpumem("run", "--sim", "--", "no-such-program")
    assert finished.status == 4
    assert finished.err == "gpumem: no-such-program: no such program: check the name, or give its path\n"


def test_a_program_that_allocates_nothing_leaves_no_recording_and_its_own_status(run_gpumem, tmp_path):
    finished = run_gpumem("run", "-o", tmp_path / "log", "--", "sh", "-c", "exit 37")
    assert finished.status == 37 and not (tmp_path / "log").exists()
    assert "nothing to record: no process allocated" in finished.err


def test_no_record_rejects_options_about_a_recording(run_gpumem):
    finished = run_gpumem("run", "--no-record", "--on-oom", "core", "--", "true")
    assert finished.status == 2 and "leave --no-record out" in finished.err


@pytest.mark.parametrize("arguments", [[], ["--sim"], ["--sim", "--"], ["--wrong", "--", "true"]])
def test_wrong_usage_of_run_is_status_2(run_gpumem, arguments):
    assert run_gpumem("run", *arguments).status == 2


def test_exit_status_and_streams_are_the_program_s(run_gpumem):
    finished = run_gpumem("run", "--sim", "--", "sh", "-c", "echo out; echo err >&2; exit 37")
    assert (finished.status, finished.out, finished.err) == (37, "out\n", "err\n")


def test_a_signal_reaches_the_program(gpumem):
    process = subprocess.Popen(
        [gpumem, "run", "--sim", "--", "sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=600) == 9
    process.stdout.close()


# --- the export lists ---------------------------------------------------------------------------------------


def test_the_export_lists_are_those_of_the_libraries_installed(tmp_path):
    if not (SITE / "nvidia/cu13/lib/libcudart.so.13").exists():
        pytest.skip("NVIDIA's CUDA 13 libraries are not installed with this torch")
    subprocess.run([sys.executable, ROOT / "core/sim/make_exports.py", SITE, tmp_path], check=True)
    assert (tmp_path / "libcudart13.inc").exists()
    for made in sorted(tmp_path.iterdir()):
        assert made.read_text() == (ROOT / "core/sim/exports" / made.name).read_text(), made.name


def exported_by(library):
    """{name: version} of what a library defines; most have no version and answer to every one."""
    text = subprocess.run(
        ["readelf", "-W", "--dyn-syms", BUILD / "lib" / library], capture_output=True, text=True, check=True
    ).stdout
    words = (line.split() for line in text.splitlines())
    names = (line[7] for line in words if len(line) > 7 and line[6] not in ("UND", "ABS", "Ndx"))
    return {name: version for name, _, version in (name.partition("@@") for name in names)}


def test_the_library_exports_every_symbol_of_the_lists():
    exported = exported_by("libgpumem-sim.so")
    lists = sorted((ROOT / "core/sim/exports").glob("lib*.inc"))
    assert lists
    for path in lists:
        wanted = set(re.findall(r"^(?:STUB|COMPUTE)\((\w+)\)", path.read_text(), re.M))
        assert wanted, path
        assert wanted <= set(exported), path.name


def test_what_cuda_12_and_13_do_differently_is_there_for_both():
    newer = {name: version for name, version in exported_by("libgpumem-sim.so").items() if version}
    older = {name: version for name, version in exported_by("libgpumem-sim-runtime12.so").items() if version}
    assert {"cudaGetDeviceProperties", "cudaRuntimeGetVersion"} <= set(newer)
    assert {name: version.replace(".so.13", ".so.12") for name, version in newer.items()} == older


def test_every_device_attribute_of_cuda_s_header_is_known():
    header = SITE / "nvidia/cu13/include/driver_types.h"
    if not header.exists():
        pytest.skip("CUDA 13's headers are not installed with this torch")
    numbers = {int(n) for n in re.findall(r"cudaDevAttr\w+\s*=\s*(\d+),", header.read_text())}
    table = {int(n) for n in re.findall(r'^\s*\{(\d+), "', (ROOT / "core/sim/profile.c").read_text(), re.M)}
    assert numbers == table


def test_no_cuda_toolkit_is_needed_to_build():
    """The headers of PyTorch's wheel and of gpumem are enough: the compiler's default folders, which may have a Toolkit, are excluded."""
    wheel = SITE / "nvidia/cu13/include"
    if not (wheel / "cuda_runtime_api.h").exists():
        pytest.skip("CUDA 13's headers are not installed with this torch")
    ask = ["cc", "-print-file-name=include"]
    own = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    folders = [own, "/usr/include", "/usr/include/x86_64-linux-gnu", wheel, ROOT / "core/sim/cuda/headers"]
    options = [word for folder in folders for word in ("-isystem", folder)]
    for source in sorted((ROOT / "core/sim/cuda").glob("*.c")):
        line = ["cc", "-nostdinc", *options, "-I", ROOT / "core", "-D_GNU_SOURCE", "-fsyntax-only", source]
        subprocess.run(line, check=True)


# --- without torch: the calls themselves --------------------------------------------------------------------

CALLS = r"""
import ctypes, json, os, sys, time
lib = ctypes.CDLL(sys.argv[1])
facts = {}
p, q = ctypes.c_void_p(), ctypes.c_void_p()
assert lib.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(1 << 20)) == 0
facts["aligned"] = p.value % (2 << 20) == 0
facts["double_free"] = [lib.cudaFree(p), lib.cudaFree(p)]
facts["last"] = [lib.cudaGetLastError(), lib.cudaGetLastError()]
lib.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(1 << 20))
facts["past_the_end"] = lib.cudaMemset(p, 1, ctypes.c_size_t((1 << 20) + 1))
facts["not_of_the_device"] = lib.cudaMemset(ctypes.c_void_p(4096), 1, ctypes.c_size_t(1))
facts["too_much"] = lib.cudaMalloc(ctypes.byref(q), ctypes.c_size_t(1 << 50))
facts["kept_after_success"] = [lib.cudaDeviceSynchronize(), lib.cudaPeekAtLastError()]
class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]
facts["empty_launch"] = lib.cudaLaunchKernel(None, Dim3(1, 1, 1), Dim3(1, 1, 1), None, ctypes.c_size_t(0), None)
facts["stub"] = [lib.cudaGraphCreate(ctypes.byref(q), 0), lib.cudaGraphCreate(ctypes.byref(q), 0)]
json.dump(facts, sys.stdout)
"""


@pytest.fixture(scope="module")
def calls(run_gpumem):
    library = BUILD / "lib/libgpumem-sim.so"
    return run_gpumem("run", "--sim=1GiB", "--", PYTHON, "-c", CALLS, library).check()


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("aligned", True),
        ("double_free", [0, 1]),
        ("last", [1, 0]),
        ("past_the_end", 1),
        ("not_of_the_device", 1),
        ("too_much", 2),
        ("kept_after_success", [0, 2]),
        ("empty_launch", 98),
        ("stub", [801, 801]),
    ],
)
def test_a_call_answers(calls, fact, expected):
    assert calls.out.json()[fact] == expected


def test_a_call_not_simulated_says_its_name_once(calls):
    assert calls.err.count("gpumem sim: cudaGraphCreate: not simulated: returned cudaErrorNotSupported") == 1


def test_errors_have_cuda_s_own_texts():
    real = SITE / "nvidia/cu13/lib/libcudart.so.13"
    if not real.exists():
        pytest.skip("NVIDIA's CUDA 13 runtime is not installed with this torch")
    ask = (
        "import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); lib.cudaGetErrorString.restype = ctypes.c_char_p;"
        "print([lib.cudaGetErrorString(code) for code in range(1100)])"
    )
    real_texts, texts = (
        ast.literal_eval(subprocess.run([PYTHON, "-c", ask, library], capture_output=True, text=True, check=True).stdout)
        for library in (real, BUILD / "lib/libgpumem-sim.so")
    )
    unknown = real_texts[1099]
    assert texts[1099] == unknown and len(set(real_texts)) > 100
    # A later CUDA has more errors; the texts of those that both have are the same.
    assert [text for text, known in zip(texts, real_texts) if known != unknown] == [t for t in real_texts if t != unknown]


HOT_CALLS = ["launch", "launch_by_host", "event_record", "event_query", "get_device", "set_device", "memset_4k"]


@pytest.fixture(scope="module")
def calls_a_thousand_times(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    (folder / "loop.c").write_text(LOOP)
    subprocess.run(["cc", "-O1", "-o", folder / "loop", folder / "loop.c", "-ldl"], check=True)
    return folder / "loop"


@pytest.mark.parametrize("call", [*HOT_CALLS, "nothing", "getppid"])
def test_a_call_makes_no_system_call(run, calls_a_thousand_times, call):
    """A filter kills the program at its first system call. scripts/bench measures what a call costs."""
    environment = {**os.environ, "GPUMEM_SIM": "h100-80gb", "GPUMEM_SIM_QUIET": "1"}
    finished = run([calls_a_thousand_times, BUILD / "lib/libgpumem-sim.so", call], env=environment)
    assert finished.status == (-signal.SIGSYS if call == "getppid" else 0)


LOOP = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
struct dim3 { unsigned x, y, z; };
static void *lib;
static volatile int sink;
static __attribute__((noinline)) int nothing(void) { __asm__ volatile(""); return 0; }
#define GET(name) (*(void **)&name = dlsym(lib, #name))
/* Of all system calls only the one that ends a thread. (SECCOMP_MODE_STRICT would take the clock away too.) */
static struct sock_filter filter[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
};
static struct sock_fprog program = {4, filter};
/* Once before, as a first call may have more to do. */
#define LOOP(name, call)                                                              \
	if (strcmp(argv[2], #name) == 0) {                                            \
		sink = (call);                                                        \
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||                    \
			prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)    \
			return 3;                                                     \
		for (int i = 0; i < 1000; i++)                                        \
			sink = (call);                                                \
		syscall(SYS_exit, 0);                                                 \
	}
int main(int argc, char **argv)
{
	static char host, name[] = "_Z6kernelv";
	int (*__cudaGetKernel)(void **, const void *), (*cudaEventRecord)(void *, void *);
	int (*cudaEventCreate)(void **), (*cudaGetDevice)(int *), (*cudaSetDevice)(int), (*cudaEventQuery)(void *);
	int (*__cudaLaunchKernel)(void *, struct dim3, struct dim3, void **, size_t, void *);
	int (*cudaLaunchKernel)(const void *, struct dim3, struct dim3, void **, size_t, void *);
	int (*cudaMemsetAsync)(void *, int, size_t, void *), (*cudaMalloc)(void **, size_t);
	void (*__cudaRegisterFunction)(void **, const char *, char *, const char *, int, void *, void *, void *,
		void *, int *);
	lib = dlopen(argv[1], RTLD_NOW);
	if (!lib || !GET(__cudaGetKernel) || !GET(cudaEventRecord) || !GET(cudaEventCreate) ||
		!GET(cudaGetDevice) || !GET(cudaSetDevice) || !GET(cudaEventQuery) ||
		!GET(__cudaLaunchKernel) || !GET(cudaLaunchKernel) || !GET(cudaMemsetAsync) ||
		!GET(cudaMalloc) || !GET(__cudaRegisterFunction))
		return 1;
	__cudaRegisterFunction(NULL, &host, NULL, name, 0, NULL, NULL, NULL, NULL, NULL);
	void *kernel, *event, *memory;
	int device;
	struct dim3 one = { 1, 1, 1 };
	if (__cudaGetKernel(&kernel, &host) || cudaEventCreate(&event) || cudaMalloc(&memory, 2 << 20) ||
		cudaMemsetAsync(memory, 1, 4096, NULL))
		return 2;
	LOOP(nothing, nothing());
	LOOP(getppid, getppid());
	LOOP(launch, __cudaLaunchKernel(kernel, one, one, NULL, 0, NULL));
	LOOP(launch_by_host, cudaLaunchKernel(&host, one, one, NULL, 0, NULL));
	LOOP(event_record, cudaEventRecord(event, NULL));
	LOOP(event_query, cudaEventQuery(event));
	LOOP(get_device, cudaGetDevice(&device));
	LOOP(set_device, cudaSetDevice(0));
	LOOP(memset_4k, cudaMemsetAsync(memory, 1, 4096, NULL));
	return 4;
}
"""
