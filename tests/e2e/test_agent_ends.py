"""How a recorded process may end, and what its log then says: killed, crashed, forked, full disk."""

import json
import os
import random
import shutil
import signal
import struct
import subprocess
import time

import pytest

from conftest import PYTHON, ROOT, info_of

PROGRAMS = ROOT / "tests" / "e2e" / "programs"


def account_of(path):
    """What the program says it did: (address, bytes; negative: freed)."""
    data = path.read_bytes()
    (count,) = struct.unpack_from("<q", data)
    return [struct.unpack_from("<qq", data, 8 + 16 * i) for i in range(count)]


def done_by(path):
    """How many of them the program has done so far; another process runs it."""
    with open(path, "rb") as file:
        return struct.unpack("<q", file.read(8))[0]


def log_of(run_gpumem, path):
    """The same from the log, without its first block (the one before the account)."""
    events = run_gpumem("events", path, "--json").check().json_lines()
    blocks = [e for e in events if e["action"] in ("alloc", "free_requested")]
    first = blocks[0]["address"]
    freed = next(i for i, e in enumerate(blocks) if e["action"] == "free_requested" and e["address"] == first)
    rest = [e for i, e in enumerate(blocks) if i not in (0, freed)]
    return [(int(e["address"], 16), e["requested"] if e["action"] == "alloc" else -e["requested"]) for e in rest]


@pytest.fixture
def agent_env(run_gpumem, tmp_path):
    """agent_env(path, **settings) -> the environment that `gpumem run --sim -o path` gives to a program."""
    shown = run_gpumem("run", "--sim", "-o", tmp_path / "unused", "--", "/usr/bin/env", "-0").check()
    environment = dict(line.split("=", 1) for line in shown.out.split("\0") if "=" in line)

    def call(path, **more):
        # files that `gpumem run` makes for its program are removed with it
        environment.pop("GPUMEM_SIM_MACHINE", None)
        settings = {"out": path, "devices": "cuda", "stacks": "python,native", **more}
        return {**environment, "GPUMEM_AGENT": ";".join(f"{name}={value}" for name, value in settings.items())}

    return call


def kill_and_compare(run_gpumem, environment, folder, count, seed, wait_for):
    """Kills `count` processes at random moments of their work; the log of each is the prefix of its account."""
    choose = random.Random(seed)
    command = [PYTHON, PROGRAMS / "agent_churn.py", folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    pids = []
    with subprocess.Popen(command, env=environment(folder / "%p.gpumem", stacks="python"), text=True, bufsize=1, **pipes) as parent:
        for number in range(count):
            parent.stdin.write(f"{number}\n")
            lines = sorted(parent.stdout.readline().strip() for _ in range(2))
            assert lines[1] == "begins"
            pids.append(int(lines[0]))
            account, moment = folder / f"{number}.account", choose.randrange(200)
            wait_for(lambda account=account, moment=moment: done_by(account) >= moment)
            time.sleep(choose.random() * 0.002)  # between two allocations, or within one
            os.kill(pids[-1], choose.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV]))
        parent.stdin.close()
    for number, pid in enumerate(pids):
        log = folder / f"{pid}.gpumem"
        told, ours = account_of(folder / f"{number}.account"), log_of(run_gpumem, log)
        # The program notes an action after it: the log may have one event more, and never one less.
        assert len(told) <= len(ours) <= len(told) + 1, (number, len(told), len(ours))
        assert ours[: len(told)] == told
    return log


def test_a_log_of_a_killed_process_is_the_prefix_of_what_it_did(run_gpumem, agent_env, tmp_path, wait_for):
    log = kill_and_compare(run_gpumem, agent_env, tmp_path, 10, 1, wait_for)
    info = run_gpumem("info", log, "--json").check().json()
    assert info["complete"] is False
    assert any("an event that was being written then is missing" in gap for gap in info["gaps"])
    live = sum(size for _, size in log_of(run_gpumem, log))
    blocks = run_gpumem("blocks", log, "--json").check().json()["blocks"]
    assert sum(block["requested"] for block in blocks) == live


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_logs_of_two_hundred_killed_processes_are_prefixes_of_what_they_did(run_gpumem, agent_env, tmp_path, wait_for):
    kill_and_compare(run_gpumem, agent_env, tmp_path, 200, 2, wait_for)


# --- other ends ---------------------------------------------------------------------------------------------

ONE = "import torch; a = torch.ones(1000, device='cuda'); "


@pytest.fixture
def record(run_gpumem, tmp_path):
    """record(code or command, *options) -> (finished run, path)."""

    def call(program, *options, sim="--sim", out="run.gpumem", **keys):
        path = tmp_path / out
        command = [PYTHON, "-c", program] if isinstance(program, str) else program
        return run_gpumem("run", *([sim] if sim else []), "-o", path, *options, "--", *command, **keys), path

    return call


@pytest.mark.usefixtures("own_process")  # os._exit() of the program is gpumem's own child's
def test_the_exit_status_is_the_programs_and_an_early_exit_loses_nothing(run_gpumem, record):
    run, log = record(ONE + "import os; os._exit(7)")
    assert run.status == 7
    info = info_of(run_gpumem, log)
    assert info["complete"] is True and info["devices"][0]["allocated"] == 4096


