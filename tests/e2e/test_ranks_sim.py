"""`gpumem-ranks sim`: what it says of a job is what its ranks, run one by one, give."""

import json
import os
import re
import signal
import subprocess

import pytest

from conftest import BUILD, EXAMPLES, PYTHON, ROOT
from mpi import start_of

PROGRAMS = ROOT / "tests" / "e2e" / "programs"
MIB = 1 << 20
# gpumem-ranks of the tests is not where it is installed: it looks for gpumem in PATH
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "GPUMEM_NO_RECORD"}
ENVIRONMENT |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ENVIRONMENT["PATH"] = f"{BUILD / 'bin'}:{ENVIRONMENT['PATH']}"


@pytest.fixture
def sim(run, tmp_path):
    def call(mpi, processes, *words, **keys):
        return run([*start_of(mpi, processes), "sim", *words], env=ENVIRONMENT, cwd=tmp_path, **keys)

    return call


def ranks_of(spans):
    return {rank for span in spans for rank in range(span["first"], span["last"] + 1, span["step"])}


def groups_of(answer):
    return [(ranks_of(group["ranks"]), group["outcome"], group["status"]) for group in answer["groups"]]


# Stages of 16 ranks, and of each group of four the last one, which is told by its exit status: it needs no PyTorch.
STAGES = ("sh", "-c", "echo $RANK >> started; exit $((RANK / 16))")
LAST_OF_4 = ("sh", "-c", "exit $((RANK % 4 == 3))")


@pytest.mark.parametrize("mpi, processes", [("openmpi", 3), ("mpich", 2), ("one", 1)])
def test_groups_of_ranks_are_found_by_a_quarter_of_them(sim, tmp_path, mpi, processes):
    answer = sim(mpi, processes, "--world", 64, "--json", "--", *STAGES).check(int(processes == 1)).json()
    wanted = [(set(range(16 * i, 16 * i + 16)), "failed" if i else "ran", i) for i in range(4)]
    assert groups_of(answer) == wanted
    assert (answer["run"], answer["inferred"], answer["not_known"]) == (16, 48, 0)
    assert answer["checked"] == 4 and answer["processes"] == processes
    started = (tmp_path / "started").read_text().split()
    assert len(started) == len(set(started)) == 16
    # the same command finds all of it done
    again = sim("one", 1, "--world", 64, "--json", "--", *STAGES).check(1).json()
    assert groups_of(again) == wanted and (again["run"], again["run_earlier"]) == (16, 16)
    assert len((tmp_path / "started").read_text().split()) == 16


def test_ranks_within_groups_are_found(sim):
    answer = sim("one", 1, "--world", 64, "--json", "--", *LAST_OF_4).check(1).json()
    assert groups_of(answer) == [
        (set(range(64)) - set(range(3, 64, 4)), "ran", 0),
        (set(range(3, 64, 4)), "failed", 1),
    ]
    text = sim("one", 1, "--world", 64, "--", *LAST_OF_4).check(1).out
    assert re.search(r"^ +16 +\d+ +0 B +0 B +3-63 by 4 +exit status 1$", text, re.M)


