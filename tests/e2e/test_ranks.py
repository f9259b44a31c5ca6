"""gpumem-ranks: what many processes say of the recordings of a job is what one process says of all of them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import BUILD, PYTHON
from mpi import start_of

RANKS, ODD, LEAKS, OOM, CUT, MISSING, STAGES = 301, 136, 55, 77, 200, 42, 3
MIB = 1 << 20
RECORDINGS = BUILD / "tests" / "rank_recordings"


@pytest.fixture(scope="session")
def run_ranks(run):
    def call(mpi, processes, *arguments, **keys):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        # MPI's own memory is never freed.
        environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        return run([*start_of(mpi, processes), *arguments], env=environment, **keys)

    return call


@pytest.fixture(scope="module")
def job(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    planted = ["--odd", ODD, "--leak", LEAKS, "--oom", OOM, "--stages", STAGES]
    run([RECORDINGS, folder, str(RANKS), "5000", os.environ.get("GPUMEM_TEST_SEED", "1"), *map(str, planted)]).check()
    (folder / f"run.{MISSING}.gpumem").unlink()
    whole = folder / f"run.{CUT}.gpumem"
    os.truncate(whole, whole.stat().st_size * 9 // 10)
    return folder


def files_of(folder):
    return sorted(folder.glob("run.*.gpumem"), key=lambda path: int(path.name.split(".")[1]))


@pytest.fixture(scope="module")
def plain(job, run_gpumem):
    return run_gpumem("diff", *files_of(job), "--json").check(1).json()


EVERY_MPI = [(mpi, processes) for mpi in ("openmpi", "mpich") for processes in (1, 2, 5)] + [("one", 1)]


def without(answer, *names):
    return {name: value for name, value in answer.items() if name not in names}


@pytest.mark.parametrize("mpi, processes", EVERY_MPI)
def test_processes_together_say_what_one_says_of_all_files(mpi, processes, run_ranks, job, plain):
    done = run_ranks(mpi, processes, "peak", job / "run.*.gpumem", "--no-keep", "--json").check()
    answer = json.loads(done.out)
    assert without(answer, "job", "groups", "stand_out") == plain
    told = answer["job"]
    assert (told["processes"], told["machines"], told["read"]) == (processes, 1, RANKS - 1)
    assert (told["missing"], told["missing_count"], told["complete"]) == ([MISSING], 1, False)
    cut = [file for file in told["recordings"] if file["truncated_at"]]
    assert [file["rank"] for file in cut] == [CUT] and not cut[0]["complete"]
    assert told["moved_bytes"] <= RANKS * MIB and (told["moved_bytes"] > 0) == (processes > 1)


def test_the_odd_rank_is_named_with_its_line_and_bytes(run_ranks, job):
    answer = json.loads(run_ranks("openmpi", 2, "peak", job / "run.*.gpumem", "--no-keep", "--json").check().out)
    odd = {one["rank"]: one for one in answer["stand_out"]}
    assert set(odd) == {ODD, LEAKS}
    assert odd[ODD]["line"] == "/job/train.py:77 in keep_for_debugging" and odd[ODD]["alone"]
    assert (odd[ODD]["line_bytes"], odd[ODD]["line_median"]) == (64 * MIB, 0)
    assert odd[LEAKS]["line"] == "/job/train.py:88 in log_metrics" and not odd[LEAKS]["alone"]
    text = run_ranks("openmpi", 2, "info", job / "run.*.gpumem", "--no-keep").check().out
    assert re.search(rf"rank {ODD} stands out: 6\d\.\d\d MiB more than the median .* 64\.00 MiB of it from /job/train.py:77 in", text)
    assert f"no file of rank {MISSING} (1 of {RANKS}, by the names of the files)" in text


def test_ranks_of_a_stage_are_alike(run_ranks, job):
    answer = json.loads(run_ranks("mpich", 2, "info", job / "run.*.gpumem", "--no-keep", "--json").check().out)
    groups = [group["ranks"] for group in answer["groups"]]
    everywhere = set(range(RANKS)) - {MISSING, ODD}
    assert groups == [[rank for rank in sorted(everywhere) if rank % STAGES == stage] for stage in range(STAGES)]


def test_recorded_variables_give_ranks_names_and_settings(run, run_ranks, tmp_path):
    run([RECORDINGS, tmp_path, "12", "1000", "1", "--stages", "3", "--set", "7", "--world", "14"]).check()
    for number, path in enumerate(files_of(tmp_path)):
        path.rename(tmp_path / f"{'abcdefghijkl'[11 - number]}.gpumem")  # names that say nothing
    answer = json.loads(run_ranks("mpich", 2, "info", tmp_path / "*.gpumem", "--json").check().out)
    told = answer["job"]
    assert (told["ranks_known"], told["world"], told["missing"]) == ("recorded", 14, [12, 13])
    assert [(group["ranks"], group["shared"]) for group in answer["groups"]] == [
        ([stage, stage + 3, stage + 6, stage + 9], {"pp": stage}) for stage in range(3)
    ]
    settings = {file["rank"]: file["allocator_settings"] for file in told["recordings"] if file["allocator_settings"]}
    assert settings == {7: "expandable_segments:True"}
    text = run_ranks("openmpi", 2, "info", tmp_path / "*.gpumem").check().out
    assert "4 ranks are alike, pp 1: 1-10 (each 3rd)" in text
    assert "11 ranks with none, 1 rank with expandable_segments:True (7)." in text
    assert "no file of ranks 12-13 (2 of 14, as the recordings count them)" in text


# Every day a few files of each kind; under --all every file.
def compared(job, every):
    return [path for path in files_of(job) if every or int(path.name.split(".")[1]) in (0, 1, 2, ODD, LEAKS, OOM, CUT, RANKS - 1)]


def site_of(leak):
    return f"{leak['file']}:{leak['line']} in {leak['function']}"


def steps_of(answer, whole):
    parts = {name: answer[name] for name in ("steps", "outside", "growth_per_step")}
    return {**parts, **{name: [without(step, "optimizer_step") for step in parts[name]] for name in ("steps", "outside")}}


def phases_of(answer, whole):
    return sorted(answer["phases"], key=lambda phase: phase["first_event"])


def leaks_of(answer, whole):
    names = ("steps", "bytes", "blocks", "category", "growth", "iterations")
    sites = [{"site": site_of(leak) if whole else leak["site"], **{name: leak[name] for name in names}} for leak in answer["sites"]]
    return {"steps": answer["steps"], "sites": sites}


def oom_of(answer, whole):
    if "verdict" not in answer:
        return None  # there was none
    return {name: answer[name] for name in ("requested", "needed", "allocated", "reserved", "verdict", "event", "ooms", "top")}


def timeline_of(answer, whole):
    names = ("kind", "step", "first_event", "last_event", "bytes", "blocks", "count", "of", "note")
    return [{name: shape[name] for name in names} for shape in answer["shapes"]]


def zero_of(answer, whole):
    return answer["calls"]


QUESTIONS = {"steps": steps_of, "phases": phases_of, "leaks": leaks_of, "oom": oom_of, "timeline": timeline_of, "zero": zero_of}


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("question", QUESTIONS)
def test_of_each_file_it_says_what_the_question_says_of_it(question, every, run_ranks, run_gpumem, job):
    mpi, processes = ("openmpi", 5) if question in ("steps", "leaks", "timeline") else ("mpich", 2)
    done = run_ranks(mpi, processes, question, job / "run.*.gpumem", "--no-keep", "--json").check()
    answer, part = json.loads(done.out), QUESTIONS[question]
    told = {file["file"]: part(file, False) for file in answer["files"]}
    assert len(told) == RANKS - 1
    for path in compared(job, every):
        plain = run_gpumem(question, path, "--json")
        assert told[str(path)] == (part(plain.json(), True) if plain.out else None), path
    for row in answer["rows"]:
        assert row["least"] <= row["median"] <= row["most"] and row["files"] <= RANKS - 1


def test_what_only_one_rank_has_is_found_in_it(run_ranks, job):
    def ask(question, status=0):
        return json.loads(run_ranks("one", 1, question, job / "run.*.gpumem", "--no-keep", "--json").check(status).out)

    (leak,) = [row for row in ask("leaks", 1)["rows"] if row["figure"] == "bytes"]
    assert (leak["site"], leak["files"], leak["most_in"]) == ("/job/train.py:88 in log_metrics", 1, LEAKS)
    assert [file["rank"] for file in ask("oom")["files"] if file["ran_out"]] == [OOM]
    assert [file["rank"] for file in ask("steps")["files"] if file["growth_per_step"]] == [LEAKS]


def test_the_peak_is_that_of_the_device_that_a_rank_works_on(run, run_ranks, run_gpumem, tmp_path):
    run([RECORDINGS, tmp_path, "4", "1500", "1", "--devices", "1"]).check()
    answer = ask(run_ranks, tmp_path, "info")
    assert [file["device"] for file in answer["files"]] == [0, 1, 2, 3]
    assert all(file["allocated"] > 100 * MIB for file in answer["files"])
    assert [file["elsewhere"] for file in answer["files"]] == [None] + 3 * [{"device": 0, "peak_allocated": 10 * MIB, "devices": 1}]
    text = run_ranks("one", 1, "info", tmp_path / "run.*.gpumem").check().out
    assert "those of cuda:0 (0), cuda:1 (1), cuda:2 (2), cuda:3 (3).\n" in text
    assert "3 ranks have memory on another device too (1-3): at most 10.00 MiB, on cuda:0 in rank 1.\n" in text
    peak = run_gpumem("peak", tmp_path / "run.1.gpumem").check().out
    assert peak.startswith("cuda:1: ")
    both = run_gpumem("diff", tmp_path / "run.0.gpumem", tmp_path / "run.1.gpumem", "--json").json()
    assert both["files"] == answer["files"][:2]


def test_a_negative_answer_of_several_processes_is_no_failure_for_their_launcher(run_ranks, small):
    for question in ("diff", "oom"):
        alone = run_ranks("one", 1, question, small / "run.*.gpumem").check(1)
        for mpi in ("openmpi", "mpich"):
            together = run_ranks(mpi, 2, question, small / "run.*.gpumem").check(0)
            assert together.out.splitlines()[1:] == alone.out.splitlines()[1:]
        assert "several exit 0" in run_ranks("one", 1, question, "--help").check().out


def test_of_several_files_of_a_rank_the_newest_counts(run, run_ranks, tmp_path):
    """As torchrun starts a job of four again, with two ranks: the later process writes FILE.PID."""
    run([RECORDINGS, tmp_path, "4", "1500", "1", "--world", "4"]).check()
    (tmp_path / "again").mkdir()
    run([RECORDINGS, tmp_path / "again", "2", "1500", "1", "--world", "2", "--begin", "60", "--pid", "4710"]).check()
    for rank in range(2):
        (tmp_path / "again" / f"run.{rank}.gpumem").rename(tmp_path / f"run.{rank}.gpumem.471{rank}")
    done = run_ranks("one", 1, "info", tmp_path / "run.*", "--no-keep").check()
    assert done.out.startswith("2 recordings\n")
    assert "  rank 1 has 2 files: run.1.gpumem, run.1.gpumem.4711: the newest counts, run.1.gpumem.4711\n" in done.out
    assert "  rank 3: run.3.gpumem is of another start, with 4 ranks; the newest has 2: it does not count\n" in done.out
    assert "no file of" not in done.out and "2 ranks are alike: 0-1;" in done.out
    told = json.loads(run_ranks("one", 1, "info", tmp_path / "run.*", "--no-keep", "--json").check().out)["job"]
    assert (told["world"], told["missing"], told["complete"]) == (2, [], True)
    assert [(one["rank"], Path(one["file"]).name) for one in told["older"]] == [(rank, f"run.{rank}.gpumem") for rank in range(4)]
    done = run_ranks("one", 1, "info", tmp_path / "run.*.gpumem", "--no-keep").check()
    assert "  2 files FILE.PID are next to these, such as run.0.gpumem.4710: a later process of the same rank" in done.out
    # By the names alone, too.
    run([RECORDINGS, tmp_path, "3", "1500", "1"]).check()
    shutil.copy(tmp_path / "run.2.gpumem", tmp_path / "run.2.gpumem.99")
    done = run_ranks("one", 1, "info", *(tmp_path / f"run.{name}" for name in ("0.gpumem", "1.gpumem", "2.gpumem*")), "--no-keep").check()
    assert "3 ranks are alike: 0-2;" in done.out and "rank 2 has 2 files: " in done.out


@pytest.mark.parametrize("late", [[], ["--late", "1"]])
def test_processes_of_one_rank_that_ran_together_all_count(run, run_ranks, tmp_path, late):
    """Also if the recording's start is when it was written, after all events."""
    for name, words in {"first": [], "second": ["--pid", "2000"], "again": ["--pid", "3000", "--begin", "60"]}.items():
        (tmp_path / name).mkdir()
        run([RECORDINGS, tmp_path / name, "2", "1500", "1", "--world", "2", *words, *late]).check()

    def told(*names):
        return json.loads(run_ranks("one", 1, "info", *(tmp_path / name / "*.gpumem" for name in names), "--no-keep", "--json").check().out)["job"]

    together = told("first", "second")
    assert (together["read"], together["same_rank_together"], together["ranks_known"], together["older"]) == (4, 2, "no", [])
    one_after_the_other = told("again", "first")
    assert (one_after_the_other["read"], one_after_the_other["same_rank_together"]) == (2, 0)
    assert {Path(one["newer"]).parent.name for one in one_after_the_other["older"]} == {"again"}