@pytest.mark.usefixtures("own_process")  # `gpumem run` knows the signal only of its own child
def test_a_signal_that_ends_the_program_ends_run_too(run_gpumem, record):
    run, log = record(ONE + "import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert run.status == -signal.SIGTERM
    assert any("signal 15" in gap for gap in info_of(run_gpumem, log)["gaps"])


def test_a_signal_sent_to_run_reaches_the_program(gpumem, tmp_path, sim_env):
    code = "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: exit(5)); print('ready', flush=True); time.sleep(60)"
    command = [gpumem, "run", "-o", tmp_path / "log", "--", PYTHON, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.wait(600) == 5


def test_a_program_that_becomes_another_has_a_log_of_each(run_gpumem, record, tmp_path):
    again = ONE + "print(1)"
    run, log = record(ONE + f"import os, sys; os.execv(sys.executable, [sys.executable, '-c', {again!r}])")
    run.check()
    logs = sorted(tmp_path.glob("run.gpumem*"))
    assert len(logs) == 2 and logs[0] == log
    for path in logs:
        assert info_of(run_gpumem, path)["devices"][0]["peak_allocated"] == 4096


WORKERS = """
import torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.full((1000,), float(i))
# from 3.14 on Python starts workers by a server unless it is told to fork
for batch in DataLoader(Rows(), batch_size=2, num_workers=2, multiprocessing_context="fork"): pass
"""


def test_workers_that_are_forked_have_logs_of_their_own_that_name_their_parent(run_gpumem, record, tmp_path):
    run, log = record(WORKERS, "--devices", "cpu", sim=None)
    run.check()
    parent = run_gpumem("info", log).check().out
    pid = parent.split("(process ")[1].split(")")[0]
    others = [path for path in tmp_path.glob("run.gpumem*") if path != log]
    assert len(others) == 2
    for path in others:
        answer = run_gpumem("info", path).check().out
        assert f"forked by process {pid}" in answer
        functions = {f["function"] for e in run_gpumem("events", path, "--json").check().json_lines() for f in e["python"]}
        # code objects have the name of their class from CPython 3.11 on
        assert functions & {"Rows.__getitem__", "__getitem__"} and "_worker_loop" in functions


MANY = ONE + "\nfor i in range(60000): torch.empty(i + 1, device='cuda')\nprint('whole')"


def test_a_size_limit_stops_the_recording_and_not_the_program(run_gpumem, record):
    run, log = record(MANY, "--max-size", "600KiB")
    assert run.check().out == "whole\n"
    info = info_of(run_gpumem, log)
    assert any("size limit (--max-size)" in gap for gap in info["gaps"]) and info["complete"] is False
    assert 1000 < info["devices"][0]["events"] < 180_000
    assert "events are missing: `gpumem info` shows why" in run.err


def test_a_limit_of_the_shell_on_files_stops_the_recording_and_not_the_program(run_gpumem, record):
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({600 << 10}, {600 << 10}))\n"
    run, log = record(ONE + limit + MANY.removeprefix(ONE))
    assert run.check().out == "whole\n"
    assert any("ulimit -f" in gap for gap in info_of(run_gpumem, log)["gaps"])


def test_a_full_disk_stops_the_recording_and_not_the_program(gpumem, run, run_gpumem, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=600k none {disk}"
    if not shutil.which("unshare") or run(["unshare", "-m", "sh", "-c", mount]).status != 0:
        pytest.skip("no file system can be mounted here")
    script = f"{mount} && {gpumem} run --sim -o {disk}/log -- {PYTHON} {tmp_path}/many.py; {gpumem} info {disk}/log --json"
    (tmp_path / "many.py").write_text(MANY)
    finished = run(["unshare", "-m", "sh", "-c", script]).check()
    whole, info = finished.out.split("\n", 1)
    assert whole == "whole"
    assert any("the disk was full" in gap for gap in json.loads(info)["gaps"])


def test_a_program_without_pytorch_is_reported_in_one_line(record, tmp_path):
    run, log = record(["/bin/sh", "-c", "exit 3"], sim=None)
    assert run.status == 3
    assert run.err == "gpumem: nothing to record: no process allocated cuda memory through PyTorch\n"
    assert not log.exists()


def test_a_static_program_is_reported_in_one_line(run, record, tmp_path):
    (tmp_path / "a.c").write_text("int main(void) { return 4; }")
    if run(["gcc", "-static", tmp_path / "a.c", "-o", tmp_path / "a"]).status != 0:
        pytest.skip("no static C library here")
    finished, log = record([tmp_path / "a"], sim=None)
    assert finished.status == 4
    assert finished.err.startswith("gpumem: nothing was recorded: the program cannot load the agent")
    assert finished.err.count("\n") == 1 and not log.exists()


def test_a_file_that_is_no_recording_is_not_overwritten(record, tmp_path):
    (tmp_path / "train.py").write_text("print(1)")
    run, log = record(["/bin/true"], sim=None, out="train.py")
    assert run.status == 2 and "is not a recording" in run.err
    assert log.read_text() == "print(1)"
