"""`gpumem assert`: limits on recordings whose figures are known from PyTorch's own statistics and from the programs' source."""

import json
import os
import random
import re

import pytest
from conftest import PYTHON, TORCH_VERSION
from pages import entry, snapshot

# (peaks in MiB, MiB that each step keeps) of loops. Each runs in a fork of one process, because importing PyTorch takes long.
# A step allocates its peak and releases it. The loop of KILLED is killed in its last step.
STEPS = """
import ctypes, json, os, sys, torch

def run(peaks, kept, killed):
    model = torch.nn.Linear(16, 16, device="cuda")
    held = []
    for peak in peaks:
        if kept:
            held.append(torch.empty(int(kept * 2**20), dtype=torch.uint8, device="cuda"))
        extra = torch.empty(int(peak * 2**20), dtype=torch.uint8, device="cuda")
        loss = model(torch.ones(4, 16, device="cuda")).sum()
        loss.backward()
        for parameter in model.parameters():  # torch.optim takes as long to import as torch
            parameter.data.add_(parameter.grad, alpha=-0.1)
        model.zero_grad(set_to_none=False)
        del extra, loss
    print(os.getpid(), torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), flush=True)
    os.kill(os.getpid(), 9) if killed else ctypes.CDLL(None).exit(0)

def fork(loops):
    for loop in loops:
        if not os.fork():
            return loop
        os.wait()

loop = fork(json.loads(sys.argv[1]))
if loop:
    run(*loop)
"""
CHANCE = random.Random(7)
RANDOM = [[CHANCE.choice([32, 48, 64]) for _ in range(CHANCE.randint(4, 7))] for _ in range(4)]
EVEN, UNEVEN, KILLED = [64] * 5, [64, 64, 64, 80, 64], [64] * 6
LOOPS = [(EVEN, 0), (UNEVEN, 0), ([100, 64, 64, 64, 64], 0), ([64] * 8, 1), ([64], 0), ([80] * 4, 0), (KILLED, 0), *((peaks, 0) for peaks in RANDOM)]


@pytest.fixture(scope="module")
def recorded(run_gpumem, tmp_path_factory):
    """recorded(peaks, kept=0) -> (recording, peak allocated, peak reserved) of one of LOOPS, with PyTorch's own figures."""
    folder = tmp_path_factory.mktemp("assert")
    (folder / "steps.py").write_text(STEPS)
    loops = json.dumps([(peaks, kept, peaks is KILLED) for peaks, kept in LOOPS])
    out = run_gpumem("run", "--sim=8GiB", "-o", folder / "%p.gpumem", "--", PYTHON, folder / "steps.py", loops).check().out
    lines = [list(map(int, line.split())) for line in out.splitlines()]
    assert len(lines) == len(LOOPS)
    made = {(tuple(peaks), kept): (folder / f"{pid}.gpumem", *peak) for (peaks, kept), (pid, *peak) in zip(LOOPS, lines)}
    return lambda peaks, kept=0: made[tuple(peaks), kept]


def checks(run_gpumem, *words):
    answer = run_gpumem("assert", *words, "--json")
    told = answer.json()
    assert answer.status == (0 if told["holds"] else 1)
    assert told["holds"] == all(file["holds"] for file in told["files"])
    assert all(file["holds"] == all(check["verdict"] == "holds" for check in file["checks"]) for file in told["files"])
    return {check["check"]: check for file in told["files"] for check in file["checks"]}


def test_the_peak_is_pytorchs_and_limits_are_exact(run_gpumem, recorded):
    path, allocated, reserved = recorded([64] * 5)
    for limit, holds in ((f"{allocated}", True), (f"<{allocated}", False), (f"<={allocated}", True), (f"< {allocated + 1}", True), (f"{allocated - 1}", False)):
        check = checks(run_gpumem, path, f"--peak={limit}")["peak"]
        assert (check["actual"], check["reserved"], check["device"]) == (allocated, reserved, 0)
        assert check["verdict"] == ("holds" if holds else "fails"), limit


