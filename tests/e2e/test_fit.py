"""gpumem fit: the largest value with which a real program fits a simulated device."""

import os
import re
import signal
import subprocess

import pytest
from conftest import PYTHON
from schemas import problems

MIB = 1 << 20
# Calls CUDA directly, through the preloaded library: a run is fast.
TAKES = """
import ctypes, sys
cuda, at = ctypes.CDLL(None), ctypes.c_void_p()
sys.exit(cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(int(sys.argv[1]) << 20)))
"""
FREE = """
import ctypes
free, total = ctypes.c_size_t(), ctypes.c_size_t()
ctypes.CDLL(None).cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
print(free.value >> 20)
"""


def room_of(run_gpumem, device):
    return int(run_gpumem("run", f"--sim={device}", "--", PYTHON, "-c", FREE).check().out) // 2 * 2


@pytest.fixture(scope="module")
def room(run_gpumem):
    """MiB that a program gets on a device of 512 MiB, in whole pages of 2 MiB."""
    return room_of(run_gpumem, "512MiB")


def test_the_largest_value_is_the_device_s_free_memory(run_gpumem, room):
    words = ["--vary", f"size=1..{room + 100}", "--json"]
    answer = run_gpumem("fit", "--sim=512MiB", *words, "--", PYTHON, "-c", TAKES, "{size}").check().json()
    assert (answer["name"], answer["largest"], answer["assumes"]) == ("size", room, "monotonic")
    runs = {run["value"]: run for run in answer["runs"]}
    assert runs[room]["fits"] and not runs[room + 1]["fits"]
    assert runs[room]["peak_reserved"] == room * MIB


def test_the_table_has_a_row_for_each_run_and_says_what_it_assumes(run_gpumem):
    finished = run_gpumem("fit", "--sim=512MiB", "--vary=n=1..2", "--", PYTHON, "-c", TAKES, "{n}").check()
    assert re.findall(r"^ +(\d+)  fits +2\.00 MiB", finished.out, re.M) == ["1", "2"]
    assert "n = 2 is the largest that fits 512MiB (512.00 MiB): it takes 2.00 MiB." in finished.out
    assert "more may fit" in finished.out


def test_pytorch_s_own_out_of_memory_error_is_what_does_not_fit(run_gpumem):
    program = "import sys, torch; torch.empty(int(sys.argv[1]) << 20, dtype=torch.uint8, device='cuda')"
    words = ["--vary=n=600..601", "--json"]
    answer = run_gpumem("fit", "--sim=512MiB", *words, "--", PYTHON, "-c", program, "{n}").check(1).json()
    assert answer["largest"] is None and [run["fits"] for run in answer["runs"]] == [False]


def test_nothing_that_fits_is_a_negative_answer(run_gpumem):
    finished = run_gpumem("fit", "--sim=512MiB", "--vary=n=600..700", "--", PYTHON, "-c", TAKES, "{n}").check(1)
    assert "Not even n = 600 fits 512MiB" in finished.out


def test_a_program_that_fails_for_another_reason_is_shown_with_its_last_lines(run_gpumem):
    program = "import sys; sys.exit('no such data set ' + sys.argv[1])"
    finished = run_gpumem("fit", "--vary", "n=1..9", "--", PYTHON, "-c", program, "x{n}").check(4)
    assert "with {n} = 1 the program ended with status 1, but not because device memory ran out" in finished.err
    assert "program's last lines:\n  no such data set x1\n" in finished.err


def test_several_devices_and_values_give_a_table_and_the_smallest_device(run_gpumem, room):
    words = ["--sim=512MiB,256MiB", "--vary=size=1..4096", "--vary=times=1,4", "--json"]
    program = TAKES.replace("<< 20", "* int(sys.argv[2]) << 20")
    answer = run_gpumem("fit", *words, "--", PYTHON, "-c", program, "{size}", "{times}").check().json()
    rows = {(one["device"], one["values"]["times"]): one for one in answer["table"]}
    small = room_of(run_gpumem, "256MiB")
    assert {key: one["largest"] for key, one in rows.items()} == {
        ("512MiB", "1"): room, ("512MiB", "4"): room // 4, ("256MiB", "1"): small, ("256MiB", "4"): small // 4
    }  # fmt: skip
    # a search on another device begins near its end
    assert len(rows["256MiB", "1"]["runs"]) < len(rows["512MiB", "1"]["runs"])
    cheapest = [answer["table"][number] for number in answer["cheapest"]]
    assert [(one["device"], one["values"]["times"]) for one in cheapest] == [("256MiB", "1"), ("256MiB", "4")]
    assert (answer["largest"], answer["name"]) == (room, "size") and problems("fit", answer) == []


