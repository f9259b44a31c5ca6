"""`gpumem attach` and `detach`: the agent in a program that already runs, at any point of its work."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import PYTHON

PROGRAM = """
import hashlib, os, sys, time
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).to(sys.argv[1])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = hashlib.sha256()
print("begun", flush=True)
steps = 0
while steps < int(sys.argv[2]) or len(sys.argv) > 3 and not os.path.exists(sys.argv[3]):
    steps += 1
    loss = model(torch.randn(32, 64).to(sys.argv[1])).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.update(loss.detach().cpu().numpy().tobytes())
    time.sleep(0.002)
print("losses", losses.hexdigest(), "steps", steps, "allocated", torch.cuda.memory_allocated() if sys.argv[1] == "cuda" else 0, flush=True)
os._exit(0)  # what is alive now is not freed
"""


def build(source, target, *options):
    subprocess.run(["cc", "-std=gnu17", "-O2", "-include", "stdbool.h", "-o", target, source, *options], check=True)
    return target


@pytest.fixture(scope="module")
def busy(tmp_path_factory, root):
    return build(root / "tests/e2e/programs/busy_program.c", tmp_path_factory.mktemp("busy") / "busy", "-ldl", "-lpthread")


@pytest.fixture(scope="module")
def raw(tmp_path_factory, root, build_dir):
    return build(
        root / "tests/e2e/programs/raw_cuda.c",
        tmp_path_factory.mktemp("raw") / "raw",
        str(build_dir / "lib/libgpumem-sim.so"),
        f"-Wl,-rpath,{build_dir}/lib",
    )


def start(spawn, command, **keys):
    process = spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **keys)
    assert process.stdout.readline() == "begun\n"
    return process


def ends_well(process):
    out, _ = process.communicate("x", timeout=600)
    assert process.returncode == 0 and out.startswith("right after"), out


def again_and_again(run_gpumem, process, folder, times):
    for number in range(times):
        run_gpumem("attach", "--timeout", "600", process.pid, "-o", folder / f"{number}.gpumem").check()
        run_gpumem("detach", "--timeout", "600", process.pid).check()


def attached_many_times(spawn, run_gpumem, busy, folder, kind, times):
    process = start(spawn, [busy, kind])
    again_and_again(run_gpumem, process, folder, times)
    ends_well(process)


@pytest.mark.parametrize("kind", ["malloc", "threads", "strdup", "setgid", "dlopen", "signals", "sleep"])
def test_an_attached_program_continues_correctly(spawn, run_gpumem, busy, tmp_path, kind):
    attached_many_times(spawn, run_gpumem, busy, tmp_path, kind, 2)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["malloc", "threads", "strdup", "setgid", "dlopen", "fork", "signals", "vector", "sleep"])
def test_a_program_attached_to_a_hundred_times_continues_correctly(spawn, run_gpumem, busy, tmp_path, kind):
    attached_many_times(spawn, run_gpumem, busy, tmp_path, kind, 100)


def seconds_of_attach(run_gpumem, process, log):
    begin = time.monotonic()
    run_gpumem("attach", "--timeout", "600", process.pid, "-o", log).check()
    return time.monotonic() - begin


def kill_after(seconds, command):
    killed = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    killed.kill()
    killed.wait()


def killed_in_the_midst(spawn, run_gpumem, gpumem, busy, folder, kind, times):
    process = start(spawn, [busy, kind])
    whole = seconds_of_attach(run_gpumem, process, folder / "0.gpumem")
    for number in range(times):
        words = ["detach", process.pid] if number % 2 == 0 else ["attach", process.pid, "-o", folder / f"{number}.gpumem"]
        kill_after(whole * (0.3 + 0.8 * number / times), [gpumem, *words])
    ends_well(process)


def test_a_program_continues_correctly_when_gpumem_is_killed_while_attaching(spawn, run_gpumem, gpumem, busy, tmp_path):
    killed_in_the_midst(spawn, run_gpumem, gpumem, busy, tmp_path, "signals", 10)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["malloc", "threads", "signals", "vector"])
def test_a_program_continues_correctly_when_gpumem_is_killed_a_hundred_times(spawn, run_gpumem, gpumem, busy, tmp_path, kind):
    killed_in_the_midst(spawn, run_gpumem, gpumem, busy, tmp_path, kind, 100)


def first_attach_is_killed(spawn, run_gpumem, gpumem, busy, folder, kind, times):
    """Only at a first attach does the thread map memory for gpumem."""
    process = start(spawn, [busy, kind])
    whole = seconds_of_attach(run_gpumem, process, folder / "whole.gpumem")
    ends_well(process)
    for number in range(times):
        process = start(spawn, [busy, kind])
        kill_after(whole * number / times, [gpumem, "attach", process.pid, "-o", folder / f"{number}.gpumem"])
        ends_well(process)


def test_a_program_continues_correctly_when_gpumem_is_killed_at_its_first_attach(spawn, run_gpumem, gpumem, busy, tmp_path):
    first_attach_is_killed(spawn, run_gpumem, gpumem, busy, tmp_path, "signals", 10)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["malloc", "threads", "signals", "vector"])
def test_a_program_continues_correctly_when_a_hundred_first_attaches_are_killed(spawn, run_gpumem, gpumem, busy, tmp_path, kind):
    first_attach_is_killed(spawn, run_gpumem, gpumem, busy, tmp_path, kind, 100)


def files_mapped(process, folder):
    maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
    return {Path(line.split(None, 5)[5].removesuffix(" (deleted)")).name for line in maps if f" {folder}/" in line}


ALLOCATES = """
import sys, threading, time
import torch