def test_only_so_many_ranks_are_run_and_of_the_others_nothing_is_said(sim):
    answer = sim("one", 1, "--world", 64, "--sample", 7, "--json", "--", *STAGES).check(1).json()
    assert (answer["run"], answer["fit"]) == (7, "not_known")
    known = set().union(*(ranks for ranks, _, _ in groups_of(answer)))
    assert len(known) == answer["run"] + answer["inferred"] == 64 - answer["not_known"] < 64
    assert ranks_of(answer["not_known_ranks"]) == set(range(64)) - known
    for ranks, _, status in groups_of(answer):
        assert {rank // 16 for rank in ranks} == {status}
    every = sim("one", 1, "--world", 64, "--all", "--json", "--", *STAGES).check(1).json()
    assert (every["run"], every["run_earlier"], every["inferred"]) == (64, 7, 0)


def test_a_folder_of_another_job_is_refused_and_damaged_results_are_run_again(sim, tmp_path):
    sim("one", 1, "--world", 8, "-o", "job", "--", "true").check(1)
    done = sim("one", 1, "--world", 8, "-o", "job", "--", "false")
    assert done.status == 2 and "its `program` is not the same" in done.err
    (tmp_path / "job" / "rank.0.json").write_text('{"rank": 0, "outcome": "flew"}')
    (tmp_path / "job" / "rank.1.json").write_text("{")
    (tmp_path / "job" / "rank.7.json").write_bytes(b"\xff" * 100)
    answer = sim("one", 1, "--world", 8, "-o", "job", "--json", "--", "true").check(1).json()
    assert answer["run"] - answer["run_earlier"] == 3 and answer["not_known"] == 0
    (tmp_path / "job" / "job.json").write_text("{]")
    done = sim("one", 1, "--world", 8, "-o", "job", "--", "true")
    assert done.status == 3 and "job.json: offset" in done.err


def test_files_that_are_not_its_own_are_never_removed(sim, tmp_path):
    folder = tmp_path / "real"
    folder.mkdir()
    names = [folder / f"rank.{rank}.gpumem" for rank in range(2)]
    for name in names:
        name.write_text("the user's")
    done = sim("one", 1, "--world", 2, "-o", "real", "--", "true")
    assert done.status == 2 and "no job.json" in done.err and "name another folder" in done.err
    assert sorted(folder.iterdir()) == names and {name.read_text() for name in names} == {"the user's"}
    # nor one that came there later, or has a like name
    sim("one", 1, "--world", 2, "-o", "job", "--sample", 1, "--", "true")
    late, other = tmp_path / "job" / "rank.1.gpumem", tmp_path / "job" / "rank.0.gpumem.old"
    for name in (late, other):
        name.write_text("the user's")
    (tmp_path / "job" / "rank.0.json").unlink()
    done = sim("one", 1, "--world", 2, "-o", "job", "--", "true")
    assert done.status == 2 and "rank.1.gpumem: this command did not write it" in done.err
    assert late.read_text() == other.read_text() == "the user's"


def test_another_environment_is_refused_and_named(run, tmp_path):
    def call(**variables):
        words = [*start_of("one", 1), "sim", "--world", 2, "--json", "--", "sh", "-c", "exit $CODE"]
        return run(words, env=ENVIRONMENT | variables, cwd=tmp_path)

    assert call(CODE="3", TOKEN="hunter2").check(1).json()["run"] == 2
    assert call(CODE="3", TOKEN="hunter2", TERM="vt52", SLURM_JOB_ID="7").check(1).json()["run_earlier"] == 2
    done = call(CODE="4", NEW="1")
    assert done.status == 2 and "the environment differs from that of the ranks there" in done.err
    assert all(name in done.err for name in ("CODE", "TOKEN", "NEW")) and "PATH" not in done.err
    kept = (tmp_path / "gpumem-ranks-sim" / "job.json").read_text()
    assert "TOKEN" in kept and "hunter2" not in kept and "TERM" not in json.loads(kept)["environment"]


def test_two_commands_in_one_folder_at_once_are_not_allowed(sim, spawn, wait_for, tmp_path):
    program = ("sh", "-c", "touch began; while ! test -e go; do sleep 0.05; done")
    words = [*start_of("one", 1), "sim", "--world", "2", "--", *program]
    first = spawn(words, env=ENVIRONMENT, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_for(lambda: (tmp_path / "began").exists())
    second = sim("one", 1, "--world", 2, "--", *program)
    (tmp_path / "go").touch()
    assert second.status == 2 and "another `gpumem-ranks sim` is at work there" in second.err
    assert "2 run" in first.communicate()[0]
    assert "2 of them by earlier" in sim("one", 1, "--world", 2, "--", *program).out


def test_a_killed_rank_is_not_counted_and_the_same_command_goes_on(sim, tmp_path):
    program = ("sh", "-c", "test $RANK != 4 || test -e fixed || kill -9 $PPID $$; exit 0")
    done = sim("one", 1, "--world", 8, "--json", "--", *program)
    assert done.status == 4 and "rank 4 was killed by signal 9" in done.err
    assert not (tmp_path / "gpumem-ranks-sim" / "rank.4.json").exists()
    (tmp_path / "fixed").touch()
    answer = sim("one", 1, "--world", 8, "--json", "--", *program).check(1).json()
    assert answer["run_earlier"] > 0 and answer["not_known"] == 0 and len(answer["groups"]) == 1


def test_without_gpumem_no_rank_counts_as_failed(run, tmp_path):
    (tmp_path / "gpumem-ranks").symlink_to(start_of("one", 1)[0])
    environment = {**ENVIRONMENT, "PATH": "/usr/bin:/bin"}
    done = run([tmp_path / "gpumem-ranks", "sim", "--world", "4", "-o", "job", "--", "true"], env=environment, cwd=tmp_path)
    assert done.status == 5 and "gpumem, next to this program or in PATH, cannot be started" in done.err
    assert not list((tmp_path / "job").glob("rank.*.json"))


def test_a_rank_that_takes_too_long_is_ended(sim, tmp_path):
    program = ("sh", "-c", "test $RANK = 0 || exit 0; test -e fixed && exit 0; echo $$ > waits; echo waiting; sleep 1000")
    answer = sim("one", 1, "--world", 2, "--timeout", 1, "--json", "--", *program).check(1).json()
    assert groups_of(answer) == [({0}, "timed_out", 0), ({1}, "ran", 0)]
    assert "timed out (--timeout): waiting" in sim("one", 1, "--world", 2, "--timeout", 1, "--", *program).out
    assert answer["groups"][0]["line"] == "waiting" and answer["fit"] == "not_known"
    assert not os.path.exists(f"/proc/{(tmp_path / 'waits').read_text().strip()}")
    # with no more time it would be the same
    (tmp_path / "fixed").touch()
    answer = sim("one", 1, "--world", 2, "--timeout", 1, "--json", "--", *program).json()
    assert answer["run_earlier"] == 2
    answer = sim("one", 1, "--world", 2, "--timeout", 600, "--json", "--", *program).json()
    assert groups_of(answer) == [({0, 1}, "ran", 0)] and answer["run_earlier"] == 1


def test_failed_ranks_are_run_again_if_asked_for(sim, tmp_path):
    program = ("sh", "-c", "test $RANK = 0 || test -e fixed")
    failed = [({0}, "ran", 0), ({1}, "failed", 1)]
    assert groups_of(sim("one", 1, "--world", 2, "--json", "--", *program).json()) == failed
    (tmp_path / "fixed").touch()
    assert groups_of(sim("one", 1, "--world", 2, "--json", "--", *program).json()) == failed
    answer = sim("one", 1, "--world", 2, "--again", "--json", "--", *program).json()
    assert groups_of(answer) == [({0, 1}, "ran", 0)] and answer["run_earlier"] == 1


@pytest.mark.parametrize(
    "program, why",
    [
        (["no-such-program"], "no-such-program: no such program"),
        (["sh", "-c", "no-such-command"], "exit status 127: sh: 1: no-such-command: not found"),
        (["/etc/passwd"], "Permission denied"),
    ],
)
def test_a_program_that_cannot_be_started_is_no_result(sim, tmp_path, program, why):
    done = sim("one", 1, "--world", 4, "-o", "job", "--", *program)
    assert done.status == 4 and "rank 0 could not be started" in done.err and why in done.err
    assert not list((tmp_path / "job").glob("rank.*.json"))


@pytest.mark.parametrize("mpi, processes", [("one", 1), ("openmpi", 2), ("mpich", 2)])
def test_an_interrupt_ends_the_ranks_too(spawn, wait_for, tmp_path, mpi, processes):
    program = ("sh", "-c", "echo $$ >> pids; sleep 1000")
    words = [*start_of(mpi, processes), "sim", "--world", "8", "--", *program]
    job = spawn(words, env=ENVIRONMENT, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    pids = tmp_path / "pids"
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == processes)
    job.send_signal(signal.SIGINT)
    error = job.communicate()[1]
    assert job.returncode != 0
    assert mpi != "one" or "stopped: 0 ranks are finished" in error
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids.read_text().split()))


