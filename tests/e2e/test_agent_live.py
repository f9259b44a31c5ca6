"""A recording that grows is read on from where the last look ended, and reads as it does from its beginning."""

import subprocess
import time

import pytest

from conftest import PYTHON, ROOT

PROGRAM = """
import random, sys, threading, time, torch
print("begun", flush=True)
def work(seed):
    choose, mine = random.Random(seed), []
    while not done.is_set():
        time.sleep(0.001)
        if mine and choose.random() < 0.5:
            mine.pop(choose.randrange(len(mine)))
        elif len(mine) < 50:
            mine.append(torch.empty(choose.randrange(1, 1 << 22), device="cuda"))
done = threading.Event()
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
for thread in threads: thread.start()
sys.stdin.readline()
done.set()
for thread in threads: thread.join()
"""


@pytest.fixture
def session():
    """The library as gdb's plugin uses it."""
    from importlib import util

    spec = util.spec_from_file_location("gpumem_library", ROOT / "gdb" / "gpumem" / "library.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    session = module.Session()
    yield session
    session.close()


def ask(session, path, *words):
    session.look_at(0, str(path), 0)
    status, out, err = session.run(list(words))
    assert status == 0, err
    return out


def test_a_recording_read_while_it_grows_is_the_beginning_of_the_whole(spawn, session, run_gpumem, gpumem, tmp_path):
    log = tmp_path / "run.gpumem"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = spawn([gpumem, "run", "--sim", "-o", log, "--", PYTHON, "-c", PROGRAM], **pipes)
    assert process.stdout.readline() == "begun\n"
    while not log.exists() or not log.stat().st_size:
        time.sleep(0.05)
    seen = []
    while len(set(seen)) <= 6:  # it is read in bits
        info = ask(session, log, "info")
        assert "the process still runs" in info and "missing" not in info
        seen.append(int(info.split(" events")[0].split()[-1]))
    early = ask(session, log, "events").splitlines()
    assert seen == sorted(seen) and len(early) >= seen[-1]
    process.stdin.write("\n")
    process.stdin.close()
    process.wait(600)
    whole = run_gpumem("events", log).check().out.splitlines()
    # steps are told by passes of a loop, of which there may be more to know later
    place, before = ([line.split("  step")[0].split("cuda:0")[0].split() for line in lines] for lines in (whole, early))
    assert before == place[: len(before)]
    after = ask(session, log, "info")
    assert "still runs" not in after and "no gaps are known" in after