def test_processes_of_one_task_that_ran_together_are_told_from_a_task_that_was_started_again(run_gpumem, run_ranks, tmp_path):
    rank = Path(__file__).parent / "programs" / "job_rank.py"
    launchers = ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD", "PMI", "SLURM")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    task = "SLURM_PROCID=0,SLURM_STEP_NUM_TASKS=2"

    def told(how):
        words = ["--sim", "-o", tmp_path / how / "run.%p.gpumem"]
        (tmp_path / how).mkdir()
        run_gpumem("run", *words, "--", PYTHON, rank, 3, how, task, task, env=environment).check()
        return json.loads(run_ranks("one", 1, "info", tmp_path / how / "run.*.gpumem", "--no-keep", "--json").check().out)["job"]

    together = told("together")
    assert (together["read"], together["same_rank_together"], together["older"]) == (2, 1, [])
    after = told("ranks")
    assert (after["read"], after["same_rank_together"], len(after["older"])) == (1, 0, 1)


def test_files_of_several_jobs_are_told_and_named(run, run_ranks, tmp_path):
    for job in ("8", "9"):
        (tmp_path / job).mkdir()
        run([RECORDINGS, tmp_path / job, "2", "1500", "1", "--world", "2", "--job", job]).check()
    done = run_ranks("one", 1, "info", tmp_path / "?" / "run.*.gpumem", "--no-keep").check()
    assert "  the files are of 2 jobs (SLURM_JOB_ID 8: 2, SLURM_JOB_ID 9: 2): ask for the files of one\n" in done.out
    assert "4 ranks are alike: " in done.out and f"{tmp_path}/9/run.1.gpumem" in done.out
    for job in ("8", "9"):
        (tmp_path / job / "run.1.gpumem").rename(tmp_path / job / f"x{job}.gpumem")
        (tmp_path / job / "run.0.gpumem").rename(tmp_path / job / f"y{job}.gpumem")
    done = run_ranks("one", 1, "info", tmp_path / "?" / "*.gpumem", "--no-keep").check()
    assert "4 ranks are alike: y8.gpumem, y9.gpumem, x8.gpumem, x9.gpumem;" in done.out
    assert "the files are of 2 jobs" in done.out
    one = run_ranks("one", 1, "info", tmp_path / "8" / "*.gpumem", "--no-keep").check()
    assert "2 ranks are alike: 0-1;" in one.out and "jobs" not in one.out