@pytest.mark.parametrize(
    "words, why",
    [
        (["--", "true"], "--world W is missing"),
        (["--world", "64"], "comes after `--`"),
        (["--world", "1", "--", "true"], "1"),
        (["--world", "64", "--all", "--sample", "3", "--", "true"], "exclude each other"),
        (["--world", "64", "-o", "/nowhere/x", "--", "true"], "No such file"),
        (["--world", "64", "--sim=nosuch", "--", "true"], "no such profile"),
    ],
)
def test_wrong_words_are_refused(sim, tmp_path, words, why):
    done = sim("one", 1, *words)
    assert done.status == 2 and why in done.err and not list(tmp_path.iterdir())


def one_by_one(run_gpumem, folder, world, program):
    """{rank: (peak allocated, peak reserved, did it run out of memory)}, each by `gpumem run`."""
    found = {}
    for rank in range(world):
        recording = folder / f"alone.{rank}.gpumem"
        words = ("run", "--sim", "--rank", rank, "--world", world, "-o", recording, "--", PYTHON, *program)
        run_gpumem(*words, env=ENVIRONMENT)
        devices = run_gpumem("info", recording, "--json").check().json()["devices"]
        (device,) = (device for device in devices if device["device_type"] == "cuda")
        found[rank] = (device["peak_allocated"], device["peak_reserved"], device["ooms"] > 0)
    return found