def allocate():
    while not ended.is_set():
        torch.empty(1000, device="cuda")
        time.sleep(0.01)

ended = threading.Event()
threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
print("begun", flush=True)
sys.stdin.read()
ended.set()
"""


def test_a_recording_that_has_ended_stays_mapped_only_until_the_next_begins(spawn, run_gpumem, sim_env, tmp_path):
    process = start(spawn, [PYTHON, "-c", ALLOCATES], env=sim_env())
    for number in range(3):
        name = tmp_path / f"{number}.gpumem"
        run_gpumem("attach", process.pid, "-o", name).check()
        time.sleep(0.3)
        assert files_mapped(process, tmp_path) == {name.name}
        assert run_gpumem("info", "--pid", process.pid, "--json").check().json()["recording"] == str(name)
        run_gpumem("detach", process.pid).check()
        assert run_gpumem("info", "--pid", process.pid, "--json").check().json()["recording"] is None
        info = run_gpumem("info", name, "--json").check().json()
        assert info["events"] > 100 and info["complete"], info["gaps"]
    process.communicate("", timeout=60)
    assert process.returncode == 0


def end_of(process):
    """What the program printed at its end: losses, steps, bytes allocated."""
    out, _ = process.communicate(timeout=1000)
    assert process.returncode == 0, out
    words = out.split("losses ")[1].split()
    return words[0], int(words[2]), int(words[4])


def trains_the_same(spawn, run_gpumem, python, folder, times, steps):
    program = folder / "train.py"
    program.write_text(PROGRAM)
    end = folder / "end"
    process = start(spawn, [python, program, "cpu", steps, end])
    for number in range(times):
        run_gpumem("attach", "--timeout", "600", process.pid, "--devices", "cpu", "-o", folder / f"{number}.gpumem").check()
        run_gpumem("detach", "--timeout", "600", process.pid).check()
    end.touch()
    losses, steps, _ = end_of(process)
    assert losses == end_of(start(spawn, [python, program, "cpu", steps]))[0]


def test_a_training_that_is_attached_to_ten_times_has_the_same_losses(spawn, run_gpumem, python, tmp_path):
    trains_the_same(spawn, run_gpumem, python, tmp_path, 10, 100)
    assert run_gpumem("info", tmp_path / "9.gpumem", "--json").check().json()["devices"][0]["events"] > 0


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_training_that_is_attached_to_a_hundred_times_has_the_same_losses(spawn, run_gpumem, python, tmp_path):
    trains_the_same(spawn, run_gpumem, python, tmp_path, 100, 100)


def test_earlier_allocations_are_in_the_recording(spawn, run_gpumem, python, sim_env, tmp_path, wait_for):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    log, end = tmp_path / "run.gpumem", tmp_path / "end"
    process = start(spawn, [python, program, "cuda", 1, end], env=sim_env())
    run_gpumem("attach", "--timeout", "600", process.pid, "-o", log).check()
    wait_for(lambda: run_gpumem("info", log, "--json").check().json()["steps"] > 100)
    end.touch()
    _, _, allocated = end_of(process)
    info = run_gpumem("info", log, "--json").check().json()
    device = info["devices"][0]
    assert device["allocated"] == allocated, info


EXPANDS = """
import os, sys
import torch
torch.cuda.memory._set_allocator_settings("expandable_segments:True")
kept = [torch.empty(n << 20, dtype=torch.uint8, device="cuda") for n in (30, 50, 25, 70, 10)]
print("begun", flush=True)
sys.stdin.readline()
del kept[1], kept[2]
torch.cuda.empty_cache()
more = torch.empty(20 << 20, dtype=torch.uint8, device="cuda")
print([[s["address"], s["total_size"]] for s in torch.cuda.memory_snapshot()], flush=True)
sys.stdin.readline()
os._exit(0)
"""


def test_unmapping_of_an_earlier_expandable_segment_is_recorded(spawn, run_gpumem, python, sim_env, tmp_path):
    process = start(spawn, [python, "-W", "ignore", "-c", EXPANDS], env=sim_env())
    run_gpumem("attach", "--timeout", "600", process.pid, "-o", tmp_path / "run.gpumem").check()
    process.stdin.write("x\n")
    process.stdin.flush()
    theirs = json.loads(process.stdout.readline())
    run_gpumem("detach", "--timeout", "600", process.pid).check()
    process.communicate("x\n", timeout=600)
    ours = run_gpumem("segments", tmp_path / "run.gpumem", "--json").check().json()["segments"]
    assert [[int(one["address"], 16), one["size"]] for one in ours] == sorted(theirs)
    assert run_gpumem("info", tmp_path / "run.gpumem", "--json").check().json()["gaps"] == []


def test_attach_waits_for_an_import_in_progress(spawn, run_gpumem, python, tmp_path, wait_for):
    process = spawn([python, "-c", "import torch; print(torch.ones(3).sum().item(), flush=True); input()"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    maps = Path(f"/proc/{process.pid}/maps")
    wait_for(lambda: "libtorch_cpu.so" in maps.read_text())  # there is a lot left to do
    run_gpumem("attach", "--timeout", "600", process.pid, "--devices", "cpu", "-o", tmp_path / "import.gpumem").check()
    assert process.stdout.readline() == "3.0\n"
    process.communicate("\n", timeout=600)
    assert process.returncode == 0
    assert run_gpumem("info", tmp_path / "import.gpumem", "--json").check().json()["devices"][0]["events"] > 0


def test_attaching_twice_and_detaching_twice_is_refused(spawn, run_gpumem, busy, tmp_path):
    process = start(spawn, [busy, "sleep"])
    run_gpumem("attach", "--timeout", "600", process.pid, "-o", tmp_path / "run.gpumem").check()
    assert "recorded already" in run_gpumem("attach", "--timeout", "600", process.pid, "-o", tmp_path / "b.gpumem").check(4).err
    run_gpumem("detach", "--timeout", "600", process.pid).check()
    assert "not recorded" in run_gpumem("detach", "--timeout", "600", process.pid).check(4).err
    process.communicate("x", timeout=600)
    assert process.returncode == 0


def test_a_program_that_cannot_be_attached_to_gets_a_reason(spawn, run_gpumem, busy, tmp_path, wait_for):
    source = tmp_path / "static.c"
    source.write_text('#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts("begun"); fflush(stdout); pause(); }\n')
    static = build(source, tmp_path / "static", "-static")
    process = start(spawn, [static])
    assert "statically linked" in run_gpumem("attach", "--timeout", "600", process.pid).check(4).err
    process.kill()
    stopped = start(spawn, [busy, "sleep"])
    os.kill(stopped.pid, signal.SIGSTOP)
    wait_for(lambda: "\nState:\tT" in Path(f"/proc/{stopped.pid}/status").read_text(), timeout=600)
    assert f"kill -CONT {stopped.pid}" in run_gpumem("attach", "--timeout", "600", stopped.pid).check(4).err
    os.kill(stopped.pid, signal.SIGCONT)
    assert "it has no agent" in run_gpumem("detach", "--timeout", "600", stopped.pid).check(4).err
    gdb = spawn(["gdb", "-nx", "-q", "-p", stopped.pid, "-ex", "python print('there', flush=True)"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    while gdb.stdout.readline() != "there\n":
        assert gdb.poll() is None
    assert "debugger" in run_gpumem("attach", "--timeout", "600", stopped.pid).check(4).err
    gdb.kill()
    assert run_gpumem("attach", 1 << 22).check(4)
    assert run_gpumem("attach").check(2)


@pytest.mark.parametrize("way", ["run", "attach"])
def test_a_raw_cuda_program_is_recorded(spawn, run, run_gpumem, gpumem, raw, sim_env, tmp_path, way):
    log = tmp_path / "raw.gpumem"
    if way == "run":
        out = run([gpumem, "run", "--sim", "-o", log, "--", raw], env={**os.environ, "GPUMEM_SIM_QUIET": "1"}).check().out
    else:
        process = start(spawn, [raw, "wait"], env=sim_env())
        run_gpumem("attach", "--timeout", "600", process.pid, "-o", log).check()
        process.stdin.write("x")
        process.stdin.flush()
        out = process.stdout.readline()
        run_gpumem("detach", "--timeout", "600", process.pid).check()
        process.communicate("x", timeout=600)
    words = out.split()
    info = run_gpumem("info", log, "--json").check().json()
    by_type = {device["device_type"]: device for device in info["devices"]}
    assert by_type["cuda"]["allocated"] == int(words[1])
    assert by_type["pinned"]["allocated"] == int(words[3])
    events = run_gpumem("events", log, "--json").check().json_lines()
    assert events[0]["owner"] == "raw" and events[0]["native"][0]["function"] == "take"
    assert [event["size"] for event in events if event["action"] == "free_requested"] == [1 << 20, 2 << 20, 1 << 20]


def test_a_program_in_another_mount_and_pid_namespace_is_attached_to(spawn, run, run_gpumem, busy, build_dir, wait_for):
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
    if run([*unshare, "true"]).status != 0:
        pytest.skip("namespaces cannot be made here")
    # the library's file does not exist there: the agent can be loaded only through the process's memory
    hidden = f"mount -t tmpfs none {build_dir}/lib && exec {busy} sleep"
    process = spawn([*unshare, "sh", "-c", hidden], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    child = int(wait_for(lambda: run(["pgrep", "-P", process.pid]).out.split()[:1])[0])
    told = run_gpumem("attach", "--timeout", "600", child).check().out
    assert f"/tmp/gpumem-{child}.gpumem" in told and "in its own file system" in told
    assert "memfd:libgpumem-agent.so" in open(f"/proc/{child}/maps").read()
    run_gpumem("detach", "--timeout", "600", child).check()
    process.communicate("x", timeout=600)
    assert process.returncode == 0
    os.unlink(f"/tmp/gpumem-{child}.gpumem")  # it has this machine's /tmp


@pytest.fixture(scope="module")
def trap(tmp_path_factory, root):
    return build(root / "tests/e2e/programs/trap_program.c", tmp_path_factory.mktemp("trap") / "trap")


GLIBCS = 1 << 31 | 1 << 32  # signals 32 and 33: the C library has handlers of its own for them once there is a second thread


def signals_of(process):
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1], 16) & ~GLIBCS for line in lines if line.startswith(("SigBlk", "SigIgn", "SigCgt"))}


def keeps_its_traps(spawn, run_gpumem, command, folder, times):
    process = start(spawn, command)
    before = signals_of(process)
    for number in range(times):
        # a new recording each time, because the first start of an agent does the most
        run_gpumem("attach", "--timeout", "600", "--way", "thread", process.pid, "-o", folder / f"{number}.gpumem").check()
        run_gpumem("detach", "--timeout", "600", "--way", "thread", process.pid).check()
    assert process.poll() is None, process.stdout.read()
    assert signals_of(process) == before
    out, _ = process.communicate("x\n", timeout=600)
    assert (process.returncode, out) == (0, "right\n")


PYTHON_TRAPS = """
import select, signal, sys
reached = 0
def reach(number, frame):
    global reached
    reached += 1