def test_of_very_many_steps_the_number_the_highest_and_the_last_are_exact(run, run_ranks, tmp_path):
    run([RECORDINGS, tmp_path, "2", str(96 + 6 * 6000), "1", "--short", "1"]).check()
    answer = ask(run_ranks, tmp_path, "info")
    assert answer["job"]["complete"] and [file["iterations"] for file in answer["files"]] == [6000, 6000]
    text = run_ranks("one", 1, "info", tmp_path / "run.*.gpumem").check().out
    assert re.search(r"^ *6000 +6000 +6000 +all +all +steps$", text, re.M)
    answer = ask(run_ranks, tmp_path, "steps")
    assert not answer["job"]["complete"]
    (file, _) = answer["files"]
    steps = {step["step"]: step["peak"] for step in file["steps"]}
    assert {4096, 5001, 6000} <= set(steps) and 4999 not in steps and max(steps, key=steps.get) == 5001
    text = run_ranks("one", 1, "steps", tmp_path / "run.*.gpumem").check().out
    assert "\nOf the first 4096 of 6000 steps; after these only the highest of each rank and the last 16.\n" in text
    assert re.search(r" 5001$", text, re.M) and "4096" in text


def test_too_few_steps_for_leaks_are_told_as_gpumem_tells_them(run, run_ranks, run_gpumem, tmp_path):
    run([RECORDINGS, tmp_path, "2", str(96 + 4 * 270 - 10), "1", "--leak", "1"]).check()
    sentence = "ach step from 3 on ends with 1.00 MiB more than the one before: for `gpumem leaks` these are too few steps.\n"
    assert "E" + sentence in run_gpumem("steps", tmp_path / "run.1.gpumem").check().out
    done = run_ranks("one", 1, "steps", tmp_path / "run.*.gpumem", "--no-keep").check()
    assert "\nrank 1: e" + sentence in done.out


