"""A process that is recorded again: each recording has all of what the program did in its time, as if it were the first."""

import os
import subprocess

import pytest

from conftest import events_of, info_of, the_program


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