def test_equal_steps_are_equal_and_others_are_not(run_gpumem, recorded):
    assert checks(run_gpumem, recorded([64] * 5)[0], "--steps-equal")["steps-equal"]["verdict"] == "holds"
    uneven = recorded([64, 64, 64, 80, 64])[0]
    check = checks(run_gpumem, uneven, "--steps-equal")["steps-equal"]
    assert check["verdict"] == "fails" and check["actual"] == 16 << 20 and 4 in check["steps"]
    assert checks(run_gpumem, uneven, f"--steps-equal={16 << 20}")["steps-equal"]["verdict"] == "holds"
    assert checks(run_gpumem, uneven, f"--steps-equal=<{16 << 20}")["steps-equal"]["verdict"] == "fails"


def test_the_first_step_may_differ(run_gpumem, recorded):
    assert checks(run_gpumem, recorded([100, 64, 64, 64, 64])[0], "--steps-equal")["steps-equal"]["verdict"] == "holds"


def test_a_leak_fails_and_its_bytes_may_be_allowed(run_gpumem, recorded):
    path = recorded([64] * 8, kept=1)[0]
    check = checks(run_gpumem, path, "--leaks=none")["leaks"]
    assert check["verdict"] == "fails" and check["lines"] == 1
    told = run_gpumem("leaks", path, "--json").json()
    assert check["actual"] == sum(line["bytes"] for line in told["sites"])
    assert checks(run_gpumem, path, f"--leaks={check['actual']}")["leaks"]["verdict"] == "holds"
    assert checks(run_gpumem, recorded([64] * 5)[0], "--leaks=none")["leaks"]["verdict"] == "holds"


def test_what_cannot_be_known_is_unknown(run_gpumem, recorded):
    path = recorded([64])[0]
    found = checks(run_gpumem, path, "--leaks=none", "--steps-equal", "--peak=1GiB", "--device=3")
    assert {name: (check["verdict"], check["reason"]) for name, check in found.items()} == {
        "peak": ("unknown", "no_events"),
        "leaks": ("unknown", "no_events"),
        "steps-equal": ("unknown", "no_events"),
    }
    assert all(check["actual"] is None for check in found.values())
    found = checks(run_gpumem, path, "--leaks=none", "--steps-equal")
    assert {name: check["reason"] for name, check in found.items()} == {"leaks": "too_few_steps", "steps-equal": "too_few_steps"}
    assert all(check["actual"] is None for check in found.values())


def test_leaks_and_steps_of_each_device_are_checked(run_gpumem, tmp_path):
    """Of two devices, the one with the lower peak keeps a block in each step; a third is used once."""

    def at(line):
        return (("f", line, "step"), ("train.py", line, "main"))

    def trace(base, size, kept):
        for step in range(10):
            for i, line in enumerate((10, 11)):
                yield entry("alloc", base + 16 * i, size, *at(line)) | {"time_us": (clock := 10 * step + 2 * i)}
                yield entry("free_requested", base + 16 * i, size, *at(line)) | {"time_us": clock + 1}
                yield entry("free_completed", base + 16 * i, size, *at(line)) | {"time_us": clock + 1}
            if kept:
                yield entry("alloc", base + 64 + 16 * step, kept, *at(12)) | {"time_us": 10 * step + 5}

    once = [entry("alloc", 1 << 20, 512, *at(10)) | {"time_us": 3}]
    path = snapshot(tmp_path / "two.pickle", trace(1 << 12, 64 << 20, 0), trace(1 << 16, 1 << 20, 1 << 20), once)

    def verdicts(*words):
        (file,) = run_gpumem("assert", path, "--allow-gaps", "--leaks=none", "--steps-equal", *words, "--json").json()["files"]
        return {(check["check"], check["device"]): check["verdict"] for check in file["checks"]}

    clean = {("leaks", 0): "holds", ("steps-equal", 0): "holds"}
    leaky = {("leaks", 1): "fails", ("steps-equal", 1): "fails"}
    assert verdicts("--device=0") == clean
    assert verdicts("--device=1") == leaky
    assert verdicts("--device=2") == {("leaks", 2): "holds", ("steps-equal", 2): "unknown"}
    assert verdicts() == {**clean, **leaky, ("leaks", 2): "holds"}
    text = run_gpumem("assert", path, "--allow-gaps", "--leaks=none", "--steps-equal").out
    for question in ("leaks", "steps"):
        (command,) = re.findall(rf"fails +{question}[a-z-]* of cuda:1: .*\(`gpumem ({question} --device 1)` shows more\)", text)
        shown = run_gpumem(*command.split(), path)
        assert "cuda:1" in shown.out.splitlines()[0] and ("f:12 in step" in shown.out) == (question == "leaks")
        assert f"The recording has 2 more devices, such as cuda:0: `gpumem {question}` asks about that one.\n" in shown.out
        assert f"such as cuda:1: `gpumem {question} --device 1` asks about that one.\n" in run_gpumem(question, path).check().out
        assert run_gpumem(question, path, "--device", "1", "--json").json()["device"] == 1
        assert "the recording has no such device" in run_gpumem(question, path, "--device", "7").check(2).err