def test_the_cheapest_device_is_that_of_the_prices_given(run_gpumem):
    words = ["--sim=256MiB,512MiB,1GiB", "--price=1GiB=2.5", "--price", "512MiB=3", "--vary=size=300,700"]
    done = run_gpumem("fit", *words, "--", PYTHON, "-c", TAKES, "{size}").check()
    assert "The cheapest device on which the program fits:\n  size = 300: 1GiB (1.00 GiB) at 2.5\n  size = 700: 1GiB" in done.out
    rows = re.findall(r"^(\d+[MG]iB) +\S+ GiB|^(\d+MiB) +\S+ MiB", done.out, re.M)
    assert len(rows) == 6 and len(re.findall(r" yes ", done.out)) == 3 and len(re.findall(r" no ", done.out)) == 3
    # without prices: by memory
    plain = run_gpumem("fit", words[0], "--vary=size=300", "--", PYTHON, "-c", TAKES, "{size}").check()
    assert "The smallest device on which the program fits:\n  size = 300: 512MiB (512.00 MiB)\n" in plain.out


# Eight blocks in sequence; --saving is an option of the program that does what the measure does.
BLOCKS = """
import sys, torch
from torch.utils.checkpoint import checkpoint_sequential
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.back = torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 256)
    def forward(self, x):
        return x + self.back(torch.relu(self.wide(x)))
model = torch.nn.Sequential(*(Block() for _ in range(8))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    data = torch.randn(int(sys.argv[1]), 512, 256, device="cuda")
    out = checkpoint_sequential(model, 8, data, use_reentrant=False) if "--saving" in sys.argv else model(data)
    out.square().mean().backward()
    optimizer.step()
    if "--reset" in sys.argv: optimizer.zero_grad(set_to_none=False)
    else: optimizer.zero_grad()
    del out, data
print(sys.argv[1:], file=open(sys.argv[2], "a"))
"""


def test_a_measure_is_applied_to_the_program_and_does_what_its_own_switch_does(run_gpumem, tmp_path):
    program, log = tmp_path / "blocks.py", tmp_path / "ran"
    program.write_text(BLOCKS)
    ways = ["checkpoint", "switch=--saving", "checkpoint:Linear", "checkpoint:Nothing", "fused_optimizer", "offload_activations", "autocast"]
    words = [word for way in ways for word in ("--with", way)]
    answer = run_gpumem("fit", "--sim=2GiB", "--vary=batch=8", *words, "--json", "--", PYTHON, program, "{batch}", log, timeout=600).check().json()
    rows = {one["with"]: one for one in answer["table"]}
    peak = {name: one["peak_allocated"] for name, one in rows.items()}
    assert list(rows) == [None, *(way.partition("=")[0] for way in ways)] and {one["outcome"] for one in rows.values()} == {"fits"}
    # the same modules in the same kind of checkpoint
    assert abs(peak["checkpoint"] - peak["switch"]) <= 0.02 * peak[None] and peak["checkpoint"] < 0.6 * peak[None]
    assert peak["checkpoint:Nothing"] == peak[None] and rows["checkpoint:Nothing"]["not_applied"] == ["checkpoint:Nothing"]
    assert peak["offload_activations"] < 0.6 * peak[None] and peak["autocast"] < peak[None]
    assert all(not one["not_applied"] for name, one in rows.items() if name != "checkpoint:Nothing")
    assert ["'--saving'" in line for line in log.read_text().splitlines()] == [name == "switch" for name in rows]
    assert problems("fit", answer) == []


def test_a_measure_with_which_the_program_fails_is_shown_in_the_table(run_gpumem):
    program = TAKES + "\nif '--bad' in sys.argv: sys.exit('no such switch')"
    words = ["--sim=512MiB", "--vary=size=1..2", "--with", "bad=--bad --more", "--"]
    done = run_gpumem("fit", *words, PYTHON, "-c", program.replace("sys.exit(cuda", "(cuda"), "{size}").check()
    assert re.search(r"^512MiB +512\.00 MiB +bad +- .* the program fails: no such switch$", done.out, re.M)


