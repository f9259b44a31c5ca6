"""`gpumem run` without -o: it records into a file of its own choice and says which, and what to type next."""

import os
import re
import signal

import pytest

from conftest import EXAMPLES, PYTHON

LOOP = EXAMPLES / "linear_loop.py"
RANKS = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.cuda.set_device(rank)
kept = [torch.zeros(1 << 20, device="cuda") for _ in range(3 + rank)]
dist.barrier()
os.write(1, b"rank %d %d\\n" % (rank, os.getpid()))  # in one piece, whatever the other rank says
dist.destroy_process_group()
"""


@pytest.fixture
def records():
    """The environment of a user, who has not switched recording off."""
    return {name: value for name, value in os.environ.items() if name != "GPUMEM_NO_RECORD"}


def test_a_run_is_recorded_and_the_last_lines_say_where_and_what_next(run_gpumem, records, tmp_path):
    done = run_gpumem("run", "--sim", "--", PYTHON, LOOP, env=records, cwd=tmp_path).check()
    (log,) = tmp_path.iterdir()
    assert re.fullmatch(r"gpumem-\d+\.gpumem", log.name)
    *account, told, after = done.err.splitlines()
    peak = re.search(r"^allocated_bytes.all.peak: ([\d,]+)$", done.out, re.M)[1]
    events = len(run_gpumem("events", log, "--json").check().json_lines())
    assert told == f"gpumem: recorded {events} events, peak {peak} bytes allocated; in {log.name}"
    assert after == f"gpumem: next: gpumem peak {log.name}"
    assert any(line.startswith("gpumem sim: cuda:0") for line in account)
    assert "step 3: outputs" in done.out
    next_command = after.removeprefix("gpumem: next: gpumem ").split()
    assert "linear_loop.py:22" in run_gpumem(*next_command, cwd=tmp_path).check().out


def test_a_process_that_nobody_waited_for_has_ended(run_gpumem, records, tmp_path):
    (tmp_path / "allocates.py").write_text('import torch; kept = torch.zeros(1 << 20, device="cuda")')
    (tmp_path / "parent.sh").write_text(f"{PYTHON} allocates.py & echo $! > child; exec sleep 60")
    shell = """
        sh parent.sh > /dev/null 2>&1 &
        echo $! > sleeper
        until grep -qs '^State:.Z' /proc/$(cat child)/status; do sleep 0.1; done
    """
    try:
        done = run_gpumem("run", "--sim", "--", "sh", "-c", shell, env=records, cwd=tmp_path).check()
    finally:
        os.kill(int((tmp_path / "sleeper").read_text()), signal.SIGTERM)
    assert "still runs" not in done.err
    assert list(tmp_path.glob("gpumem-*.gpumem"))


@pytest.mark.parametrize("how", ["option", "variable"])
def test_no_record_records_nothing(run_gpumem, records, tmp_path, how):
    words = ["--no-record"] if how == "option" else []
    environment = records if how == "option" else {**records, "GPUMEM_NO_RECORD": "1"}
    program = "import ctypes, os; print(os.getppid())"
    done = run_gpumem("run", *words, "--", PYTHON, "-c", program, env=environment, cwd=tmp_path).check()
    assert int(done.out) == os.getpid()  # it is the program, and no process beside it
    assert done.err == "" and not list(tmp_path.iterdir())


def test_where_the_agent_is_missing_the_program_runs_and_a_line_says_so(run_gpumem, records, tmp_path):
    environment = {**records, "GPUMEM_AGENT_LIBRARY": str(tmp_path / "none.so")}
    done = run_gpumem("run", "--", PYTHON, "-c", "print(1)", env=environment, cwd=tmp_path).check()
    assert done.out == "1\n"
    (line,) = done.err.splitlines()
    assert line.startswith("gpumem: recording: ") and line.endswith(": the program runs unrecorded")


@pytest.mark.long
def test_each_rank_that_torchrun_starts_has_a_file_of_the_pattern(run_gpumem, records, tmp_path):
    program = tmp_path / "ranks.py"
    program.write_text(RANKS)
    command = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program]
    done = run_gpumem("run", "--sim=h100-80gbx2", "-o", "run.%r.%p", "--", *command, env=records, cwd=tmp_path).check()
    pids = dict(re.findall(r"rank (\d) (\d+)", done.out))
    assert {path.name for path in tmp_path.glob("run.*")} == {f"run.{rank}.{pid}" for rank, pid in pids.items()}
    for rank, pid in pids.items():
        (device,) = run_gpumem("info", tmp_path / f"run.{rank}.{pid}", "--json").check().json()["devices"]
        assert (device["device"], device["peak_allocated"]) == (int(rank), (3 + int(rank)) << 22)
    assert "and 1 more file, one for each process" in done.err


WORKERS = """import torch
net = torch.nn.Linear(8, 8).cuda()
data = torch.utils.data.TensorDataset(torch.randn(32, 8))
for epoch in range(2):
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=8, num_workers=2):
        net(batch.cuda())
"""


def test_workers_that_allocate_nothing_leave_no_file(run_gpumem, records, tmp_path):
    (tmp_path / "workers.py").write_text(WORKERS)
    done = run_gpumem("run", "--sim", "--", PYTHON, "workers.py", env=records, cwd=tmp_path).check()
    (log,) = tmp_path.glob("*.gpumem")
    assert f"in {log.name}\n" in done.err
    assert run_gpumem("info", log, "--json").check().json()["events"] > 0
