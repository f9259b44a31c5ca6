"""CUPTI's side of the agent, against a stand-in that delivers callback records of CUPTI's own structures."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import events_of, info_of
from test_recorded_again import Rounds, command_of


@pytest.fixture(scope="module")
def driver(tmp_path_factory, root):
    """The folder of a program, of the library whose memory it is, and of the stand-in."""
    headers = [path for path in Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/cu13/include") if (path / "cupti.h").exists()]
    if not headers:
        pytest.skip("no CUPTI headers (nvidia/cu13/include of the torch wheel)")
    folder = tmp_path_factory.mktemp("cupti")

    def build(target, *options):
        subprocess.run(["cc", "-std=gnu17", "-O1", "-fPIC", "-w", "-o", folder / target, *options, f"-Wl,-rpath,{folder}"], check=True)

    source = root / "tests/e2e/programs/driver_library.c"
    build("libcupti_stand_in.so", "-shared", f"-I{headers[0]}", f"-I{root}/core/sim/cuda/headers", root / "tests/tools/cupti_stand_in.c")
    build("libcollective.so", "-shared", source, folder / "libcupti_stand_in.so")
    build("program", "-DPROGRAM", source, folder / "libcollective.so", folder / "libcupti_stand_in.so")
    return folder


def record(run, gpumem, driver, log, *arguments, **variables):
    environment = {**os.environ, "GPUMEM_CUPTI": str(driver / "libcupti_stand_in.so"), **variables}
    return run([gpumem, "run", "-o", log, "--", driver / "program", *arguments], env=environment).check()


def test_a_librarys_memory_is_seen_through_cupti_with_its_name(run, run_gpumem, gpumem, driver, tmp_path):
    log = tmp_path / "run.gpumem"
    record(run, gpumem, driver, log)
    events = run_gpumem("events", log, "--json").check().json_lines()
    taken = [(event["device_type"], event["size"]) for event in events if event["action"] == "alloc"]
    assert taken == [
        ("cuda", 7 << 20),
        ("cuda", 1 << 20),
        ("cuda", 1024 * 10),
        ("cuda", 3 << 20),
        ("pinned", 2 << 20),
        ("cuda", 20 << 20),
        ("cuda", 64 * 32 * 4 * 2),
    ]
    assert {event["owner"] for event in events} == {"libcollective.so"}
    # the driver's function is the innermost frame where CUPTI told of the call
    assert all("use_memory" in [frame["function"] for frame in event["native"][:2]] for event in events if event["action"] == "alloc")
    freed = [event["size"] for event in events if event["action"] == "free_completed"]
    assert freed == [1 << 20, 3 << 20, 20 << 20]
    assert run_gpumem("info", log, "--json").check().json()["gaps"] == []


def test_where_cupti_is_taken_recording_goes_on_and_says_so(run, run_gpumem, gpumem, driver, root, build_dir, tmp_path):
    log, raw = tmp_path / "run.gpumem", tmp_path / "raw"
    simulated = build_dir / "lib/libgpumem-sim.so"
    source = root / "tests/e2e/programs/raw_cuda.c"
    subprocess.run(["cc", "-std=gnu17", "-o", raw, source, simulated, f"-Wl,-rpath,{build_dir}/lib"], check=True)
    environment = {**os.environ, "GPUMEM_CUPTI": str(driver / "libcupti_stand_in.so"), "CUPTI_TAKEN": "1"}
    run([gpumem, "run", "--sim", "-o", log, "--", raw], env=environment).check()
    info = run_gpumem("info", log, "--json").check().json()
    assert info["devices"][0]["allocated"] > 0
    assert any("CUPTI is in use" in gap for gap in info["gaps"])


@pytest.mark.parametrize("way", ["preloaded", "attach"])
@pytest.mark.parametrize("cupti", ["free", "taken"])
def test_each_recording_of_a_process_is_as_if_it_were_its_first(spawn, run_gpumem, gpumem, driver, tmp_path, way, cupti):
    environment = {**os.environ, "GPUMEM_CUPTI": str(driver / "libcupti_stand_in.so"), **({"CUPTI_TAKEN": "1"} if cupti == "taken" else {})}
    command, is_run = command_of(way, gpumem, tmp_path, [driver / "program", "rounds"], sim=False)
    program = Rounds(spawn, run_gpumem, tmp_path, command, is_run, env=environment)
    seen = []
    for file, told in program.recorded(2):
        assert told == ["done\n", "done\n"]
        info = info_of(run_gpumem, file)
        seen.append(([(e["action"], e["device_type"], e["size"]) for e in events_of(run_gpumem, file)], info["gaps"]))
    assert len(seen[0][0]) == 2 * (13 if cupti == "free" else 3) and seen[0] == seen[1] == seen[2], seen
    assert len(seen[0][1]) == (cupti == "taken")


@pytest.mark.parametrize("way", ["preloaded", "attach"])
def test_a_profiler_of_the_programs_own_gets_cupti_in_a_later_recording(spawn, run_gpumem, gpumem, driver, tmp_path, way):
    environment = {**os.environ, "GPUMEM_CUPTI": str(driver / "libcupti_stand_in.so")}
    command, is_run = command_of(way, gpumem, tmp_path, [driver / "program", "rounds"], sim=False)
    program = Rounds(spawn, run_gpumem, tmp_path, command, is_run, env=environment)
    if not is_run:
        program.attach()
    program.round()
    program.detach()
    file = program.attach()
    out, _ = program.process.communicate("end", timeout=600)
    assert "subscribed 0" in out
    assert any("program's own profiler" in gap for gap in info_of(run_gpumem, file)["gaps"])


def test_a_profiler_of_the_programs_own_gets_cupti(run, run_gpumem, gpumem, driver, tmp_path):
    log = tmp_path / "run.gpumem"
    assert "subscribed 0" in record(run, gpumem, driver, log, "profiler").out
    assert any("program's own profiler" in gap for gap in run_gpumem("info", log, "--json").check().json()["gaps"])


def test_a_library_with_the_runtime_inside_is_recorded_on_a_gpu(run, run_gpumem, gpumem, root, tmp_path):
    """NVIDIA's static runtime runs over NVIDIA's driver alone, so this needs a GPU."""
    archives = list(Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/cu13/lib/libcudart_static.a"))
    if not archives:
        pytest.skip("no libcudart_static.a (nvidia/cu13/lib of the torch wheel)")
    source, folder = root / "tests/e2e/programs/static_runtime.c", tmp_path

    def build(target, *options):
        run(["cc", "-fPIC", "-w", "-o", folder / target, *options, f"-Wl,-rpath,{folder}"]).check()

    build("libinside.so", "-shared", source, archives[0], "-Wl,--exclude-libs,ALL", "-ldl", "-lrt", "-lpthread")
    build("program", "-DPROGRAM", source, folder / "libinside.so")
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("no GPU")
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{archives[0].parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    run([gpumem, "run", "-o", folder / "log", "--", folder / "program"], env=environment).check()
    events = run_gpumem("events", folder / "log", "--json").check().json_lines()
    taken = [event["size"] for event in events if event["action"] == "alloc" and event["owner"] == "libinside.so"]
    assert {7 << 20, 3 << 20} <= set(taken)


def test_a_program_that_lost_ld_preload_is_recorded_from_cuda_on(run, run_gpumem, root, python, examples, tmp_path):
    logs = []
    for name, lose in (("kept", ""), ("lost", "export LD_PRELOAD=${LD_PRELOAD#*:}; ")):
        logs.append(tmp_path / name)
        command = f"{lose}exec {python} {examples}/linear_loop.py"
        run_gpumem("run", "--sim", "-o", logs[-1], "--", "/bin/sh", "-c", command).check()
    kept, lost = ([(e["action"], e["size"], e["step"], e["phase"]) for e in run_gpumem("events", log, "--json").check().json_lines()]
                  for log in logs)  # fmt: skip
    assert len(kept) > 20 and kept == lost


PROFILED = """
import ctypes, json, os, re, sys
import torch
from torch.profiler import ProfilerActivity, profile

