"""Recordings are packed while their program runs, also after an attach; no event is lost."""

import os
import random
import signal
import subprocess
import sys
import time

import packed
import pytest

MANY = """
import mmap, sys, torch
torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
print("begun", flush=True)
sys.stdin.readline()
with open(sys.argv[1], "r+b") as file:
    told = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")  # written in one piece; struct.pack_into() writes zeros first
for i in range(int(sys.argv[2])):
    kept = torch.empty(512 + i % 4000, dtype=torch.uint8, device="cuda")
    del kept
    told[0] = i + 1
print("done", flush=True)
sys.stdin.readline()
"""


class Program:
    """A program that allocates and frees in rounds, and writes the number of finished rounds into a mapped file."""

    def __init__(self, spawn, command, tmp_path, passes, **keys):
        self.told, program = tmp_path / "told", tmp_path / "many.py"
        self.told.write_bytes(bytes(8))
        program.write_text(MANY)
        line = [*command, program, self.told, str(passes)]
        self.process = spawn(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path, **keys)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "begun\n"

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def is_done(self):
        return self.process.stdout.readline() == "done\n"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def passes(self):
        return int.from_bytes(self.told.read_bytes(), sys.byteorder)


def is_log(path):
    return path.read_bytes()[:8] != b"\x89GPMAGT\n"


def allocations(run_gpumem, log):
    run_gpumem("export", log, "--to", "csv", "-o", f"{log}.csv").check()
    text = open(f"{log}.csv").read()
    return sum(1 for line in text.splitlines() if ",alloc," in line)


def check_packed(log):
    """Most of a running recording is packed, as small as zstd compresses the same bytes."""
    extents = list(packed.packed_extents(log))
    assert len(extents) >= 10
    for _, size, frame in extents:
        records = packed.unpacked(frame, size)
        assert len(frame) <= packed.zstd_size(records) + 64


def check_packed_log(log):
    chunks = list(packed.event_chunks(log))
    assert len(chunks) >= 10
    for is_packed, payload in chunks:
        assert is_packed or len(payload) < packed.WORTH_PACKING


def packers(pid):
    """The processes that pack the recording of an attached process."""
    found = []
    for one in os.listdir("/proc"):
        try:
            if one.isdigit() and open(f"/proc/{one}/comm").read() == "gpumem-packer\n":
                if str(pid) in open(f"/proc/{one}/cmdline").read().split("\0"):
                    found.append(int(one))
        except OSError:
            pass
    return found


def test_an_attached_process_is_packed_while_it_runs_and_leaves_a_log_when_killed(spawn, run_gpumem, python, sim_env, tmp_path, wait_for):
    log = tmp_path / "run.gpumem"
    program = Program(spawn, [python], tmp_path, 400000, env=sim_env())
    run_gpumem("attach", "--timeout", "600", program.pid, "-o", log).check()
    assert packers(program.pid)
    program.go_on()
    assert program.is_done()
    wait_for(lambda: packed.is_packed(log))
    assert not is_log(log)
    check_packed(log)
    running = run_gpumem("info", log, "--json").check().json()
    program.kill()
    wait_for(lambda: is_log(log))
    wait_for(lambda: not packers(program.pid))
    check_packed_log(log)
    ended = run_gpumem("info", log, "--json").check().json()
    assert ended["events"] >= running["events"] >= 800000
    assert allocations(run_gpumem, log) == 400000
    assert not list(tmp_path.glob("*.tmp"))


def test_a_packer_that_is_killed_leaves_the_recording_whole(spawn, run_gpumem, python, sim_env, tmp_path, wait_for):
    log = tmp_path / "run.gpumem"
    program = Program(spawn, [python], tmp_path, 10**9, env=sim_env())
    run_gpumem("attach", "--timeout", "600", program.pid, "-o", log).check()
    (packer,) = packers(program.pid)
    program.go_on()
    wait_for(lambda: program.passes() > 1000)
    time.sleep(random.random())  # at any moment
    os.kill(packer, signal.SIGKILL)
    time.sleep(random.random() / 4)
    program.kill()
    assert not is_log(log)
    assert allocations(run_gpumem, log) in (program.passes(), program.passes() + 1)


@pytest.mark.long
def test_detaching_leaves_a_log_and_no_pack_an_unpacked_recording(spawn, run_gpumem, python, sim_env, tmp_path, wait_for):
    log, other = tmp_path / "run.gpumem", tmp_path / "other.gpumem"
    program = Program(spawn, [python], tmp_path, 3000, env=sim_env())
    run_gpumem("attach", "--timeout", "600", program.pid, "-o", log).check()
    program.go_on()
    assert program.is_done()
    run_gpumem("detach", "--timeout", "600", program.pid).check()
    wait_for(lambda: is_log(log))
    wait_for(lambda: not packers(program.pid))
    assert allocations(run_gpumem, log) == 3000
    run_gpumem("attach", "--timeout", "600", program.pid, "-o", other, "--no-pack").check()
    assert not packers(program.pid)
    program.go_on()
    program.process.wait(600)
    assert not other.exists() or not is_log(other)


@pytest.mark.long
def test_run_packs_while_the_program_runs_and_questions_are_answered(spawn, run_gpumem, gpumem, python, tmp_path, wait_for):
    log = tmp_path / "run.gpumem"
    program = Program(spawn, [gpumem, "run", "--sim", "-o", log, "--", python], tmp_path, 200000)
    program.go_on()
    seen = 0
    while program.passes() < 200000:
        events = run_gpumem("info", log, "--json").check().json()["events"]
        assert events >= seen
        seen = events
        time.sleep(0.5)
    assert program.is_done()
    wait_for(lambda: packed.is_packed(log))
    check_packed(log)
    program.process.communicate("\n", timeout=600)
    assert program.process.returncode == 0 and is_log(log)
    check_packed_log(log)
    assert allocations(run_gpumem, log) == 200001


LOADS = """
import sys, torch
from torch.utils.data import DataLoader
kept = torch.zeros(1000, device="cuda")
print("begun", flush=True)
sys.stdin.readline()
for batch in DataLoader(list(range(8)), batch_size=4, num_workers=2):
    batch.cuda()
"""


def test_workers_that_allocate_nothing_leave_no_file(spawn, run_gpumem, python, sim_env, tmp_path, wait_for):
    program, log = tmp_path / "loads.py", tmp_path / "run.gpumem"
    program.write_text(LOADS)
    process = spawn([python, program], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    run_gpumem("attach", "--timeout", "600", process.pid, "-o", log).check()
    process.communicate("\n", timeout=600)
    wait_for(lambda: not packers(process.pid))
    assert [path.name for path in tmp_path.glob("run.*")] == ["run.gpumem"]
    assert run_gpumem("info", log, "--json").check().json()["events"] > 0
