"""A process that is recorded again: each recording has all of what the program did in its time, as if it were the first."""

import json
import os
import subprocess

import pytest

from conftest import PYTHON, events_of, info_of, the_program
from packed import interned_ids


class Rounds:
    """A program that does one round for each line that it is sent, and tells what it did."""

    def __init__(self, spawn, run_gpumem, folder, command, is_run, **keys):
        self.run_gpumem, self.folder, self.recordings = run_gpumem, folder, 0
        self.process = spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **keys)
        assert self.process.stdout.readline() == "begun\n"
        self.pid = the_program(self.process.pid) if is_run else self.process.pid

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def attach(self):
        self.recordings += 1
        file = self.folder / f"{self.recordings}.gpumem"
        self.run_gpumem("attach", "--timeout", "600", self.pid, "-o", file).check()
        return file

    def detach(self):
        self.run_gpumem("detach", "--timeout", "600", self.pid).check()

    def recorded(self, rounds, look=None):
        """As many rounds in each of three recordings, with one round between them: (file, what each round told).
        `look` is given each file that was attached with, before its recording ends: it is the agent's until then."""
        shown = []
        for number in range(3):
            own = number == 0 and self.pid != self.process.pid
            file = self.folder / "0.gpumem" if own else self.attach()
            shown.append((file, [self.round() for _ in range(rounds)]))
            if look and not own:
                look(file)
            self.detach()
            self.round()
        out, _ = self.process.communicate(timeout=600)
        assert self.process.returncode == 0, out
        return shown


def command_of(way, gpumem, folder, program, sim=True):
    """How the agent comes into the program: (words of its start, whether `gpumem run` starts it)."""
    if way == "attach":
        return program, False
    lose = ["/bin/sh", "-c", 'export LD_PRELOAD=${LD_PRELOAD#*:}; exec "$@"', "sh"] if way == "injected" else []
    return [gpumem, "run", *(["--sim"] if sim else []), "-o", folder / "0.gpumem", "--", *lose, *program], True


WAYS = pytest.mark.parametrize("way", ["preloaded", "injected", "attach"])


@pytest.fixture(scope="module")
def rounds(tmp_path_factory, root, build_dir):
    program = tmp_path_factory.mktemp("rounds") / "rounds"
    source, simulated = root / "tests/e2e/programs/rounds.c", build_dir / "lib/libgpumem-sim.so"
    subprocess.run(["cc", "-std=gnu17", "-O1", "-o", program, source, simulated, f"-Wl,-rpath,{build_dir}/lib"], check=True)
    return program


@WAYS
def test_memory_of_every_kind_is_in_each_recording(spawn, run_gpumem, gpumem, rounds, sim_env, tmp_path, way):
    command, is_run = command_of(way, gpumem, tmp_path, [rounds])
    keys = {"env": {**os.environ, "GPUMEM_SIM_QUIET": "1"} if is_run else sim_env()}
    for file, told in Rounds(spawn, run_gpumem, tmp_path, command, is_run, **keys).recorded(2):
        words = " ".join(told).split()
        ours = [f"{e['action']} {e['device_type']} {e['size']}" for e in events_of(run_gpumem, file) if e["action"] != "free_requested"]
        assert ours == [" ".join(words[at : at + 3]) for at in range(0, len(words), 3)], file
        assert len(ours) == 2 * 2 * 9 and info_of(run_gpumem, file)["gaps"] == []


# Each round: locals of 200 functions that are released as these return; pinned memory; a segment that grows; a stack too deep
# to be recorded whole.
TORCH_ROUNDS = """
import json, sys
import torch
torch.cuda.memory._set_allocator_settings("expandable_segments:True")
MIB = 1 << 20

def release(number):
    space = {"torch": torch}
    exec(f"def f{number}():\\n    held_{number} = torch.empty(1000, device='cuda')\\n    return 1", space)
    space[f"f{number}"]()

def deep(left):
    return torch.empty(7 * MIB, dtype=torch.uint8, device="cuda") if left == 0 else deep(left - 1)

sys.setrecursionlimit(10000)
kept = [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (30, 90, 30)]
del kept[1]
torch.cuda.empty_cache()  # a hole in the segment
print("begun", flush=True)
number = 0
while sys.stdin.readline():
    number += 1
    for each in range(200):
        release(each)
    kept.append(torch.empty((30 + 6 * number) * MIB, dtype=torch.uint8, device="cuda"))
    pinned = torch.empty((64 << number) * MIB // 64, dtype=torch.uint8, pin_memory=True)
    deep(5000)
    print(json.dumps({
        "allocated": torch.cuda.memory_allocated(), "pinned": pinned.nbytes,
        "segments": sorted([one["address"], one["total_size"]] for one in torch.cuda.memory_snapshot()),
    }), flush=True)
"""
EVIDENCE = 20  # GM_AGENT_EVIDENCE of core/agent/format.h


def evidence_is_numbered_from_one(file):
    ids = interned_ids(file, EVIDENCE)
    assert len(ids) >= 200 and sorted(ids) == list(range(1, len(ids) + 1)), file


@WAYS
def test_each_recording_of_pytorch_is_like_the_first(spawn, run_gpumem, gpumem, sim_env, tmp_path, way):
    program = tmp_path / "program.py"
    program.write_text(TORCH_ROUNDS)
    command, is_run = command_of(way, gpumem, tmp_path, [PYTHON, "-W", "ignore", program])
    keys = {"env": {**os.environ, "GPUMEM_SIM_QUIET": "1"} if is_run else sim_env()}
    gaps, total = [], None
    for file, (told,) in Rounds(spawn, run_gpumem, tmp_path, command, is_run, **keys).recorded(1, evidence_is_numbered_from_one):
        told, info = json.loads(told), info_of(run_gpumem, file)
        assert [one["allocated"] for one in info["devices"] if one["device_type"] == "cuda"] == [told["allocated"]], file
        pinned = [e["size"] for e in events_of(run_gpumem, file) if e["device_type"] == "pinned" and e["action"] == "alloc"]
        assert pinned == [told["pinned"]], file
        segments = run_gpumem("segments", file, "--json").check().json()
        total = total or segments["device_total"]
        assert [[int(one["address"], 16), one["size"]] for one in segments["segments"]] == told["segments"], file
        assert segments["device_total"] == total, file
        gaps.append(sorted(info["gaps"]))
    assert len(gaps[0]) == 1 and "too deep" in gaps[0][0] and gaps[0] == gaps[1] == gaps[2]