model = torch.nn.Linear(500, 500, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
cupti = ctypes.CDLL(os.environ["GPUMEM_CUPTI"])
heard, subscriber = [], ctypes.c_void_p()
hear = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)(lambda *call: heard.append(call[2]))
assert cupti.cuptiSubscribe(ctypes.byref(subscriber), hear, None) == 0  # as a profiler does at its start
assert cupti.cuptiEnableCallback(1, subscriber, 1, 243) == 0  # cuMemAlloc_v2


def step():
    loss = model(torch.randn(10, 500, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True, with_stack=True) as profiler:
    step()
    print("profiling", flush=True)
    sys.stdin.readline()
    marker = torch.empty(12345 * 512, dtype=torch.uint8, device="cuda")
    for _ in range(3):
        step()
    pointer = ctypes.c_void_p()
    assert cupti.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4096)) == 0
memory = [e.nbytes() for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]" and e.device_type().name == "CUDA"]
names = sorted(re.sub(" at 0x[0-9a-f]+", "", e.name) for e in profiler.events() if not e.name.startswith("cu"))
json.dump([memory, names, heard], open(sys.argv[1], "w"))
"""


@pytest.mark.usefixtures("own_process")
def test_attaching_while_pytorchs_profiler_runs_leaves_its_profile_as_it_was(spawn, run_gpumem, driver, python, sim_env, tmp_path):
    program, log, told = tmp_path / "profiled.py", tmp_path / "run.gpumem", []
    program.write_text(PROFILED)
    environment = {**os.environ, **sim_env(), "GPUMEM_CUPTI": str(driver / "libcupti_stand_in.so")}
    for attach in (False, True):
        process = spawn([python, program, tmp_path / "told"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout.readline() == "profiling\n"
        if attach:
            run_gpumem("attach", "--timeout", "600", process.pid, "-o", log).check()
        process.communicate("\n", timeout=600)
        assert process.returncode == 0
        told.append(json.loads((tmp_path / "told").read_text()))
    assert told[0] == told[1] and told[1][2] == [243, 243]  # the profiler has CUPTI still
    info = run_gpumem("info", log, "--json").check().json()
    assert [gap for gap in info["gaps"] if "CUPTI is in use" in gap]
    events = [e for e in run_gpumem("events", log, "--json").check().json_lines() if not e["preexisting"] and e["device_type"] == "cuda"]
    ours = [e["size"] if e["action"] == "alloc" else -e["size"] for e in events if e["action"] in ("alloc", "free_requested")]
    assert len(ours) > 40 and ours[0] == 12345 * 512
    theirs = told[1][0]
    after = theirs[theirs.index(12345 * 512):]  # fmt: skip
    assert ours[: len(after)] == after


NO_PYTORCH = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])

def take(size):
    address = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    return address

kept = [take(1 << 20) for _ in range(3)]
for _ in range(4):
    kept.append(take(2 << 20))
    passing = take(4 << 20)
    cuda.cuMemFree_v2(passing)
"""


