"""A running process is paused while it is read: each answer shows one moment, and the program computes the same."""

import subprocess
import time
from pathlib import Path

import pytest

import truth

PROGRAMS = Path(__file__).parent / "programs"
PROGRAM = PROGRAMS / "busy_training.py"


def kept_in(file):
    return {f"global 'kept' of module __main__ ({file})",
            f"item 0 of list: key 'kept' of dict: global 'registry' of module __main__ ({file})"}  # fmt: skip


@pytest.fixture
def busy(spawn, python, sim_env):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = spawn([python, "-W", "ignore", PROGRAM], env=sim_env("4GiB"), **pipes)
    process.number, process.block = process.stdout.readline().split()
    return process


def ended(process):
    """What the program printed at its end, which it reaches without help."""
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return out.split()


def check_kept(answer, file=PROGRAM.name):
    assert answer["complete"], answer
    assert answer["pause"]["state"] == "paused" and answer["pause"]["seconds"] > 0
    assert answer["pause"]["copied"] == answer["scan"]["bytes"] + answer["scan"]["unread"], "it ran on while it was read"
    assert {holder["text"] for holder in answer["holders"]} == kept_in(file), answer
    assert [one["found"] for one in answer["storages"]] == [one["refcount"] for one in answer["storages"]]


def ask_often(busy, run_gpumem, times):
    for _ in range(times):
        check_kept(run_gpumem("who-holds", "--pid", busy.number, busy.block, "--json").check().json())


def test_who_holds_of_a_busy_training_is_complete_each_time(busy, run_gpumem):
    ask_often(busy, run_gpumem, 2)
    done, steps, same = ended(busy)
    assert done == "done" and int(steps) > 0 and same == "True"


def ask_busy_program(kind, times, run, spawn, python, sim_env, run_gpumem):
    """Each answer is right, and the program has the result that it has without questions."""
    program, env = PROGRAMS / "busy_programs.py", sim_env("4GiB")
    command = [python, "-W", "ignore", program, kind]
    process = spawn(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    number, block = process.stdout.readline().split()
    wrong = []
    for _ in range(times):
        answer = run_gpumem("who-holds", "--pid", number, block, "--json").check().json()
        try:
            check_kept(answer, program.name)
        except AssertionError as why:
            wrong.append(why)
    *steps, digest, same = ended(process)
    truth.note("who-holds", f"a busy program ({kind})", "answers", times, times - len(wrong), 0, wrong)
    assert not wrong, f"{len(wrong)} of {times}, the first: {wrong[0]}"
    assert same == "True" and min(map(int, steps)) > 0
    assert run([*command, *steps], env=env).check().out.split() == [*steps, digest, "True"]


KINDS = ["training", "server", "threads"]


@pytest.mark.parametrize("kind", ["server", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("training", "threads"))])
def test_answers_about_a_busy_program_are_right_and_do_not_disturb_it(kind, run, spawn, python, sim_env, run_gpumem):
    ask_busy_program(kind, 2, run, spawn, python, sim_env, run_gpumem)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_two_hundred_answers_about_a_busy_program_are_right(kind, run, spawn, python, sim_env, run_gpumem):
    ask_busy_program(kind, 200, run, spawn, python, sim_env, run_gpumem)


@pytest.mark.parametrize("times", [1, pytest.param(30, marks=pytest.mark.long)])
def test_the_allocators_account_of_a_busy_training_adds_up(busy, run_gpumem, times):
    for _ in range(times):
        for command in ("info", "segments", "blocks"):
            answer = run_gpumem(command, "--pid", busy.number, "--json").check().json()
            assert answer["complete"] and answer["gaps"] == [] and answer["pause"]["state"] == "paused", answer
        answer = run_gpumem("retained", "--pid", busy.number, "--json").check().json()
        assert answer["pause"]["state"] == "paused"
        assert sum(root["bytes"] for root in answer["roots"]) + answer["shared"] + answer["unknown"] == answer["allocated"]
    assert ended(busy)[0] == "done"


def test_without_a_pause_nothing_is_called_complete(busy, run_gpumem):
    answer = run_gpumem("segments", "--pid", busy.number, "--no-pause", "--json").check().json()
    assert not answer["complete"] and answer["pause"] == {"state": "not_paused", "seconds": 0.0, "tries": 0, "copied": 0}
    said = run_gpumem("segments", "--pid", busy.number, "--no-pause").check().out
    assert "not complete: the process ran while it was read: it was not paused (--no-pause)" in said
    assert ended(busy)[0] == "done"


def test_a_process_that_is_stopped_stays_so(busy, run_gpumem):
    busy.send_signal(19)
    threads = list(Path(f"/proc/{busy.number}/task").glob("*/stat"))
    assert threads
    while not all(") T " in stat.read_text() for stat in threads):  # they stop one by one, as each gets a processor
        time.sleep(0.01)
    answer = run_gpumem("who-holds", "--pid", busy.number, busy.block, "--json").check().json()
    assert answer["complete"] and answer["pause"]["state"] == "still"
    assert all(") T " in stat.read_text() for stat in threads)
    busy.send_signal(18)
    assert ended(busy)[0] == "done"


def test_the_process_continues_when_gpumem_is_killed_during_the_pause(busy, gpumem, spawn):
    status = Path(f"/proc/{busy.number}/status")
    for _ in range(10):
        asking = spawn([gpumem, "retained", "--pid", busy.number, "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while asking.poll() is None and f"TracerPid:\t{asking.pid}\n" not in status.read_text():
            time.sleep(0.001)
        asking.kill()
        asking.wait()
        assert "TracerPid:\t0\n" in status.read_text()
    assert ended(busy)[0] == "done"


# A reference that no reader finds is released after the first pause: epoll_wait is never restarted, it returns with EINTR
# when a thread that was stopped in it runs again.
UNCOUNTED = """
import ctypes, os, select, sys, torch

libc = ctypes.CDLL(None, use_errno=True)
kept = torch.ones(90_001, device="cuda")
ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
never, event = select.epoll(), ctypes.create_string_buffer(12)
print(os.getpid(), hex(kept.data_ptr()), flush=True)
assert libc.epoll_wait(never.fileno(), event, 1, -1) == -1
ctypes.pythonapi.Py_DecRef(ctypes.py_object(kept))
sys.stdin.read()
"""


@pytest.mark.parametrize("command", ["who-holds", "retained"])
def test_an_incomplete_answer_is_tried_again_at_another_moment(command, spawn, python, sim_env, run_gpumem):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = spawn([python, "-W", "ignore", "-c", UNCOUNTED], env=sim_env("4GiB"), **pipes)
    number, block = process.stdout.readline().split()
    asked = ["who-holds", block] if command == "who-holds" else ["retained"]
    answer = run_gpumem(*asked, "--pid", number, "--json").check().json()
    assert answer["complete"] and answer["pause"]["tries"] >= 2, answer
    again = run_gpumem(*asked, "--pid", number, "--json").check().json()
    assert again["complete"] and again["pause"]["tries"] == 1, again
