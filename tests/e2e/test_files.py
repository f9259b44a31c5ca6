"""What is told of files that are not whole, of a process that is recorded, and of a block at both ends of its life."""

import json
import pickle
import random
import re
import subprocess

import pytest

HELD = """import sys, torch
torch.cuda.memory._record_memory_history()
import random
import re
random = random.Random(int(sys.argv[1]))
held = [torch.empty(random.randrange(1, 60 << 20), dtype=torch.uint8, device="cuda") for _ in range(40)]
for _ in range(200):
    held[random.randrange(40)] = None
    held[random.randrange(40)] = torch.empty(random.choice([3000, 5 << 20, 60 << 20]) - random.randrange(2500), dtype=torch.uint8, device="cuda")
torch.cuda.memory._dump_snapshot(sys.argv[2])
print("ready", flush=True)
if "wait" in sys.argv:
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def held(gpumem, python, run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("held")
    (folder / "held.py").write_text(HELD)
    recording, snapshot = folder / "run.gpumem", folder / "run.pickle"
    run([gpumem, "run", "--sim", "-o", recording, "--", python, folder / "held.py", "1", snapshot]).check()
    return recording, snapshot


@pytest.mark.parametrize("file", ["recording", "snapshot"])
def test_a_block_has_one_size_from_its_allocation_to_its_free(file, held, run_gpumem):
    sizes, frees = {}, 0
    for event in run_gpumem("events", held[file == "snapshot"], "--json").check().json_lines():
        if event["action"] == "alloc":
            sizes[event["address"]] = event["size"]
        elif event["action"].startswith("free_"):
            assert event["size"] == sizes[event["address"]], event
            frees += 1
    assert frees > 100
    with open(held[1], "rb") as opened:  # what was asked for differs from it: else the test would show nothing
        trace = pickle.load(opened)["device_traces"][0]
    assert any(entry["action"] == "alloc" and entry["size"] % 512 for entry in trace)


def run_of(contents, question, run_gpumem, folder):
    (folder / "part.gpumem").write_bytes(contents)
    return run_gpumem(question, folder / "part.gpumem")


@pytest.mark.parametrize("question", ["peak", "blocks", "steps", "phases", "leaks", "timeline"])
def test_a_truncated_recording_says_so_or_shows_the_rest(question, held, run_gpumem, tmp_path):
    whole = held[0].read_bytes()
    rng = random.Random(question)
    refused = 0
    ends = re.compile(re.escape(str(tmp_path / "cut.gpumem")) + ": .*(file is truncated|recording has no events yet and is not closed)")
    for share in (0.02, 0.2, *(rng.random() for _ in range(6)), 0.99):
        cut = tmp_path / "cut.gpumem"
        cut.write_bytes(whole[: int(len(whole) * share)])
        run = run_gpumem(question, cut)
        if not ends.search(run.err):  # cut between two chunks, behind events
            info = run_gpumem("info", cut).out
            assert "is not closed" in info and "truncated" not in info, (share, run.err)
        if run.status == 3:
            refused += 1
            assert not run.out
        else:
            run.check()
            json.loads(run_gpumem(question, cut, "--json").check().out)
    assert refused
    # cut where the file could go on
    (end,) = re.findall(r"truncated at byte (\d+)", run_of(whole[: len(whole) // 50], question, run_gpumem, tmp_path).err)
    run = run_of(whole[: int(end)], question, run_gpumem, tmp_path)
    assert run.status == 3 or "has no events yet and is not closed" in run.err, run.err
    left = tmp_path / "left.gpumem"
    left.write_bytes(whole[: len(whole) // 50])
    assert "not complete" in run_gpumem("info", left).out  # how much is there is told in any case


def test_info_of_a_process_names_the_file_that_it_is_recorded_into(gpumem, python, held, run_gpumem, tmp_path):
    recording = tmp_path / "live.gpumem"
    command = [gpumem, "run", "--sim", "-o", recording, "--", python, held[0].parent / "held.py", "2", tmp_path / "out", "wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            (pid,) = [
                int(child)
                for child in subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True).stdout.split()
                if "held.py" in open(f"/proc/{child}/cmdline").read() and "python" in open(f"/proc/{child}/comm").read()
            ]
            answer = run_gpumem("info", "--pid", str(pid), "--json").check().json()
            assert answer["recorded"] is True and answer["recording"]
            text = run_gpumem("info", "--pid", str(pid)).check().out
            assert f"recorded in {answer['recording']}" in text and "nothing recorded" not in text
            events = run_gpumem("info", answer["recording"], "--json").check().json()
            (device,) = [one for one in events["devices"] if one["device"] == 0]
            assert device["allocated"] == answer["devices"][0]["allocated"]
        finally:
            process.stdin.close()
            process.wait()
