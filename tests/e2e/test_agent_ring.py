"""A recording of limited size that keeps the newest events: its present state is right, whatever earlier events were dropped."""

import json
import os
import random
import signal
import subprocess
import time

import pytest

from conftest import PYTHON, info_of
from test_agent_ends import PROGRAMS, account_of, agent_env, done_by  # noqa: F401: a fixture

DROPPED = "of its first events were dropped"
FILLS = 6000  # events of a kilobyte and more are beyond 5 MiB


def live_of(run_gpumem, path):
    blocks = run_gpumem("blocks", path, "--json").check().json()["blocks"]
    return sorted((int(block["address"], 16), block["requested"]) for block in blocks)


@pytest.mark.usefixtures("own_process")
@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.long), 9])
def test_live_blocks_are_pytorchs_although_their_allocations_were_dropped(run_gpumem, tmp_path, threads):
    out, log = tmp_path / "truth.json", tmp_path / "run.gpumem"
    command = [PYTHON, PROGRAMS / "agent_ring.py", out, threads, 40_000 // threads]
    (spool := tmp_path / "spool").mkdir()
    words = ("run", "--sim", "-o", log, "--max-size", "9MiB", "--spool", spool, "--", *command)
    done = run_gpumem(*words, env={**os.environ, "RANK": "7"}).check()
    truth, info = json.loads(out.read_text()), info_of(run_gpumem, log)
    # what the recording began with is kept too: where it belongs, and the rank
    assert not list(spool.iterdir()) and info["settings"]["RANK"] == "7"
    assert "missing" not in done.err
    (gap,) = info["gaps"]
    assert DROPPED in gap and info["complete"] is False
    (device,) = info["devices"]
    assert (device["allocated"], device["reserved"]) == (truth["allocated"], truth["reserved"])
    assert live_of(run_gpumem, log) == [tuple(block) for block in truth["live"]]
    events = run_gpumem("events", log, "--json").check().json_lines()
    assert 1000 < len(events) < truth["allocations"]
    # the lines of the first blocks are still known
    lines = [event["python"][0]["line"] for event in events if event["python"] and event["requested"] == 1 << 16]
    assert lines.count(15) == 50


def kill_and_compare(run_gpumem, environment, folder, count, wait_for):
    choose = random.Random(3)
    command = [PYTHON, PROGRAMS / "agent_churn.py", folder]
    env = {**environment(folder / "%p.gpumem", stacks="python", max=str(5 << 20), keep="newest"), "MARKS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    pids, dropped_of = [], {}
    with subprocess.Popen(command, env=env, text=True, bufsize=1, **pipes) as parent:
        for number in range(count):
            parent.stdin.write(f"{number}\n")
            lines = sorted(parent.stdout.readline().strip() for _ in range(2))
            pids.append(int(lines[0]))
            # Beyond FILLS events the beginning is dropped.
            account, moment = folder / f"{number}.account", choose.choice([0, FILLS]) + choose.randrange(FILLS)
            wait_for(lambda account=account, moment=moment: done_by(account) >= moment)
            dropped_of[number] = moment >= FILLS
            time.sleep(choose.random() * 0.002)
            os.kill(pids[-1], signal.SIGKILL)
        parent.stdin.close()
    for number, pid in enumerate(pids):
        log = folder / f"{pid}.gpumem"
        assert log.stat().st_size <= 5 << 20
        live = {}
        told = account_of(folder / f"{number}.account")
        for address, size in told:
            live[address] = size
            if size < 0:
                del live[address]
        ours = dict(live_of(run_gpumem, log))
        # The program notes an action after it: the log may have one event more.
        assert len(ours.items() ^ live.items()) <= 1, (number, ours.items() ^ live.items())
        gaps = info_of(run_gpumem, log)["gaps"]
        assert not dropped_of[number] or any(DROPPED in gap for gap in gaps), gaps
        assert not any("missing in between" in gap or "not recorded" in gap for gap in gaps)
    assert any(dropped_of.values())


@pytest.mark.parametrize("count", [6, pytest.param(60, marks=pytest.mark.long)])
def test_a_ring_of_a_killed_program_has_its_live_blocks(run_gpumem, agent_env, tmp_path, wait_for, count):  # noqa: F811
    kill_and_compare(run_gpumem, agent_env, tmp_path, count, wait_for)


@pytest.mark.long
def test_a_ring_can_be_read_while_it_drops_its_oldest_events(run_gpumem, agent_env, tmp_path):  # noqa: F811
    env = {**agent_env(tmp_path / "%p.gpumem", stacks="python", max=str(5 << 20), keep="newest"), "MARKS": "1"}
    command = [PYTHON, PROGRAMS / "agent_churn.py", tmp_path]
    with subprocess.Popen(command, env=env, text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        parent.stdin.write("0\n")
        pid = int(min(parent.stdout.readline().strip() for _ in range(2)))
        log, seen = tmp_path / f"{pid}.gpumem", set()
        while len(seen) <= 20 or not any(DROPPED in gap for gap in info["gaps"]):
            info = info_of(run_gpumem, log)
            assert not any("missing in between" in gap or "not recorded" in gap for gap in info["gaps"]), info
            if info["devices"]:
                seen.add(info["devices"][0]["events"])
                blocks = live_of(run_gpumem, log)
                assert len(blocks) <= 102
        os.kill(pid, signal.SIGKILL)
        parent.stdin.close()


def test_the_oldest_events_are_kept_on_request(run_gpumem, tmp_path):
    out, log = tmp_path / "truth.json", tmp_path / "run.gpumem"
    command = [PYTHON, PROGRAMS / "agent_ring.py", out, 1, 10_000]
    run_gpumem("run", "--sim", "-o", log, "--max-size", "5MiB", "--keep", "oldest", "--", *command).check()
    (gap,) = info_of(run_gpumem, log)["gaps"]
    assert "size limit (--max-size): the program continued unrecorded" in gap
    assert run_gpumem("run", "--keep", "newest", "--", "true").check(2).err.startswith("gpumem: run: --keep newest: ")
