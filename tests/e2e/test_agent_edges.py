"""Programs that the agent cannot record, or not as usual: they run as without it, and one line reports it."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import PYTHON, ROOT, events_of, info_of, the_program

PROGRAMS = ROOT / "tests" / "e2e" / "programs"
CALLS = {"mmap": 9, "clone": 56, "fallocate": 285, "ptrace": 101, "process_vm_readv": 310, "memfd_create": 319, "clone3": 435}


def build(source, target, *options):
    subprocess.run(["cc", "-std=gnu17", "-O1", "-include", "stdbool.h", "-o", target, source, *options], check=True)
    return target


@pytest.fixture(scope="module")
def tools():
    """A folder that every user can read (pytest's own are not), with the programs that the tests run."""
    folder = Path(tempfile.mkdtemp(prefix="gpumem-edges-"))
    folder.chmod(0o755)
    build(PROGRAMS / "without_calls.c", folder / "without_calls")
    build(PROGRAMS / "busy_program.c", folder / "busy", "-ldl", "-lpthread")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def without(tools):
    """without("ptrace", …) -> the words that run a program in which these system calls are refused."""
    return lambda *names: [tools / "without_calls", ",".join(str(CALLS[name]) for name in names)]


@pytest.fixture
def record(run_gpumem, tmp_path):
    def call(code, *options, sim="--sim", out="run.gpumem", **keys):
        (tmp_path / "program.py").write_text(code)
        words = [*([sim] if sim else []), "-o", tmp_path / out, *options]
        return run_gpumem("run", *words, "--", PYTHON, tmp_path / "program.py", **keys).check(), tmp_path / out

    return call


def begun(spawn, command, **keys):
    process = spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **keys)
    assert process.stdout.readline() == "begun\n"
    return process


# --- what the program's memory says -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stale(tools):
    (tools / "report.c").write_text("void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void) {}\n")
    build(tools / "report.c", tools / "libreport.so", "-shared", "-fPIC")
    return build(PROGRAMS / "stale_words.c", tools / "stale", f"-L{tools}", "-lreport", f"-Wl,-rpath,{tools}")


@pytest.mark.parametrize("copies", [True, False], ids=["copied by the kernel", "process_vm_readv refused"])
@pytest.mark.parametrize("gone", ["unmapped", "closed", "cut"])
def test_words_of_a_stack_that_point_to_freed_memory_are_not_followed(run_gpumem, stale, without, tmp_path, gone, copies):
    words = [*([] if copies else without("process_vm_readv")), stale, ["unmapped", "closed", "cut"].index(gone)]
    run = run_gpumem("run", "-o", tmp_path / "run.gpumem", "--", *words).check()
    assert run.out == "right\n"
    assert sum(e["action"] == "alloc" for e in events_of(run_gpumem, tmp_path / "run.gpumem")) == 80


# --- other allocators ---------------------------------------------------------------------------------------

BLOCKS = """
import torch
a = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
b = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
del a
c = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
"""


def assert_blocks(run_gpumem, log, gap):
    info = info_of(run_gpumem, log)
    (device,) = info["devices"]
    assert (device["device_type"], device["peak_allocated"]) == ("cuda", 8 << 20)
    assert any(gap in one for one in info["gaps"]), info["gaps"]
    events = [(e["action"], e["size"] >> 20) for e in events_of(run_gpumem, log) if e["action"] in ("alloc", "free_requested")]
    assert events[:4] == [("alloc", 5), ("alloc", 3), ("free_requested", 5), ("alloc", 1)]


@pytest.mark.usefixtures("own_process")
def test_blocks_of_cuda_malloc_async_are_its_requests_and_info_reports_it(record, run_gpumem):
    setting = "import os\nos.environ['PYTORCH_CUDA_ALLOC_CONF'] = os.environ['PYTORCH_ALLOC_CONF'] = 'backend:cudaMallocAsync'\n"
    _, log = record(setting + BLOCKS)
    assert_blocks(run_gpumem, log, "PyTorch's allocator is backend:cudaMallocAsync")