# ru_maxrss survives exec: of a child of ours it would be what this process has. So a small process is its parent.
PARENT = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:])
_, status, usage = os.wait4(process.pid, 0)
print("KB", usage.ru_maxrss, file=sys.stderr)
sys.exit(status != 0)
"""


def test_paths_that_differ_on_each_node_take_little_memory(run, tmp_path):
    """Each of 1,000 ranks has 28 lines; of these, two ranks have the same. In a table of all lines and ranks nearly all is empty."""
    run([RECORDINGS, tmp_path, "1000", "300", "1", "--per-node", "2"]).check()
    program = BUILD / "tests" / "ranks-one" / "gpumem-ranks"
    done = run([sys.executable, "-S", "-c", PARENT, program, "peak", tmp_path / "run.*.gpumem", "--no-keep"]).check()
    assert int(re.search(r"^KB (\d+)$", done.err, re.M)[1]) < 100_000  # 230 MB as a table
    assert "\n2 ranks are alike: 0-1; peaks of " in done.out and "... and " in done.out


def test_info_names_the_ranks_that_ran_out_of_memory(run, run_ranks, tmp_path):
    run([RECORDINGS, tmp_path, "4", "1500", "1", "--oom", "2", "--world", "4", "--small", "1"]).check()
    text = run_ranks("one", 1, "info", tmp_path / "run.*.gpumem").check().out
    assert "\n1 rank ran out of memory (2): `gpumem-ranks oom` shows where.\n" in text
    told = ask(run_ranks, tmp_path, "info")["job"]["recordings"]
    assert [file["ooms"] for file in told] == [0, 0, 1, 0]
    assert [file["device_total"] for file in told] == [80 << 30, 40 << 30, 80 << 30, 80 << 30]
    assert re.search(r"^ *40.00 GiB +80.00 GiB +80.00 GiB +rank 1 +3 ranks +memory of the device$", text, re.M)


def test_a_rank_with_the_same_peak_from_other_lines_is_said_to_have_that(run, run_ranks, tmp_path):
    run([RECORDINGS, tmp_path, "4", "300", "1", "--short", "1", "--other", "2"]).check()
    text = run_ranks("one", 1, "info", tmp_path / "run.*.gpumem").check().out
    said = "its peak has the size of the median of the 3 ranks that it is most like, but comes from other lines: 24.00 MiB more from /job/model.py:510"
    assert f"rank 2 stands out: {said} in Model.__init__.\n" in text


def test_what_is_no_file_says_what_to_name(run_ranks, small):
    done = run_ranks("one", 1, "info", small).check(3)
    assert f"is a folder: name its files, as in '{small}/*.gpumem'" in done.out
    assert "Commands:" in run_ranks("one", 1, "help").check().out
    assert run_ranks("one", 1, "help", "oom").check().out.startswith("Usage: gpumem-ranks oom ")
    small.chmod(0o311)
    try:
        if not os.access(small, os.R_OK):  # root may
            done = run_ranks("one", 1, "info", small / "run.*.gpumem").check(4)
            assert "permission denied: you may not list its folder" in done.err
    finally:
        small.chmod(0o700)


# --- faults ----------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(run, tmp_path):
    run([RECORDINGS, tmp_path, "8", "1500", "1"]).check()
    return tmp_path


def ask(run_ranks, folder, *arguments, mpi="openmpi", processes=2, status=0):
    return json.loads(run_ranks(mpi, processes, *arguments, folder / "run.*.gpumem", "--json").check(status).out)


def test_a_file_that_cannot_be_read_is_told_and_the_others_are_answered(run_ranks, small):
    (small / "run.3.gpumem").write_text("not a recording")
    (small / "run.5.gpumem").unlink()
    os.mkfifo(small / "run.5.gpumem")  # to open it would wait for ever
    (small / "run.6.gpumem").unlink()
    (small / "run.6.gpumem").symlink_to(small / "nowhere")
    answer = ask(run_ranks, small, "peak")
    errors = {file["rank"]: file["error"] for file in answer["job"]["recordings"] if not file["read"]}
    assert set(errors) == {3, 5, 6} and "does not begin like one" in errors[3]
    assert len(answer["files"]) == 5 and answer["job"]["complete"] is False
    text = run_ranks("mpich", 3, "peak", small / "run.*.gpumem").check().out
    assert text.startswith("5 recordings of 8 files") and "rank 3: not read: " in text
    # whether a rank ran out of memory is not known then
    text = run_ranks("one", 1, "oom", small / "run.*.gpumem").check(3).out
    assert "\nNo rank ran out of memory, in the 5 of 8 recordings that have an answer.\n" in text


def test_of_what_is_not_found_the_unread_files_are_told(run, run_ranks, run_gpumem, tmp_path):
    """No difference and no leak in two of three files says nothing about the third."""
    run([RECORDINGS, tmp_path, "1", "3000", "1"]).check()
    for rank in (1, 2):
        shutil.copy(tmp_path / "run.0.gpumem", tmp_path / f"run.{rank}.gpumem")
    files = tmp_path / "run.*.gpumem"
    same = "the same peak, the same groups at the peak and the same steps.\n"
    assert f"\nNo difference: all ranks have {same}" in run_ranks("one", 1, "diff", files, "--no-keep").check(0).out
    assert "accumulate in any rank.\n" in run_ranks("one", 1, "leaks", files, "--no-keep").check(0).out
    run_gpumem("leaks", tmp_path / "run.0.gpumem").check(0)
    (tmp_path / "run.2.gpumem").write_text("not a recording")
    text = run_ranks("one", 1, "diff", files, "--no-keep").check(3).out
    assert "  rank 2: not read: " in text and f"\nNo difference in the 2 of 3 recordings that have an answer: {same}" in text
    text = run_ranks("one", 1, "leaks", files, "--no-keep").check(3).out
    assert "  rank 2: not read: " in text and "in any rank, in the 2 of 3 recordings that have an answer.\n" in text
    for question in ("diff", "oom", "leaks"):  # several processes exit 0 in any case
        run_ranks("openmpi", 2, question, files, "--no-keep").check(0)


def test_a_leak_of_a_rank_has_the_status_that_it_has_in_gpumem(run, run_ranks, run_gpumem, tmp_path):
    run([RECORDINGS, tmp_path, "3", "4000", "1", "--leak", "1"]).check()
    run_gpumem("leaks", tmp_path / "run.1.gpumem").check(1)
    run_ranks("one", 1, "leaks", tmp_path / "run.*.gpumem", "--no-keep").check(1)
    run_ranks("openmpi", 2, "leaks", tmp_path / "run.*.gpumem", "--no-keep").check(0)
    (tmp_path / "run.0.gpumem").write_text("not a recording")
    run_ranks("one", 1, "leaks", tmp_path / "run.*.gpumem", "--no-keep").check(1)


def test_a_damaged_file_of_recorded_ranks_is_no_missing_rank(run, run_ranks, tmp_path):
    run([RECORDINGS, tmp_path, "8", "400", "1", "--world", "8"]).check()
    (tmp_path / "run.5.gpumem").write_bytes(b"x" * 100)
    text = run_ranks("one", 1, "info", tmp_path / "run.*.gpumem", "--no-keep").check().out
    assert "  rank 5: not read: " in text and "no file of rank" not in text
    job = ask(run_ranks, tmp_path, "info", "--no-keep")["job"]
    assert (job["world"], job["missing"], job["missing_count"], job["complete"]) == (8, [], 0, False)
    (tmp_path / "run.2.gpumem").rename(tmp_path / "run.x.gpumem")
    (tmp_path / "run.7.gpumem").unlink()
    (tmp_path / "run.6.gpumem").unlink()
    text = run_ranks("one", 1, "info", tmp_path / "run.*.gpumem", "--no-keep").check().out
    said = "(3 of 8, as the recordings count them; 1 file that cannot be read may be of these ranks)"
    assert f"  no file of ranks 5-7 {said}\n" in text and "  run.5.gpumem: not read: " in text


def test_where_nothing_can_be_read_the_status_says_so(run_ranks, tmp_path):
    (tmp_path / "run.0.gpumem").write_text("nothing")
    done = run_ranks("one", 1, "peak", tmp_path / "run.*.gpumem").check(3)
    assert "not read" in done.out
    done = run_ranks("one", 1, "peak", tmp_path / "no.*.gpumem").check(2)
    assert "there is no such file" in done.err


def test_a_recording_that_is_not_closed_is_told_and_not_kept(run_ranks, small):
    path = small / "run.2.gpumem"
    os.truncate(path, path.stat().st_size - 8)
    answer = ask(run_ranks, small, "info")
    (file,) = [file for file in answer["job"]["recordings"] if file["rank"] == 2]
    assert not file["closed"] or file["truncated_at"]
    assert answer["job"]["complete"] is False
    assert not (small / "run.2.gpumem.summary").exists() and (small / "run.1.gpumem.summary").exists()


def test_kept_summaries_answer_again_and_a_changed_file_is_read_again(run, run_ranks, small):
    first = ask(run_ranks, small, "peak")
    assert first["job"]["kept"] == 0
    again = ask(run_ranks, small, "peak", mpi="mpich")
    assert again["job"]["kept"] == 8 and without(again, "job") == without(first, "job")
    # Another question needs another part, and keeps what was there.
    assert [ask(run_ranks, small, name)["job"]["kept"] for name in ("steps", "steps", "peak")] == [0, 8, 8]
    run([RECORDINGS, small, "1", "2500", "9", "--first", "4"]).check()
    changed = ask(run_ranks, small, "peak")
    assert changed["job"]["kept"] == 7
    assert [a == b for a, b in zip(changed["files"], first["files"])] == [True] * 4 + [False] + [True] * 3


def test_a_damaged_summary_is_not_used(run_ranks, small):
    first = ask(run_ranks, small, "peak")
    for rank, damage in enumerate([lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:], lambda b: b + b"x"]):
        kept = small / f"run.{rank}.gpumem.summary"
        kept.write_bytes(damage(kept.read_bytes()))
    kept = small / "run.4.gpumem.summary"
    kept.unlink()
    kept.symlink_to(small / "run.5.gpumem.summary")
    again = ask(run_ranks, small, "peak")
    assert again["job"]["kept"] == 3 and without(again, "job") == without(first, "job")
    assert kept.is_symlink()
    kept.unlink()
    # Another recording's does not count, even where the two have one size and one time.
    ask(run_ranks, small, "peak")
    for name in ("gpumem", "gpumem.summary"):
        shutil.copy2(small / f"run.6.{name}", small / f"run.7.{name}")
    assert ask(run_ranks, small, "peak")["job"]["kept"] == 7


def test_a_summary_is_as_private_as_its_recording(run_ranks, small):
    (small / "run.0.gpumem").chmod(0o600)
    ask(run_ranks, small, "peak")
    assert (small / "run.0.gpumem.summary").stat().st_mode & 0o077 == 0


def test_without_keeping_nothing_is_written(run_ranks, small):
    before = sorted(small.iterdir())
    ask(run_ranks, small, "peak", "--no-keep")
    assert sorted(small.iterdir()) == before


def killed(command, folder, wait_for):
    """Runs a job and kills one of its processes once a summary is there. The exit status and what was written."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    job = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(lambda: any(folder.glob("*.summary")))
        for child in processes_of(job.pid):
            os.kill(child, signal.SIGKILL)
        out, _ = job.communicate(timeout=300)  # the launcher ends the others
        return job.returncode, out
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_after_a_process_was_killed_a_rerun_reads_only_the_rest(mpi, run, run_ranks, tmp_path, wait_for):
    run([RECORDINGS, tmp_path, "16", "2000", "1"]).check()
    status, out, events = 0, b"", 500_000
    while not status or b"recordings" in out:  # it had ended, or answered: a larger file takes one process longer
        for kept in tmp_path.glob("*.summary"):
            kept.unlink()
        run([RECORDINGS, tmp_path, "1", str(events), "1", "--first", "16"]).check()
        status, out = killed([*start_of(mpi, 2), "peak", tmp_path / "run.*.gpumem"], tmp_path, wait_for)
        events *= 2
    kept = len(list(tmp_path.glob("*.summary")))
    answer = ask(run_ranks, tmp_path, "peak", mpi=mpi)
    assert answer["job"]["kept"] == kept > 0 and len(answer["files"]) == 17


