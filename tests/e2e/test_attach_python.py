"""`attach` and `detach` by the program's own Python (PEP 768, CPython 3.14 and later): no thread is stopped for it."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_attach import PROGRAM, end_of, start

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import debian_python  # noqa: E402
import torch_matrix  # noqa: E402

TABLES = Path(__file__).resolve().parents[2] / "core" / "cpython" / "versions"
# the versions that have PEP 768 and that gpumem knows
VERSIONS = [f"3.{path.stem[-2:]}" for path in sorted(TABLES.glob("layout_3*.c")) if path.stem[-2:] >= "14"]

LOOP = """
import select, sys, time
print("begun", flush=True)
turns = 0
while True:
    turns += sum(i * i for i in range(100)) > 0
    time.sleep(0.001)
    if turns % 20 == 0 and sys.stdin in select.select([sys.stdin], [], [], 0)[0]:
        break
print("names", sorted(name for name in vars() if not name.startswith("__")), flush=True)
"""

WAITS = """
import sys
print("begun", flush=True)
line = sys.stdin.readline()
print("went on", sum(range(1000)), flush=True)
sys.stdin.readline()
"""

# The main thread waits in a lock, another one computes.
LOCKED = """
import sys, threading
lock = threading.Lock()
lock.acquire()
def reads():
    print("begun", flush=True)
    sys.stdin.readline()
    lock.release()
threading.Thread(target=reads).start()
lock.acquire()
print("went on", flush=True)
"""

HOOKED = """
import select, sys, time
seen = []
sys.addaudithook(lambda name, arguments: "remote_debugger" in name and seen.append((name, arguments)))
print("begun", flush=True)
while not seen:
    time.sleep(0.001)
name, arguments = seen[0]
print(name, arguments[0], flush=True)
while sys.stdin not in select.select([sys.stdin], [], [], 0.001)[0]:
    sum(range(100))
"""

REFUSES = """
import select, sys
def hook(name, arguments):
    if name == "ctypes.dlopen" and "gpumem" in str(arguments[0]):
        raise RuntimeError("not this one")
sys.addaudithook(hook)
print("begun", flush=True)
while sys.stdin not in select.select([sys.stdin], [], [], 0.001)[0]:
    sum(range(100))