@pytest.mark.usefixtures("own_process")
def test_with_cuda_malloc_async_what_libraries_take_is_beside_pytorch(record, run_gpumem):
    """As cuBLAS does on a GPU: its handle's 64 MiB would else count as PyTorch's."""
    setting = "import os, ctypes\nos.environ['PYTORCH_CUDA_ALLOC_CONF'] = os.environ['PYTORCH_ALLOC_CONF'] = 'backend:cudaMallocAsync'\n"
    taken = "ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(64 << 20))\n"
    _, log = record(setting + BLOCKS + taken)
    devices = {device["device_type"]: device["peak_allocated"] for device in info_of(run_gpumem, log)["devices"]}
    assert devices == {"cuda": 8 << 20, "cuda_beside": 64 << 20}


def test_blocks_of_a_pluggable_allocator_are_what_it_takes_and_info_reports_it(record, run_gpumem, tmp_path):
    source = tmp_path / "mine.c"
    source.write_text(
        "#include <stddef.h>\n#include <sys/types.h>\n"
        "int cudaMalloc(void **, size_t);\nint cudaFree(void *);\n"
        "void *take(ssize_t size, int device, void *stream) { void *at = 0; cudaMalloc(&at, size); return at; }\n"
        "void give(void *at, ssize_t size, int device, void *stream) { cudaFree(at); }\n"
    )
    build(source, tmp_path / "libmine.so", "-shared", "-fPIC")
    setting = f"""
import torch
torch.cuda.memory.change_current_allocator(torch.cuda.memory.CUDAPluggableAllocator({str(tmp_path / "libmine.so")!r}, "take", "give"))
"""
    _, log = record(setting + BLOCKS)
    assert_blocks(run_gpumem, log, "PyTorch's allocator is a pluggable one")
    assert {e["owner"] for e in events_of(run_gpumem, log)} == {"libmine.so"}


# --- other processes ----------------------------------------------------------------------------------------

WORKERS = """
import torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.full((1000,), float(i))
if __name__ == "__main__":
    loader = DataLoader(Rows(), batch_size=2, num_workers=2, multiprocessing_context="{}")
    print(sum(batch.sum().item() for batch in loader))
"""


@pytest.mark.long  # forked workers: test_agent_ends.py
@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_restarted_workers_have_logs_of_their_own(record, run_gpumem, tmp_path, how):
    run, log = record(WORKERS.format(how), "--devices", "cpu", sim=None)
    assert run.out == "28000.0\n"
    others = [path for path in tmp_path.glob("run.gpumem*") if path != log]
    assert len(others) == 2
    for path in others:
        functions = {frame["function"] for e in events_of(run_gpumem, path) for frame in e["python"]}
        # until 3.10 a code object does not have the name of its class
        assert functions & {"Rows.__getitem__", "__getitem__"} and "_worker_loop" in functions


DAEMON = """
import os, sys, time
import torch
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.chdir("/")
os.closerange(0, 1000)
kept = [torch.ones(1000 + i) for i in range(100)]
os.mkdir(sys.argv[1])
time.sleep(0.5)
more = torch.ones(5000)
os.rmdir(sys.argv[1])
os._exit(0)
"""