def test_a_program_without_pytorch_has_steps_but_no_forward_and_no_activations(run_gpumem, python, driver, tmp_path):
    program, log, stand_in = tmp_path / "program.py", tmp_path / "run.gpumem", driver / "libcupti_stand_in.so"
    program.write_text(NO_PYTORCH)
    run_gpumem("run", "-o", log, "--", python, program, stand_in, env={**os.environ, "GPUMEM_CUPTI": str(stand_in)}).check()
    assert run_gpumem("info", log, "--json").check().json()["steps"] == 4
    phases = {event["phase"] for event in run_gpumem("events", log, "--json").check().json_lines()}
    assert phases == {"init", "other"}
    assert run_gpumem("peak", log, "--json").check().json()["by_category"] == {"unknown": 11 << 20, "temporary": 4 << 20}


@pytest.mark.parametrize("tool", ["ncu", "nsys", "compute-sanitizer", "outside"])
def test_a_tool_of_nvidia_keeps_cupti_and_the_injection(run, run_gpumem, gpumem, driver, tmp_path, tool):
    """ncu ends a program for which another library is to be injected."""
    script, log, environment = tmp_path / tool, tmp_path / "run.gpumem", {}
    script.write_text('#!/bin/sh\nenv | grep INJECTION64\nexec "$@"\n')
    script.chmod(0o755)
    if tool == "outside":
        environment = {"NV_SANITIZER_INJECTION_TRANSPORT_TYPE": "uds", "NVTX_INJECTION64_PATH": "libsanitizer-collection.so"}
    environment_of_run = {**os.environ, "GPUMEM_CUPTI": str(driver / "libcupti_stand_in.so"), **environment}
    shown = run([gpumem, "run", "-o", log, "--", script, driver / "program"], env=environment_of_run).check()
    assert shown.out.split() == [f"{name}={value}" for name, value in environment.items() if "INJECTION64" in name]
    assert any("left to Nsight or Compute Sanitizer" in gap for gap in run_gpumem("info", log, "--json").check().json()["gaps"])
    assert [e["size"] for e in run_gpumem("events", log, "--json").check().json_lines() if e["action"] == "alloc"] == [20 << 20]  # no callback's
    nothing = run([gpumem, "run", "-o", tmp_path / "none", "--", script, "true"], env=environment_of_run).check()
    assert re.search("through PyTorch, and with (Nsight (Compute|Systems)|Compute Sanitizer) other allocations are not seen\n", nothing.err)


INTERCEPTOR = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

__attribute__((destructor)) static void tell(void)
{
	Dl_info info;
	void *(*volatile function)(const char *, int) = dlopen;
	printf("%s: dlopen is in %s\\n", NAME, dladdr((void *)function, &info) ? info.dli_fname : "");
}
"""


def test_a_library_that_a_tool_of_nvidia_loads_finds_dlopen_where_it_is(run, run_gpumem, tmp_path):
    """Nsight Compute changes the code of the function whose address it finds."""
    (tmp_path / "library.c").write_text(INTERCEPTOR)
    libraries = {"tool": tmp_path / "libInterceptorInjectionTarget.so", "other": tmp_path / "libother.so"}
    for name, library in libraries.items():
        run(["cc", "-shared", "-fPIC", f'-DNAME="{name}"', "-o", library, tmp_path / "library.c"]).check()
    preload = " ".join(map(str, libraries.values()))
    shown = run_gpumem("run", "-o", tmp_path / "log", "--", "/bin/true", env={**os.environ, "LD_PRELOAD": preload}).check().out
    found = set(re.findall(r"(tool|other): dlopen is in \S*/(lib\w+)", shown))
    assert found == {("tool", "libc"), ("other", "libgpumem"), ("other", "libc")}, shown  # the last in gpumem itself