"""


@pytest.fixture(params=VERSIONS)
def newer(request):
    """A Python that has PEP 768."""
    python = torch_matrix.python_of(f"py{request.param}-torch2.15") or debian_python.path_of(request.param)
    if not python:
        pytest.skip(f"CPython {request.param} is not installed: tests/tools/debian_python.py install {request.param}")
    return python


@pytest.fixture(params=VERSIONS)
def newer_torch(request):
    """A Python that has PEP 768, and PyTorch."""
    python = torch_matrix.python_of(f"py{request.param}-torch2.15")
    if not python:
        pytest.skip(f"py{request.param}-torch2.15 is not installed: tests/tools/torch_matrix.py install")
    return python


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder in which gpumem makes its folders: it is empty after each test."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def left_over(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith("gpumem-python-")]


def begin(spawn, python, text, *arguments, **keys):
    return start(spawn, [python, *arguments, "-c", text], stderr=subprocess.PIPE, **keys)


def wait_until_blocked(process):
    """Until the main thread stays in one system call: what it prints before, another thread may print first."""
    path, seen = Path(f"/proc/{process.pid}/task/{process.pid}/syscall"), []
    while seen[-4:] != [path.read_text()] * 4 or "running" in seen[-1]:
        seen.append(path.read_text())
        time.sleep(0.1)


def end(process, line="x\n"):
    """What the program printed. gpumem printed nothing into it, and no signal ended the program."""
    out, err = process.communicate(line, timeout=600)
    assert process.returncode == 0, err
    assert err == "", err
    return out


# A busy machine may leave the program without a processor for longer than the second after which a thread is used.
PYTHON_ALONE = ["--way", "python", "--timeout", "600"]


def attach(run_gpumem, process, path, *options):
    return run_gpumem("attach", process.pid, "--devices", "cpu", "--json", "-o", path, *options)


def detach(run_gpumem, process, *options):
    return run_gpumem("detach", process.pid, "--json", *options)


def test_a_busy_python_loads_the_agent_itself(spawn, run_gpumem, newer, folder, tmp_path):
    process = begin(spawn, newer, LOOP)
    for number in range(2):
        told = attach(run_gpumem, process, tmp_path / f"{number}.gpumem", *PYTHON_ALONE).check().json()
        assert (told["way"], told["stopped"], told["tries"]) == ("python", 0, 0)
        assert detach(run_gpumem, process, *PYTHON_ALONE).check().json()["way"] == "python"
    told = run_gpumem("attach", process.pid, "-o", tmp_path / "text.gpumem", *PYTHON_ALONE).check().out
    assert "its Python loaded the agent" in told
    assert "recorded already" in attach(run_gpumem, process, tmp_path / "again.gpumem").check(4).err
    assert left_over(folder) == []
    assert end(process).splitlines() == ["names ['select', 'sys', 'time', 'turns']"]


def test_attaching_traces_no_thread(spawn, run_gpumem, newer, folder, tmp_path):
    process = begin(spawn, newer, LOOP)
    seize = 0x4206
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    assert ptrace(seize, process.pid, None, None) == 0, os.strerror(ctypes.get_errno())
    # a process has at most one tracer, and that is this test
    assert "traces it" in attach(run_gpumem, process, tmp_path / "no.gpumem", "--way", "thread").check(4).err
    attach(run_gpumem, process, tmp_path / "yes.gpumem", *PYTHON_ALONE).check()
    detach(run_gpumem, process, *PYTHON_ALONE).check()
    process.kill()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("times", [10, pytest.param(50, marks=pytest.mark.long)])
def test_a_training_that_is_attached_to_many_times_has_the_same_losses(spawn, run_gpumem, newer_torch, folder, tmp_path, times):
    program, stop = tmp_path / "train.py", tmp_path / "stop"
    program.write_text(PROGRAM)
    process = start(spawn, [newer_torch, program, "cpu", 100, stop])
    for number in range(times):
        for told in [
            attach(run_gpumem, process, tmp_path / f"{number}.gpumem", "--no-pack", *PYTHON_ALONE),
            detach(run_gpumem, process, *PYTHON_ALONE),
        ]:
            answer = told.check().json()
            assert (answer["way"], answer["stopped"], answer["tries"]) == ("python", 0, 0)
    stop.touch()
    losses, steps, _ = end_of(process)
    assert losses == end_of(start(spawn, [newer_torch, program, "cpu", steps]))[0]
    assert left_over(folder) == []


def test_earlier_allocations_are_in_the_recording(spawn, run_gpumem, newer_torch, sim_env, folder, tmp_path, wait_for):
    program, stop, log = tmp_path / "train.py", tmp_path / "stop", tmp_path / "run.gpumem"
    program.write_text(PROGRAM)
    process = start(spawn, [newer_torch, program, "cuda", 1, stop], env=sim_env())
    run_gpumem("attach", process.pid, "-o", log, *PYTHON_ALONE).check()
    wait_for(lambda: run_gpumem("info", log, "--json").check().json()["devices"][0]["events"] > 2000)
    stop.touch()
    _, _, allocated = end_of(process)
    info = run_gpumem("info", log, "--json").check().json()
    assert info["devices"][0]["allocated"] == allocated, info
    assert "began late" not in str(info["gaps"]), info
    # No thread stood still: a backward that was under way has a thread whose caller nobody saw begin, and may allocate and free
    # while what is alive is read. From the next one on all have stacks: autograd's own threads too, which have no Python code.
    events = run_gpumem("events", log).check().out.splitlines()
    borrowed = next(number for number, line in enumerate(events) if "the waiting caller's stack" in line)
    assert [line for line in events[borrowed:] if "train.py" not in line] == []


@pytest.mark.parametrize("text", [WAITS, LOCKED], ids=["input", "lock"])
def test_if_the_main_thread_does_not_respond_another_way_is_used(spawn, run_gpumem, newer, folder, tmp_path, text):
    process = begin(spawn, newer, text)
    wait_until_blocked(process)
    refused = attach(run_gpumem, process, tmp_path / "no.gpumem", "--way", "python", "--timeout", "1").check(4).err
    assert "its main thread runs no Python code now" in refused
    assert not (tmp_path / "no.gpumem").exists()
    told = attach(run_gpumem, process, tmp_path / "run.gpumem").check().json()
    assert (told["way"], told["python_refused"]) == ("thread", "blocked")
    assert left_over(folder) == []
    assert "went on" in end(process, "x\nx\n")


def test_a_request_that_was_withdrawn_is_not_run_later(spawn, run_gpumem, newer, folder, tmp_path):
    process = begin(spawn, newer, WAITS)
    attach(run_gpumem, process, tmp_path / "no.gpumem", "--way", "python", "--timeout", "1").check(4)
    process.stdin.write("x\n")
    process.stdin.flush()
    assert process.stdout.readline() == "went on 499500\n"
    assert "it has no agent" in detach(run_gpumem, process).check(4).err
    assert "libgpumem-agent" not in open(f"/proc/{process.pid}/maps").read()
    end(process)


def disabled(spawn, newer, how):
    if how == "environment":
        return begin(spawn, newer, LOOP, env={**os.environ, "PYTHON_DISABLE_REMOTE_DEBUG": "1"})
    return begin(spawn, newer, LOOP, "-X", "disable-remote-debug")


@pytest.mark.parametrize("how", ["environment", "option"])
def test_if_it_is_switched_off_another_way_is_used(spawn, run_gpumem, newer, folder, tmp_path, how):
    process = disabled(spawn, newer, how)
    assert "PYTHON_DISABLE_REMOTE_DEBUG" in attach(run_gpumem, process, tmp_path / "a", "--way", "python").check(4).err
    told = attach(run_gpumem, process, tmp_path / "run.gpumem").check().json()
    assert (told["way"], told["python_refused"]) == ("thread", "switched_off")
    assert detach(run_gpumem, process).check().json()["way"] == "thread"
    end(process)


def test_the_program_sees_the_script_by_its_audit_hook(spawn, run_gpumem, newer, folder, tmp_path):
    process = begin(spawn, newer, HOOKED)
    attach(run_gpumem, process, tmp_path / "run.gpumem", *PYTHON_ALONE).check()
    name, path = process.stdout.readline().split()
    assert name == "cpython.remote_debugger_script"
    assert re.fullmatch(rf"{folder}/gpumem-python-{process.pid}-\w{{6}}/attach\.py", path)
    end(process)


def test_a_script_that_fails_is_reported_and_another_way_is_used(spawn, run_gpumem, newer, folder, tmp_path):
    process = begin(spawn, newer, REFUSES)
    refused = attach(run_gpumem, process, tmp_path / "no.gpumem", *PYTHON_ALONE).check(4).err
    assert "the script there has failed: RuntimeError('not this one')" in refused
    told = attach(run_gpumem, process, tmp_path / "run.gpumem").check().json()
    assert told["way"] == "thread" and told["python_refused"] in ("failed", "blocked")
    assert left_over(folder) == []
    end(process)


@pytest.mark.parametrize("place", ["nowhere", "long"])
def test_without_a_folder_for_the_script_another_way_is_used(spawn, run_gpumem, newer, monkeypatch, tmp_path, place):
    process = begin(spawn, newer, LOOP)
    long = tmp_path / ("a" * 200) / ("b" * 200) / ("c" * 200)
    long.mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(long if place == "long" else tmp_path / "nowhere"))
    assert "cannot create a private folder" in attach(run_gpumem, process, tmp_path / "no.gpumem", "--way", "python").check(4).err
    told = attach(run_gpumem, process, tmp_path / "run.gpumem").check().json()
    assert (told["way"], told["python_refused"]) == ("thread", "no_folder")
    end(process)


def test_another_users_process_does_not_get_our_files(spawn, run_gpumem, newer, folder, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, which alone may look into another user's process")
    process = begin(spawn, newer, "import os\nos.setresgid(*[65534] * 3)\nos.setresuid(*[65534] * 3)" + LOOP)
    assert "another user" in attach(run_gpumem, process, tmp_path / "no.gpumem", "--way", "python").check(4).err
    assert left_over(folder) == []
    end(process)


def test_a_process_that_is_stopped_or_has_ended_is_reported_as_such(spawn, run_gpumem, gpumem, newer, folder, tmp_path):
    process = begin(spawn, newer, LOOP)
    os.kill(process.pid, signal.SIGSTOP)
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)
    assert "kill -CONT" in attach(run_gpumem, process, tmp_path / "a.gpumem", "--way", "python").check(4).err
    os.kill(process.pid, signal.SIGCONT)
    end(process)
    waits = begin(spawn, newer, WAITS)
    waiting = spawn(
        [gpumem, "attach", waits.pid, "--way", "python", "-o", tmp_path / "b.gpumem"],
        stderr=subprocess.PIPE,
    )
    time.sleep(0.5)
    waits.kill()
    waits.wait()
    _, err = waiting.communicate(timeout=600)
    assert waiting.returncode == 4 and str(waits.pid) in err
    assert left_over(folder) == []


def test_gpumem_may_be_killed_at_any_moment(spawn, run_gpumem, gpumem, newer, folder, tmp_path):
    process = begin(spawn, newer, LOOP)
    begun = time.monotonic()
    attach(run_gpumem, process, tmp_path / "first.gpumem").check()
    whole = time.monotonic() - begun
    for number in range(12):
        word = ["detach"] if number % 2 == 0 else ["attach", "-o", str(tmp_path / f"{number}.gpumem")]
        attaching = subprocess.Popen(
            [gpumem, *word, str(process.pid), "--way", "python"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(whole * (0.1 + number / 12))
        attaching.kill()
        attaching.wait()
    end(process)


def test_what_a_killed_gpumem_left_is_withdrawn_and_removed(spawn, run_gpumem, gpumem, newer, folder, tmp_path, wait_for):
    process = begin(spawn, newer, WAITS)
    killed = spawn([gpumem, "attach", process.pid, "--way", "python", "-o", tmp_path / "no.gpumem"])
    wait_for(lambda: any((folder / name / "attach.py").exists() for name in left_over(folder)))
    time.sleep(0.2)
    killed.kill()
    killed.wait()
    assert len(left_over(folder)) == 1
    told = attach(run_gpumem, process, tmp_path / "run.gpumem").check().json()
    assert (told["way"], told["python_refused"]) == ("thread", "blocked")
    assert left_over(folder) == []
    assert "went on" in end(process, "x\nx\n")
    assert not (tmp_path / "no.gpumem").exists()


TELLS_RUNTIME = """
import ctypes, select, sys
print("begun", flush=True)
print(ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime")), flush=True)
while sys.stdin not in select.select([sys.stdin], [], [], 0.001)[0]:
    sum(range(100))
"""


def test_nothing_is_written_where_the_published_offsets_are_damaged(spawn, run_gpumem, newer, folder, tmp_path):
    minor = newer.resolve().name.split(".")[1]
    table = (TABLES / f"layout_3{minor}.c").read_text()
    words = {name: int(at) for name, at in re.findall(r"\.at_(\w+) = (\d+)", table)}
    assert len(words) == 9
    process = begin(spawn, newer, TELLS_RUNTIME)
    runtime = int(process.stdout.readline())
    with open(f"/proc/{process.pid}/mem", "r+b", buffering=0) as memory:
        for name, at in words.items():
            was = os.pread(memory.fileno(), 8, runtime + at)
            for bad in (1 << 40, (1 << 64) - 8, int.from_bytes(was, "little") + (1 << 23)):
                os.pwrite(memory.fileno(), bad.to_bytes(8, "little"), runtime + at)
                refused = attach(run_gpumem, process, tmp_path / "no.gpumem", "--way", "python").check(4).err
                assert "the layout of its Python differs from the known releases" in refused, (name, bad)
            os.pwrite(memory.fileno(), was, runtime + at)
    attach(run_gpumem, process, tmp_path / "run.gpumem", *PYTHON_ALONE).check()
    end(process)


def test_older_pythons_are_attached_to_through_a_thread(spawn, run_gpumem, folder, tmp_path):
    process = start(spawn, [sys.executable, "-c", LOOP])
    assert "older than 3.14" in attach(run_gpumem, process, tmp_path / "no.gpumem", "--way", "python").check(4).err
    told = attach(run_gpumem, process, tmp_path / "run.gpumem").check().json()
    assert (told["way"], told["python_refused"]) == ("thread", "older_python")
    assert "auto, python or thread" in run_gpumem("attach", process.pid, "--way", "x").check(2).err