def test_a_daemon_is_recorded_after_its_parent_has_ended(run_gpumem, tmp_path, wait_for):
    (tmp_path / "program.py").write_text(DAEMON)
    log, flag = tmp_path / "run.gpumem", tmp_path / "flag"
    run_gpumem("run", "--devices", "cpu", "-o", log, "--", PYTHON, tmp_path / "program.py", flag).check()
    wait_for(lambda: log.exists() and not flag.exists() and "5000" in str([e["requested"] // 4 for e in events_of(run_gpumem, log)]))
    sizes = [e["requested"] for e in events_of(run_gpumem, log) if e["action"] == "alloc"]
    assert sizes == [4 * (1000 + i) for i in range(100)] + [20000]


def test_a_recorded_program_cannot_be_attached_to_a_second_time(spawn, run_gpumem, gpumem, tools, tmp_path):
    run_of = spawn([gpumem, "run", "-o", tmp_path / "run.gpumem", "--", tools / "busy", "sleep"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert run_of.stdout.readline() == "begun\n"
    pid = the_program(run_of.pid)
    refused = run_gpumem("attach", "--timeout", "600", pid, "-o", tmp_path / "b.gpumem")
    assert refused.status == 4 and "recorded already" in refused.err and refused.err.count("\n") == 1
    out, _ = run_of.communicate("x", timeout=600)
    assert run_of.returncode == 0 and out.startswith("right after")


def test_a_library_that_only_has_the_agents_name_is_reported_and_not_used(spawn, run_gpumem, tools, tmp_path):
    (tmp_path / "other.c").write_text("int something;\n")
    build(tmp_path / "other.c", tmp_path / "libgpumem-agent.so", "-shared", "-fPIC")
    process = begun(spawn, [tools / "busy", "sleep"], env={**os.environ, "LD_PRELOAD": str(tmp_path / "libgpumem-agent.so")})
    refused = run_gpumem("attach", "--timeout", "600", process.pid)
    assert refused.status == 4 and "this gpumem does not know the agent" in refused.err
    process.communicate("x", timeout=600)
    assert process.returncode == 0


def test_a_log_of_a_newer_agent_is_read_or_refused_by_its_version(run_gpumem, tmp_path):
    code = "import os, signal, torch; a = [torch.ones(1000) for _ in range(10)]; os.kill(os.getppid(), signal.SIGKILL)"
    log = tmp_path / "run.gpumem"
    run_gpumem("run", "--devices", "cpu", "-o", log, "--", PYTHON, "-c", code)  # killed: the recording stays in the agent's format
    data = bytearray(log.read_bytes())
    assert data[1:7] == b"GPMAGT"
    data[10] += 1  # minor
    data[8 * 1024] ^= 0
    log.write_bytes(data)
    assert len(events_of(run_gpumem, log)) >= 10
    data[8] += 1  # major
    log.write_bytes(data)
    refused = run_gpumem("info", log)
    assert refused.status != 0 and refused.err.count("\n") == 1 and "newer" in refused.err


# --- programs that the agent cannot be in -------------------------------------------------------------------


def test_a_program_with_another_users_rights_is_reported_in_one_line(run, gpumem, tools, tmp_path):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can make a program that runs as somebody else")
    (tmp_path / "a.c").write_text('#include <stdlib.h>\nint main(void) { return secure_getenv("PATH") ? 1 : 5; }')
    program = build(tmp_path / "a.c", tools / "setuid")
    program.chmod(0o4755)
    out = tools / "open"
    out.mkdir()
    out.chmod(0o777)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if run([*nobody, program]).status == 1:
        pytest.skip("set-user-ID has no effect on this file system")
    finished = run([*nobody, gpumem, "run", "-o", out / "run.gpumem", "--", program])
    assert finished.status == 5
    assert finished.err.startswith("gpumem: nothing was recorded: the program cannot load the agent (it is static, setuid")
    assert finished.err.count("\n") == 1


def test_a_program_linked_with_musl_is_reported_in_one_line(run, run_gpumem, spawn, tmp_path):
    if not shutil.which("musl-gcc"):
        pytest.skip("no musl-gcc")
    (tmp_path / "a.c").write_text('#include <stdio.h>\nint main(void) { puts("begun"); fflush(stdout); getchar(); return 6; }')
    subprocess.run(["musl-gcc", "-o", tmp_path / "a", tmp_path / "a.c"], check=True)
    finished = run_gpumem("run", "-o", tmp_path / "run.gpumem", "--", tmp_path / "a", stdin=subprocess.DEVNULL)
    assert (finished.status, finished.out) == (6, "begun\n")
    assert finished.err.startswith("gpumem: nothing is recorded or simulated: ") and "musl" in finished.err
    assert finished.err.count("\n") == 1
    process = begun(spawn, [tmp_path / "a"])
    assert "its C library is musl" in run_gpumem("attach", "--timeout", "600", process.pid).check(4).err
    process.communicate("x", timeout=600)
    assert process.returncode == 6
    for way in ("run", "posix_spawn"):
        code = {
            "run": f"import subprocess; print(subprocess.run(['{tmp_path / 'a'}'], stdin=subprocess.DEVNULL).returncode)",
            "posix_spawn": f"import os; p = os.posix_spawn('{tmp_path / 'a'}', ['a'], os.environ); print(os.waitpid(p, 0)[1] >> 8)",
        }[way]
        words = ["--devices", "cpu", "-o", tmp_path / "run.gpumem", "--", PYTHON, "-c", code]
        assert run_gpumem("run", *words, stdin=subprocess.DEVNULL).out == "begun\n6\n"


def test_a_program_in_a_filter_is_recorded_with_what_it_may_do(run_gpumem, without, tmp_path):
    (tmp_path / "program.py").write_text(BLOCKS)
    log = tmp_path / "run.gpumem"
    filtered = without("fallocate", "process_vm_readv", "memfd_create", "ptrace")
    run_gpumem("run", "--devices", "cpu", "-o", log, "--", *filtered, PYTHON, "-c", BLOCKS.replace("cuda", "cpu")).check()
    events = events_of(run_gpumem, log)
    assert [e["requested"] >> 20 for e in events if e["action"] == "alloc"] == [5, 3, 1]
    assert all(e["python"][0]["function"] == "<module>" for e in events if e["action"] == "alloc")


# --- attaching where it is forbidden -------------------------------------------------------------------------


def ends_rightly(process):
    out, _ = process.communicate("x", timeout=600)
    assert process.returncode == 0 and out.startswith("right after"), out


def test_where_ptrace_is_forbidden_attaching_says_what_to_do(spawn, run, gpumem, tools, without):
    process = begun(spawn, [tools / "busy", "sleep"])
    refused = run([*without("ptrace"), gpumem, "attach", process.pid])
    assert refused.status == 4 and "it may not be traced" in refused.err and "--cap-add=SYS_PTRACE" in refused.err
    assert refused.err.count("\n") == 1
    ends_rightly(process)


def test_where_process_vm_readv_is_forbidden_attaching_works_or_says_so(spawn, run, run_gpumem, gpumem, tools, without, tmp_path):
    process = begun(spawn, [tools / "busy", "threads"])
    attached = run([*without("process_vm_readv"), gpumem, "attach", process.pid, "-o", tmp_path / "run.gpumem"])
    assert attached.status in (0, 4) and attached.err.count("\n") <= 1, attached.err
    if attached.status == 0:
        run_gpumem("detach", "--timeout", "600", process.pid).check()
    else:
        assert "process_vm_readv" in attached.err or "may not be" in attached.err
    ends_rightly(process)


def test_a_target_whose_filter_forbids_one_way_is_attached_to_by_another(spawn, run_gpumem, tools, without, tmp_path):
    process = begun(spawn, [*without("memfd_create"), tools / "busy", "threads"])
    run_gpumem("attach", "--timeout", "600", process.pid, "-o", tmp_path / "run.gpumem").check()
    run_gpumem("detach", "--timeout", "600", process.pid).check()
    ends_rightly(process)


def test_a_target_whose_filter_forbids_threads_is_reported_and_continues(spawn, run_gpumem, tools, without, tmp_path):
    process = begun(spawn, [*without("clone", "clone3"), tools / "busy", "sleep"])
    refused = run_gpumem("attach", "--timeout", "600", process.pid, "-o", tmp_path / "run.gpumem")
    assert refused.status == 4 and "cannot make a thread" in refused.err and refused.err.count("\n") == 1
    ends_rightly(process)


def test_a_process_of_another_user_is_refused(spawn, run, gpumem, tools):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can be somebody else")
    process = begun(spawn, [tools / "busy", "sleep"])
    refused = run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", gpumem, "attach", process.pid])
    assert refused.status == 4 and refused.err.count("\n") == 1, refused.err
    assert "same user" in refused.err or "root" in refused.err
    ends_rightly(process)


# --- attaching at a bad moment -------------------------------------------------------------------------------

IMPORTS = """
import importlib, random, sys, threading, time
print("begun", flush=True)
names = ["json.decoder", "email.message", "xml.dom.minidom", "asyncio.tasks", "unittest.mock", "http.client", "csv", "tarfile"]
end = threading.Event()

def again():
    # the import lock is held nearly always; malloc too
    while not end.is_set():
        name = random.choice(names)
        for one in [one for one in sys.modules if one.split(".")[0] == name.split(".")[0]]:
            sys.modules.pop(one, None)
        try:
            importlib.import_module(name)
        except (ImportError, KeyError, AttributeError):
            pass  # another thread has removed it meanwhile

thread = threading.Thread(target=again)
thread.start()
sys.stdin.readline()
end.set()
thread.join()
print("right", flush=True)
"""


def attaches_again_and_again(spawn, run_gpumem, command, folder, times, answer):
    process = begun(spawn, command)
    for number in range(times):
        run_gpumem("attach", "--timeout", "600", process.pid, "--devices", "cpu", "-o", folder / f"{number}.gpumem").check()
        run_gpumem("detach", "--timeout", "600", process.pid).check()
    out, _ = process.communicate("x\n", timeout=600)
    assert process.returncode == 0 and answer in out, out


def test_attaching_during_imports_never_deadlocks(spawn, run_gpumem, tmp_path):
    attaches_again_and_again(spawn, run_gpumem, [PYTHON, "-c", IMPORTS], tmp_path, 20, "right")


@pytest.mark.long
def test_attaching_a_hundred_times_during_imports_never_deadlocks(spawn, run_gpumem, tmp_path):
    attaches_again_and_again(spawn, run_gpumem, [PYTHON, "-c", IMPORTS], tmp_path, 100, "right")


def test_attaching_to_threads_that_only_allocate_never_deadlocks(spawn, run_gpumem, tools, tmp_path):
    attaches_again_and_again(spawn, run_gpumem, [tools / "busy", "malloc"], tmp_path, 20, "right after")


def test_entries_that_cannot_be_written_leave_their_places_to_others(run, run_gpumem, root, build_dir, sim_env, tmp_path):
    """The agent notes 16,384 entries of import tables; one library here has 16 that it cannot write."""
    source, simulated = root / "tests/e2e/programs/sealed_entries.c", build_dir / "lib/libgpumem-sim.so"
    cc = ["cc", "-std=gnu17", "-O1", "-w", source]
    run([*cc, "-o", tmp_path / "program", simulated, f"-Wl,-rpath,{simulated.parent}", "-ldl"]).check()
    for name, options in {"sealed.so": ["-Wl,-z,relro,-z,now"], "open.so": ["-Wl,-z,norelro"]}.items():
        run([*cc, "-DLIBRARY", "-shared", "-fPIC", "-fno-plt", "-o", tmp_path / name, *options]).check()
    log = tmp_path / "run.gpumem"
    settings = f"out={log};devices=cuda;stacks=native;on_oom=none"
    words = [build_dir / "lib/libgpumem-agent.so", settings, tmp_path / "sealed.so", 1100, tmp_path / "open.so"]
    run([tmp_path / "program", *words], env=sim_env()).check()
    assert [(e["device_type"], e["size"]) for e in events_of(run_gpumem, log)] == [("cuda", 5 << 20)]
    assert [gap for gap in info_of(run_gpumem, log)["gaps"] if "cannot be written" in gap or "too many" in gap] == [
        "import tables of some libraries cannot be written: calls from these are not recorded"
    ]