def test_a_device_that_is_first_used_after_the_steps_has_no_leak_to_examine(run_gpumem, tmp_path):
    """Unless a line leaves blocks there again and again."""

    def at(line):
        return (("f", line, "step"), ("train.py", line, "main"))

    def step(base, number, first, line, kept=False):
        yield entry("alloc", base + 16 * number, 1 << 20, *at(line)) | {"time_us": first + 10 * number}
        if not kept:
            yield entry("free_requested", base + 16 * number, 1 << 20, *at(line)) | {"time_us": first + 10 * number + 1}
            yield entry("free_completed", base + 16 * number, 1 << 20, *at(line)) | {"time_us": first + 10 * number + 1}

    steps = [made for number in range(10) for line in (10, 11) for made in step(1 << 12, number, line, line)]
    later = [entry("alloc", 1 << 20, 32 << 20, *at(20)) | {"time_us": 1000}]
    path = snapshot(tmp_path / "later.pickle", steps, later)
    words = ("assert", path, "--allow-gaps", "--leaks=none", "--steps-equal", "--json")
    checks = run_gpumem(*words).check().json()["files"][0]["checks"]
    assert [(check["device"], check["verdict"]) for check in checks] == 2 * [(0, "holds")]
    checks = run_gpumem(*words, "--device=1").check(1).json()["files"][0]["checks"]
    assert [(check["device"], check["reason"]) for check in checks] == [(1, "not_examined"), (1, "too_few_steps")]
    again = [made for number in range(10) for made in step(1 << 20, number, 1000, 20, kept=True)]
    path = snapshot(tmp_path / "leaks.pickle", steps, again)
    checks = run_gpumem("assert", path, "--allow-gaps", "--leaks=none", "--json").check(1).json()["files"][0]["checks"]
    assert [(check["device"], check["verdict"]) for check in checks] == [(0, "holds"), (1, "unknown")]


def test_growth_is_measured_from_the_baseline(run_gpumem, recorded):
    before, after = recorded([64] * 5), recorded([80] * 4)
    percent = 100 * (16 << 20) // before[1]
    assert percent == 16 or TORCH_VERSION < (2, 15)  # before, PyTorch keeps cuBLAS's workspaces
    for limit, holds in ((f"{percent + 1}%", True), (f"{percent}%", False), (f"{16 << 20}", True), (f"<{16 << 20}", False)):
        check = checks(run_gpumem, after[0], "--baseline", before[0], f"--growth={limit}")["growth"]
        assert (check["actual"], check["baseline"]) == (after[1] - before[1], before[1]) == (16 << 20, before[1])
        assert check["verdict"] == ("holds" if holds else "fails"), limit
    smaller = checks(run_gpumem, before[0], "--baseline", after[0], "--growth=0%")["growth"]
    assert (smaller["verdict"], smaller["actual"]) == ("holds", 0)


@pytest.fixture(scope="module")
def killed(recorded):
    """The recording may lack its last events."""
    return recorded(KILLED)[0]


def test_an_incomplete_recording_proves_only_what_it_contains(run_gpumem, killed):
    assert not run_gpumem("info", killed, "--json").json()["complete"]
    words = (killed, "--peak=4GiB", "--no-oom", "--leaks=none", "--steps-equal")
    within = checks(run_gpumem, *words)
    assert {check["reason"] for check in within.values()} == {"incomplete"} and {check["verdict"] for check in within.values()} == {"unknown"}
    assert {check["verdict"] for check in checks(run_gpumem, *words, "--allow-gaps").values()} == {"holds"}
    assert checks(run_gpumem, killed, "--peak=1MiB")["peak"]["verdict"] == "fails"  # more than that was recorded
    assert checks(run_gpumem, killed, "--baseline", killed, "--growth=0%")["growth"]["reason"] == "no_baseline"