def as_answered(answer):
    return {
        rank: (group["peak_allocated"], group["peak_reserved"], group["outcome"] == "out_of_memory")
        for group in answer["groups"]
        for rank in ranks_of(group["ranks"])
    }


def test_the_highest_rank_is_named_and_whether_it_fits(sim, tmp_path):
    program = (PROGRAMS / "job_sizes.py",)
    answer = sim("openmpi", 2, "--world", 4, "--sim=24GiB", "--json", "--", PYTHON, *program).check(0).json()
    peaks = {0: 16, 1: 16, 2: 17, 3: 17}
    assert as_answered(answer) == {rank: (peak * MIB, 20 * MIB, rank == 3) for rank, peak in peaks.items()}
    assert answer["fit"] == "does_not_fit" and answer["device_total"] == 24 << 30
    highest = answer["groups"][0]
    assert (highest["peak_allocated"], ranks_of(highest["ranks"])) == (17 * MIB, {2})
    out_of_memory = next(group for group in answer["groups"] if group["outcome"] == "out_of_memory")
    assert (ranks_of(out_of_memory["ranks"]), out_of_memory["requested"]) == ({3}, 1 << 40)
    folder = tmp_path / "gpumem-ranks-sim"
    assert "MPI's variables: []" in (folder / "rank.0.out").read_text()
    text = sim("one", 1, "--world", 4, "--sim=24GiB", "--", PYTHON, *program).check(1).out
    assert "the highest peak: 17.00 MiB allocated (17,825,792 bytes), 20.00 MiB reserved, on rank" in text
    assert "it does not fit: rank 3 ran out of the device's 24.00 GiB" in text
    assert "out of memory: asked for 1.00 TiB" in text
    assert "next: gpumem oom gpumem-ranks-sim/rank.3.gpumem" in text


def test_no_more_is_claimed_than_was_run(sim):
    # ranks 5 and 6 are other ones, which nobody looks at
    program = "import os, torch; torch.empty((2 if os.environ['RANK'] in '56' else 1) << 20, device='cuda')"
    words = ("--world", 8, "--check", 0, "--", PYTHON, "-c", program)
    text = sim("one", 1, *words).check(0).out
    assert "the highest peak of the 5 ranks that were run: 4.00 MiB allocated" in text
    assert "on ranks 0-7 (3 of them inferred)\n" in text
    assert "it fits, as far as was run: of 8 ranks 5 were run, and none ran out" in text
    text = sim("one", 1, *words[:2], "--all", *words[4:]).check(0).out
    assert "the highest peak: 8.00 MiB allocated (8,388,608 bytes)" in text and "on ranks 5-6\n" in text
    assert "it fits: no rank ran out of the device's" in text


def test_without_memory_of_a_device_there_is_no_answer(sim):
    done = sim("one", 1, "--world", 2, "--", "true").check(1)
    assert "nothing was allocated on a device: no answer\n" in done.out and "fits" not in done.out
    answer = sim("one", 1, "--world", 2, "--json", "--", "true").check(1).json()
    assert (answer["fit"], answer["device_used"], answer["every_rank_run"]) == ("not_known", False, True)


@pytest.mark.long
@pytest.mark.parametrize("program", [EXAMPLES / "fsdp2.py", PROGRAMS / "job_pipeline.py"], ids=lambda path: path.stem)
def test_64_ranks_are_as_all_of_them_one_by_one(sim, run_gpumem, tmp_path, program):
    answer = sim("openmpi", 2, "--world", 64, "--json", "--", PYTHON, program, timeout=7200).check(0).json()
    assert answer["run"] <= 16 and answer["fit"] == "fits" and answer["checked"] == 4
    alone = one_by_one(run_gpumem, tmp_path, 64, (program,))
    assert as_answered(answer) == alone
    highest = max(alone.values())
    assert ranks_of(answer["groups"][0]["ranks"]) == {rank for rank, peaks in alone.items() if peaks == highest}