def test_the_program_s_own_sitecustomize_is_loaded_too(run_gpumem, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.own = 1")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = ["--sim=512MiB", "--vary=size=1", "--with=autocast", "--json", "--", PYTHON, "-c", "own\n" + TAKES, "{size}"]
    answer = run_gpumem("fit", *words, env=environment).check().json()
    assert [one["outcome"] for one in answer["table"]] == ["fits", "fits"]
    assert answer["table"][1]["not_applied"] == ["autocast"]


# Finds PyTorch itself, in front of whatever was there.
FINDS = """
import sys
from importlib.machinery import PathFinder
class First:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, path, target) if name == "torch" else None
sys.meta_path.insert(0, First)
"""


def test_a_measure_is_applied_where_the_program_finds_pytorch_itself(run_gpumem, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(FINDS)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    program = "import torch\ntorch.optim.AdamW(torch.nn.Linear(64, {size}).cuda().parameters())"
    words = ["--sim=1GiB", "--vary=size=64", "--with=fused_optimizer", "--json", "--", PYTHON, "-c", program]
    answer = run_gpumem("fit", *words, env=environment).check().json()
    assert [(one["outcome"], one["not_applied"]) for one in answer["table"]] == [("fits", []), ("fits", [])]


def test_a_measure_that_a_run_without_memory_does_not_come_to_is_applied(run_gpumem):
    """The optimizer is made after the memory ran out, which is so in the last run, or in each."""
    program = "import torch\ntorch.empty(1 + 600 * ({size} - 1) << 20, dtype=torch.uint8, device='cuda')\ntorch.optim.AdamW(torch.nn.Linear(64, 64).cuda().parameters())"
    for sizes, outcome, unused in (("1..2", "fits", ["set_to_none"]), ("2..3", "does_not_fit", [])):
        words = ["--sim=512MiB", f"--vary=size={sizes}", "--with=fused_optimizer+set_to_none", "--json", "--", PYTHON, "-c", program]
        row = run_gpumem("fit", *words).check(0 if outcome == "fits" else 1).json()["table"][1]
        assert (row["outcome"], row["not_applied"]) == (outcome, unused)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "true", "{n}"], "--vary is missing"),
        (["--vary", "n=5..1", "--", "true", "{n}"], "not NAME=A..B"),
        (["--vary", "n", "--", "true"], "not NAME=A..B"),
        (["--vary", "n=1..5", "--", "true"], "{n} is not in the program's arguments"),
        (["--vary", "n=1..5"], "no program"),
        (["--bogus", "--", "true"], "unknown option"),
        (["--vary", "n=1..5", "--vary", "n=1,2", "--", "true", "{n}"], "the name is taken"),
        (["--vary", "n=1..5", "--vary", "m=1..2", "--", "true", "{n}"], "only one value is searched for"),
        (["--vary", "n=1,,2", "--", "true", "{n}"], "not NAME=A..B"),
        (["--vary", "n=1,2", "--", "true"], "{n} is not in the program's arguments"),
        (["--vary", "n=1,2", "--with", "zero3", "--", "true", "{n}"], "gpumem cannot apply zero3 itself"),
        (["--vary", "n=1,2", "--with", "=x", "--", "true", "{n}"], "a measure has a name"),
        (["--vary", "n=1,2", "--price", "t4=1", "--", "true", "{n}"], "no such device"),
        (["--vary", "n=1,2", "--price", "h100-80gb=x", "--", "true", "{n}"], "not PROFILE=AMOUNT"),
        (["--vary", "n=1,2", "--sim=nothing", "--", "true", "{n}"], "nothing"),
    ],
)
def test_wrong_usage_says_what_to_type(run_gpumem, words, message):
    assert message in run_gpumem("fit", *words).check(2).err


def test_ctrl_c_ends_the_program_and_leaves_nothing_behind(gpumem, tmp_path, wait_for):
    seen = tmp_path / "pid"
    program = f"import os, time; open({str(seen)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    own = tmp_path / "own"
    own.mkdir()
    with subprocess.Popen(
        [str(gpumem), "fit", "--vary=n=1..9", "--", str(PYTHON), "-c", program, "{n}"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(own)},
    ) as process:
        wait_for(lambda: seen.exists() and seen.read_text())
        assert [path.name[:10] for path in own.iterdir()] == ["gpumem-fit"]
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(600) == -signal.SIGINT
    with pytest.raises(ProcessLookupError):
        os.kill(int(seen.read_text()), 0)
    assert not list(own.iterdir())