def test_caught_errors_count(run_gpumem, tmp_path):
    program, path = tmp_path / "caught.py", tmp_path / "run.gpumem"
    program.write_text(
        "import torch\nfor _ in range(2):\n    try:\n        torch.empty(1 << 40, dtype=torch.uint8, device='cuda')\n"
        "    except torch.OutOfMemoryError:\n        pass\nkept = torch.ones(1000, device='cuda')\n"
    )
    run_gpumem("run", "--sim=8GiB", "-o", path, "--", PYTHON, program).check()
    check = checks(run_gpumem, path, "--no-oom")["no-oom"]
    assert (check["verdict"], check["actual"]) == ("fails", 2)


def test_memory_outside_pytorch_is_not_a_separate_device(run_gpumem, tmp_path):
    program, path = tmp_path / "takes.py", tmp_path / "run.gpumem"
    program.write_text(
        "import ctypes, torch\nkept = torch.ones(1 << 20, device='cuda')\n"
        "ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(64 << 20))\n"
    )
    run_gpumem("run", "--sim=8GiB", "-o", path, "--", PYTHON, program).check()
    assert "cuda:0 beside PyTorch" in run_gpumem("info", path).check().out
    (file,) = run_gpumem("assert", path, "--peak=1GiB", "--json").check().json()["files"]
    assert [(check["device"], check["actual"]) for check in file["checks"]] == [(0, 4 << 20)]


def test_checks_of_random_programs_have_the_expected_verdicts(run_gpumem, recorded):
    chance = random.Random(7)
    for peaks in RANDOM:
        path, allocated, _ = recorded(peaks)
        differ = (max(peaks[1:]) - min(peaks[1:])) << 20
        limit = chance.choice([0, differ, max(differ - 1, 0), 16 << 20])
        found = checks(run_gpumem, path, f"--steps-equal={limit}", f"--peak={allocated}")
        assert found["steps-equal"]["actual"] == differ, peaks
        assert found["steps-equal"]["verdict"] == ("holds" if differ <= limit else "fails")
        assert found["peak"]["verdict"] == "holds"


def test_several_recordings_are_shown_one_after_the_other(run_gpumem, recorded):
    first, second = recorded([64] * 5)[0], recorded([64, 64, 64, 80, 64])[0]
    answer = run_gpumem("assert", first, second, "--steps-equal")
    assert answer.status == 1
    lines = answer.out.splitlines()
    assert [lines[0], lines[2]] == [os.fspath(first), os.fspath(second)]
    assert lines[1].startswith("  holds    steps-equal of cuda:0: ") and lines[3].startswith("  fails    steps-equal of cuda:0: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to check"),
        (("--peak=much",), "'much' is not a limit"),
        (("--peak=5%",), "'5%' is not a limit"),
        (("--peak=<",), "'<' is not a limit"),
        (("--peak=-1",), "'-1' is not a limit"),
        (("--growth=5%",), "go together"),
        (("--baseline=other",), "go together"),
        (("--baseline=other", "--growth=-5%"), "'-5%' is not a limit"),
        (("--baseline=other", "--growth=nan%"), "'nan%' is not a limit"),
        (("--leaks=some",), "'some' is not a limit"),
        (("--peak=1GiB", "--device=x"), "'x' is not a number"),
    ],
)
def test_wrong_limits_are_refused(run_gpumem, words, message):
    answer = run_gpumem("assert", "run.gpumem", *words)
    assert answer.status == 2 and message in answer.err and answer.out == ""


@pytest.mark.parametrize("limit", ["--peak=<0", "--leaks=< 0", "--steps-equal=<0MiB", "--growth=<0%"])
def test_a_limit_that_can_never_hold_is_refused(run_gpumem, recorded, limit):
    path = recorded(EVEN)[0]
    answer = run_gpumem("assert", path, *(("--baseline", path) if "growth" in limit else ()), limit)
    assert answer.status == 2 and "less than 0 can never hold" in answer.err and answer.out == ""


def test_a_recording_that_is_not_there_is_an_error(run_gpumem, recorded, tmp_path):
    missing, there = tmp_path / "missing.gpumem", recorded([64] * 5)[0]
    for words in ((missing, "--peak=1GiB"), (there, missing, "--peak=1GiB"), (there, "--baseline", missing, "--growth=5%")):
        answer = run_gpumem("assert", *words)
        assert answer.status == 3 and "missing.gpumem" in answer.err and answer.out == ""
    assert run_gpumem("assert", "--peak=1GiB").status == 2
