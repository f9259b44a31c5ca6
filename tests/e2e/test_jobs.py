"""`gpumem run` of a job's ranks: the names of their files, the spool folder, and what is recorded of the job."""

import os
import re
import signal
import socket
import subprocess

import pytest

from conftest import BUILD, PYTHON, ROOT, the_program, wait_until

GPUMEM = BUILD / "bin" / "gpumem"
RANK = ROOT / "tests" / "e2e" / "programs" / "job_rank.py"
HOST = socket.gethostname().split(".")[0]
LAUNCHERS = ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD", "PMI", "SLURM", "GPUMEM_NO_RECORD")


@pytest.fixture
def environment():
    """Without the variables of a job that the tests themselves run in."""
    return {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


@pytest.fixture
def folders(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "spool").mkdir()
    return tmp_path / "out", tmp_path / "spool"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def peak(run_gpumem, recording):
    (device,) = run_gpumem("info", recording, "--json").check().json()["devices"]
    return device["peak_allocated"] >> 20


def test_the_rank_is_the_innermost_launchers(run_gpumem, environment, tmp_path):
    ranks = [
        ("SLURM_PROCID=7,PMI_RANK=7,RANK=3,WORLD_SIZE=8,TP_SIZE=2,SECRET=1", "3"),  # srun starts torchrun
        ("SLURM_PROCID=0,PMIX_RANK=4,OMPI_COMM_WORLD_RANK=4", "4"),  # a batch script calls mpirun
        ("SLURM_PROCID=0,PMI_RANK=5", "5"),  # MPICH's
        ("RANK=first,SLURM_PROCID=6", "6"),  # no number
        ("RANK=3", "3"),  # two ranks of one number
        ("", "0"),
    ]
    words = [RANK, 3, "ranks", *(variables for variables, _ in ranks)]
    done = run_gpumem("run", "--sim", "-o", "run.%r.%h.gpumem", "--", PYTHON, *words, env=environment, cwd=tmp_path)
    pids = [line.split()[1] for line in done.check().out.splitlines()]
    wanted = [f"run.{rank}.{HOST}.gpumem" for _, rank in ranks]
    wanted[4] += f".{pids[4]}"  # none overwrites another's
    assert names(tmp_path) == sorted(wanted)
    for i, name in enumerate(wanted):
        assert peak(run_gpumem, tmp_path / name) == 3 + i
    recorded = run_gpumem("info", tmp_path / wanted[0], "--json").check().json()["settings"]
    assert recorded == {
        "RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "7", "PMI_RANK": "7", "TP_SIZE": "2", "host": socket.gethostname(),
    }  # and nothing of other variables  # fmt: skip
    assert run_gpumem("info", tmp_path / wanted[5], "--json").check().json()["settings"] == {}
    assert "  recorded with RANK=3 WORLD_SIZE=8 " in run_gpumem("info", tmp_path / wanted[0]).check().out


def test_a_rank_of_a_job_replaces_no_recording_of_the_same_name(run_gpumem, environment, folders):
    out, spool = folders
    name = out / "run.gpumem"
    words = ["run", "--sim", "-o", name]
    run_gpumem(*words, "--", PYTHON, RANK, 1, env=environment).check()
    first = name.read_bytes()
    job = {**environment, "RANK": "1", "WORLD_SIZE": "2"}
    done = run_gpumem(*words, "--", PYTHON, RANK, 2, env=job).check()
    assert name.read_bytes() == first
    (second,) = set(names(out)) - {"run.gpumem"}
    assert re.fullmatch(r"run\.gpumem\.\d+", second) and second in done.err
    # nor does a spooled recording that is moved there; outside of a job, a recording does replace an older one
    run_gpumem(*words, "--spool", spool, "--", PYTHON, RANK, 3, env=job).check()
    assert name.read_bytes() == first
    assert sorted(peak(run_gpumem, out / each) for each in names(out)) == [1, 2, 3]
    run_gpumem(*words, "--spool", spool, "--", PYTHON, RANK, 4, env=environment).check()
    assert len(names(out)) == 3 and peak(run_gpumem, name) == 4 and not names(spool)


def start(spawn, environment, folders, *words):
    out, spool = folders
    command = [GPUMEM, "run", "--sim", "-o", out / "run.%r.gpumem", "--spool", spool, "--", PYTHON, RANK, *words]
    return spawn(command, env={**environment, "RANK": "2"}, stderr=subprocess.PIPE)


def test_a_spooled_recording_is_saved_at_the_oom_and_at_the_end(run_gpumem, spawn, environment, folders, tmp_path):
    out, spool = folders
    ready = tmp_path / "ready"
    job = start(spawn, environment, folders, 5, "oom", "wait", ready)
    wait_until(ready.exists)
    wait_until(lambda: names(out) == ["run.2.gpumem"])  # the program runs, and its recording exists
    so_far = run_gpumem("info", out / "run.2.gpumem", "--json").check().json()
    assert so_far["devices"][0]["ooms"] == 1 and "still runs" in so_far["gaps"][0]
    assert len(names(spool)) == 1 and names(spool)[0].startswith("gpumem-spool-run.2.gpumem")
    job.send_signal(signal.SIGTERM)  # Slurm's preemption; the program handles it
    error = job.communicate()[1]
    assert job.returncode == 3, error
    assert names(out) == ["run.2.gpumem"] and not names(spool)
    info = run_gpumem("info", out / "run.2.gpumem", "--json").check().json()
    assert info["complete"] and info["devices"][0]["peak_allocated"] == 5 << 20
    assert "run.2.gpumem" in error


def test_a_killed_runs_recording_stays_in_the_spool_and_is_collected(run_gpumem, spawn, environment, folders, tmp_path):
    out, spool = folders
    ready = tmp_path / "ready"
    job = start(spawn, environment, folders, 6, "wait", ready)
    wait_until(ready.exists)
    program = the_program(job.pid)
    collect = ["run", "--collect", "--spool", spool]
    assert "1 recording of processes that still run" in run_gpumem(*collect).check().err
    job.kill()
    os.kill(program, signal.SIGKILL)
    job.communicate()
    wait_until(lambda: not os.path.exists(f"/proc/{program}"))
    assert names(out) == [] and len(names(spool)) == 1
    assert peak(run_gpumem, spool / names(spool)[0]) == 6  # it can be read there
    next_run = run_gpumem("run", "--sim", "-o", out / "next.gpumem", "--spool", spool, "--", "true", env=environment)
    assert f"`gpumem run --collect --spool {spool}`" in next_run.check().err
    (out / "run.2.gpumem").write_bytes(b"another's")
    done = run_gpumem(*collect).check()
    assert f"{out}/run.2.gpumem.{program}: " in done.err and not names(spool)
    assert (out / "run.2.gpumem").read_bytes() == b"another's"
    assert peak(run_gpumem, out / f"run.2.gpumem.{program}") == 6
    assert "no recordings were left" in run_gpumem(*collect).check().err


def test_the_copy_that_was_saved_at_an_oom_is_replaced_by_the_collected_recording(run_gpumem, spawn, environment, folders, tmp_path):
    out, spool = folders
    ready = tmp_path / "ready"
    job = start(spawn, environment, folders, 5, "oom", "wait", ready)
    wait_until(ready.exists)
    wait_until(lambda: names(out) == ["run.2.gpumem"])
    program = the_program(job.pid)
    job.kill()
    os.kill(program, signal.SIGKILL)
    job.communicate()
    wait_until(lambda: not os.path.exists(f"/proc/{program}"))
    done = run_gpumem("run", "--collect", "--spool", spool).check()
    assert f"{out}/run.2.gpumem: " in done.err
    assert names(out) == ["run.2.gpumem"] and not names(spool)
    gaps = run_gpumem("info", out / "run.2.gpumem", "--json").check().json()["gaps"]
    assert not any("still runs" in gap for gap in gaps), gaps


def test_a_pipe_of_the_files_name_is_refused_and_not_waited_for(run_gpumem, environment, folders):
    out, spool = folders
    os.mkfifo(out / "run.1.gpumem")
    words = ["-o", out / "run.%r.gpumem", "--spool", spool, "--", PYTHON, RANK, 3]
    done = run_gpumem("run", "--sim", *words, env={**environment, "RANK": "1"}, timeout=120).check()
    assert "run.1.gpumem: not a regular file" in done.err and len(names(spool)) == 1
    (out / "run.1.gpumem").unlink()
    run_gpumem("run", "--collect", "--spool", spool).check()
    assert peak(run_gpumem, out / "run.1.gpumem") == 3


def test_recordings_of_other_users_are_counted_and_not_collected(run_gpumem, environment, folders):
    out, spool = folders
    if os.geteuid() != 0:
        pytest.skip("only root can make a file another user's")
    other = spool / "gpumem-spool-run.gpumem"
    other.write_bytes(b"")
    os.chown(other, 65534, 65534)
    done = run_gpumem("run", "--collect", "--spool", spool).check()
    assert "1 recording of other users" in done.err and other.exists()


def test_a_recording_that_cannot_be_saved_stays_in_the_spool_and_a_line_names_it(run_gpumem, environment, folders):
    out, spool = folders
    (out / "sub").mkdir()
    name = out / "sub" / "run.gpumem"
    # the folder is gone at the end, as after an unmount
    program = f"import os, torch; kept = torch.empty(1 << 20, device='cuda'); os.rmdir({str(name.parent)!r})"
    done = run_gpumem("run", "--sim", "-o", name, "--spool", spool, "--", PYTHON, "-c", program, env=environment).check()
    assert f"the recording stays in {spool}/gpumem-spool-run.gpumem" in done.err
    name.parent.mkdir()
    assert f"`gpumem run --collect --spool {spool}`" in done.err
    run_gpumem("run", "--collect", "--spool", spool).check()
    assert peak(run_gpumem, name) == 4 and not names(spool)


@pytest.mark.parametrize(
    "words, why",
    [
        (["--spool", "/tmp"], "needs -o"),
        (["-o", "x", "--spool", "here"], "not the full path"),
        (["-o", "x", "--spool", "/nowhere"], "No such file"),
        (["--collect"], "needs --spool"),
    ],
)
def test_a_wrong_spool_is_refused(run_gpumem, tmp_path, words, why):
    done = run_gpumem("run", *words, "--", "true", cwd=tmp_path)
    assert done.status == 2 and why in done.err and not list(tmp_path.iterdir())