def processes_of(launcher):
    """One of the gpumem-ranks below a launcher."""
    children = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().partition(") ")
        except OSError:
            continue
        if name.endswith("(gpumem-ranks") and launcher in ancestors(int(rest.split()[1])):
            children.append(int(status.parent.name))
    return children[:1]


def ancestors(pid):
    found = []
    while pid > 1:
        found.append(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
        except OSError:
            break
    return found


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_a_process_of_another_build_is_told_and_its_files_are_left_out(mpi, run, small):
    start = start_of(mpi, 1)
    other = small / "other" / "gpumem-ranks"
    other.parent.mkdir()
    shutil.copy(start[-1], other)
    text = other.read_bytes()
    (build,) = set(re.findall(rb"gpumem \d+\.\d+\.\d+, [0-9a-f]{16}", text))
    other.write_bytes(text.replace(build, build[:-1] + (b"0" if build[-1:] != b"0" else b"1")))
    arguments = ["info", small / "run.*.gpumem", "--no-keep", "--json"]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    answer = json.loads(run([*start, *arguments, ":", "-n", "1", other, *arguments], env=environment).check().out)
    (told,) = answer["job"]["other_versions"]
    assert told["process"] == 1 and told["files"] + len(answer["files"]) == 8 and told["files"] > 0
    assert answer["job"]["complete"] is False


def test_without_mpi_one_of_several_processes_says_how_to_get_it(run, small):
    program = BUILD / "tests" / "ranks-one" / "gpumem-ranks"
    done = run([program, "peak", small / "run.*.gpumem"], env={**os.environ, "OMPI_COMM_WORLD_SIZE": "4"}).check(2)
    assert "libopenmpi-dev" in done.err


def test_local_files_are_read_once_by_the_processes_of_a_machine(run_ranks, small):
    shared = ask(run_ranks, small, "peak", "--no-keep", processes=3)
    local = ask(run_ranks, small, "peak", "--no-keep", "--local", processes=3)
    assert without(local, "job") == without(shared, "job") and local["job"]["doubles"] == 0


def test_a_prefix_means_the_files_whose_rank_follows(run_ranks, small):
    for rank in range(4):
        (small / f"run.{rank}.gpumem").rename(small / f"memory_rank_{rank}")
    (small / "memory_rank_x").write_text("no recording")
    answer = json.loads(run_ranks("one", 1, "info", small / "memory_rank_", "--no-keep", "--json").check().out)
    assert [Path(file["file"]).name for file in answer["files"]] == [f"memory_rank_{rank}" for rank in range(4)]
    done = run_ranks("one", 1, "info", small / "nowhere", "--no-keep").check(3)
    assert "nowhere: not read: " in done.out and "No such file" in done.out


def test_a_snapshot_of_pytorch_is_read_as_a_recording_is(run_gpumem, run_ranks, small):
    for rank in range(3):
        run_gpumem("export", small / f"run.{rank}.gpumem", "--to", "pytorch", "-o", small / f"snapshot_rank{rank}.pickle").check()
    files = [small / f"snapshot_rank{rank}.pickle" for rank in range(3)]
    plain = run_gpumem("diff", *files, "--json").json()
    done = run_ranks("mpich", 2, "diff", small / "snapshot_rank*.pickle", "--json")
    answer = json.loads(done.out)
    assert without(answer, "job", "groups", "stand_out") == plain
    assert [file["rank"] for file in answer["job"]["recordings"]] == [0, 1, 2]


def test_wrong_usage_is_told_once(run_ranks, run_gpumem, small):
    assert "gpumem-ranks --help" in run_gpumem("ranks", "peak").check(2).err
    done = run_ranks("mpich", 3, "peek", small / "run.*.gpumem").check(2)
    assert done.err.count("did you mean `gpumem-ranks peak`?") == 1
    done = run_ranks("one", 1, "peak", "--lokal", "x").check(2)
    assert "did you mean --local?" in done.err


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("keep", [["--no-keep"], []])
def test_without_memory_there_is_the_answer_or_an_error(every, keep, run, small):
    """As tests/e2e/test_no_memory.py does for gpumem: each way to an allocation fails once, alone or with all after it."""
    ways, program = small / "ways", BUILD / "tests" / "ranks-one" / "gpumem-ranks"

    def answer(**failing):
        for kept in small.glob("*.summary"):
            kept.unlink()
        environment = {**os.environ, "LD_PRELOAD": BUILD / "tests" / "libfail_allocation.so", "GPUMEM_TEST_ALLOCATIONS": ways, **failing}
        return run([program, "leaks", small / "run.[0-2].gpumem", "--json", *keep], env=environment)

    whole = json.loads(answer().check().out)
    found = [int(number) for number in ways.read_text().split()]
    for number in found if every else found[3 :: len(found) // 4]:
        for how in ("GPUMEM_TEST_FAIL_AT", "GPUMEM_TEST_FAIL_ON"):
            done = answer(**{how: str(number)})
            if done.status == 5:
                assert "out of memory" in done.err and not done.out, (number, how)
                continue
            told = json.loads(done.out)
            if all(file["read"] for file in told["job"]["recordings"]):
                assert without(told, "job") == without(whole, "job"), (number, how)