signal.signal(signal.SIGTRAP, reach)
print("begun", flush=True)
rounds = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    rounds += 1
    kept = [bytes(i) for i in range(2000)]
    signal.raise_signal(signal.SIGTRAP)
    assert reached == rounds, "the handler was not reached"
print("right", flush=True)
"""


@pytest.mark.parametrize("kind", ["handled", "ignored", "blocked", "python"])
def test_a_program_that_uses_sigtrap_keeps_it(spawn, run_gpumem, trap, python, tmp_path, kind):
    keeps_its_traps(spawn, run_gpumem, [python, "-c", PYTHON_TRAPS] if kind == "python" else [trap, kind], tmp_path, 3)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["handled", "ignored", "blocked", "python"])
def test_a_program_that_uses_sigtrap_keeps_it_in_a_hundred_attaches(spawn, run_gpumem, trap, python, tmp_path, kind):
    keeps_its_traps(spawn, run_gpumem, [python, "-c", PYTHON_TRAPS] if kind == "python" else [trap, kind], tmp_path, 100)


@pytest.fixture(scope="module")
def filtered(tmp_path_factory, root):
    return build(root / "tests/e2e/programs/killing_filter.c", tmp_path_factory.mktemp("filter") / "filter")


ACTIONS = {"kill": 0x80000000, "thread": 0, "trap": 0x30000, "errno": 0x50001, "log": 0x7FFC0000}
ACTIONS |= {"nosys": 0x50026, "trace": 0x7FF00000, "notify": 0x7FC00000}
CALLS = {"mmap": 9, "clone3": 435, "openat": 257, "sigaltstack": 131, "ptrace": 101}
CALLS |= {"prctl": 157, "mremap": 25, "clock_nanosleep": 230, "rseq": 334, "futex": 202, "munmap": 11, "rt_sigreturn": 15, "exit": 60}


@pytest.mark.parametrize("action", ["kill", "thread", "trap"])
@pytest.mark.parametrize("call", ["mmap", "clone3", "openat", "sigaltstack", "prctl", "mremap", "clock_nanosleep"])
def test_a_filter_that_would_end_the_program_is_refused_by_name(spawn, run_gpumem, filtered, tmp_path, call, action):
    process = start(spawn, [filtered, CALLS[call], ACTIONS[action]])
    told = run_gpumem("attach", "--timeout", "600", process.pid, "-o", tmp_path / "run.gpumem").check(4).err
    assert "seccomp filter" in told
    assert f"{call}()" in told or "cannot be read here" in told
    out, _ = process.communicate("x", timeout=600)
    assert (process.returncode, out) == (0, "right\n")


@pytest.mark.parametrize("action", ["errno", "nosys", "trace", "notify"])
@pytest.mark.parametrize("call", ["rseq", "futex", "munmap", "rt_sigreturn", "exit"])
def test_a_filter_by_which_the_c_library_would_end_the_program_is_refused_by_name(spawn, run_gpumem, filtered, tmp_path, call, action):
    """System calls after whose failure glibc calls abort(), or which it repeats for ever."""
    process = start(spawn, [filtered, CALLS[call], ACTIONS[action]])
    told = run_gpumem("attach", "--timeout", "600", process.pid, "-o", tmp_path / "run.gpumem").check(4).err
    assert f"{call}()" in told or "cannot be read here" in told
    out, _ = process.communicate("x", timeout=600)
    assert (process.returncode, out) == (0, "right\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read a process's filters")
def test_a_filter_installed_before_the_c_library_does_not_prevent_attaching(spawn, run_gpumem, filtered, tmp_path):
    """As in a container whose filter does not know rseq(): glibc then registers none of its threads."""
    process = start(spawn, ["env", "GLIBC_TUNABLES=glibc.pthread.rseq=0", filtered, CALLS["rseq"], ACTIONS["nosys"]])
    run_gpumem("attach", "--timeout", "600", process.pid, "-o", tmp_path / "run.gpumem").check()
    out, _ = process.communicate("x", timeout=600)
    assert (process.returncode, out) == (0, "right\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read a process's filters")
@pytest.mark.parametrize("call, action", [("clone3", "errno"), ("openat", "log"), ("ptrace", "kill"), ("ptrace", "trap")])
def test_a_filter_that_allows_the_agents_calls_does_not_prevent_attaching(spawn, run_gpumem, filtered, tmp_path, call, action):
    # clone3 with an error other than ENOSYS ends pthread_create(), so that one is refused by the C library alone
    process = start(spawn, [filtered, CALLS[call], ACTIONS[action]])
    done = run_gpumem("attach", "--timeout", "600", process.pid, "-o", tmp_path / "run.gpumem")
    if call == "clone3":
        assert "cannot make a thread" in done.check(4).err
    else:
        done.check()
    out, _ = process.communicate("x", timeout=600)
    assert (process.returncode, out) == (0, "right\n")


def test_the_process_of_a_launcher_is_answered_with_the_child_that_was_meant(spawn, run_gpumem, gpumem, python, tmp_path, wait_for):
    program = tmp_path / "waits.py"
    program.write_text("import os, torch\nheld = torch.empty(1, device='cuda')\nprint(os.getpid(), flush=True)\ninput()\n")
    launcher = spawn([gpumem, "run", "--sim", "-o", tmp_path / "run.gpumem", "--", python, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child = launcher.stdout.readline().strip()
    for words, told in (
        (["attach", launcher.pid], f"neither Python nor CUDA is loaded in it, but in its child {child} ({python} {program})"[:100]),
        (["attach", launcher.pid], f"`gpumem attach {child}`"),
        (["who-holds", "--pid", launcher.pid, "held"], f"use --pid {child}"),
        (["oom", "--pid", launcher.pid], f"use --pid {child}"),
        (["top", launcher.pid], f"`gpumem top {child}`"),
    ):
        answer = run_gpumem(*words).check(4)
        assert told in answer.err and answer.out == "", answer.err
    assert "global 'held'" in run_gpumem("who-holds", "--pid", child, "held").check().out
    # a launcher with Python in it, as torchrun: it is recorded, and the user is told
    outer = spawn([python, "-c", f"import subprocess, sys; p = subprocess.Popen([{str(gpumem)!r}, 'run', '--sim', '--no-record', sys.executable, {str(program)!r}]); p.wait()"],
                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    inner = outer.stdout.readline().strip()
    told = run_gpumem("attach", "--timeout", "600", outer.pid, "-o", tmp_path / "outer.gpumem").check().err
    assert f"process {outer.pid} uses no device so far, but its child {inner} (" in told and f"did you mean `gpumem attach {inner}`?" in told
    for process in (launcher, outer):
        process.communicate("\n", timeout=600)
        assert process.returncode == 0


def test_a_program_in_which_nothing_can_be_recorded_is_refused_at_once(spawn, run_gpumem):
    process = spawn(["sleep", "600"])
    assert "it cannot load them (nothing in it calls dlopen)" in run_gpumem("attach", "--timeout", "600", process.pid).check(4).err
    process.kill()


def test_what_attach_waits_for_is_said(spawn, run_gpumem, gpumem, tmp_path, root):
    """A program that allocates all the time, in its only thread: it is waited for, and that is said."""
    source = tmp_path / "never.c"
    source.write_text(
        "#include <dlfcn.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <sys/uio.h>\n#include <unistd.h>\n"
        "void *malloc(size_t size) {\n"  # its own allocator, in which it waits for ever
        "    static char memory[1 << 20]; static size_t used; static int deep; void *p = memory + used; used += (size + 15) & ~15UL;\n"
        "    if (size == 12345 && !deep++) { write(1, \"begun\\n\", 6); pause(); }\n    return p;\n}\n"
        "void free(void *p) { (void)p; }\n"
        "int main(int argc, char **argv) { if (argc > 9) dlopen(argv[9], 1); return malloc(12345) == 0; }\n"
    )
    process = start(spawn, [build(source, tmp_path / "never", "-O0")])
    answer = run_gpumem("attach", "--timeout", "2", process.pid).check(4)
    assert answer.err.startswith(f"gpumem: process {process.pid}: waiting for a moment in which one of its threads neither allocates"), answer.err
    process.kill()
