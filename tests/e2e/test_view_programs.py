"""Pages of programs that they were not made for: what they show is what the commands say, without an error and without a request."""

import hashlib
import json
import os
import pickle
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Opened  # noqa: E402
from pages import CARD, STATE, blocks_at, check_cards, check_condition, check_hands, check_totals, ten_moments, view  # noqa: E402
from view_fits import SIZES, check_fits  # noqa: E402

from conftest import EXAMPLES, PYTHON, ROOT, has_module  # noqa: E402

sys.path.insert(0, str(ROOT / "tests" / "tools"))
import compare_snapshots  # noqa: E402
import view_picture  # noqa: E402

PROGRAMS = Path(__file__).parent / "programs"
FIGURES = Path(__file__).parent / "data" / "real_gpu"
# The words of `gpumem run` before the program, the program and its words, and what it needs beside PyTorch.
GPT = "a GPT with checkpoints"
RECORDED = {
    GPT: ([], [EXAMPLES / "gpt.py"], []),
    "transformers' Trainer, DDP's rank 3 of 8": (["--rank", "3", "--world", "8"], [PROGRAMS / "sim_trainer.py", "ddp"], ["transformers", "accelerate"]),
    "inference with caches of keys and values": ([], [PROGRAMS / "scripts" / "generate.py"], ["transformers"]),
    "CUDA graphs in private pools": ([], [PROGRAMS / "scripts" / "cuda_graphs.py"], []),
}
LONG = ("inference with caches of keys and values", "transformers' Trainer, DDP's rank 3 of 8")
REAL = ["attention", "transformer_128_training"]


@pytest.fixture(scope="module")
def recordings(request, run_gpumem, tmp_path_factory):
    """{name: its recording, or the module that is missing} of the programs that tests ask for; two at a time."""

    def record(name):
        words, program, needs = RECORDED[name]
        for module in needs:
            if not has_module(module):
                return module
        folder = tmp_path_factory.mktemp("program")
        path = folder / f"{program[0].stem}.gpumem"
        run_gpumem("run", "--sim", *words, "-o", path, "--", PYTHON, "-W", "ignore", *program, cwd=folder).check()
        return path

    asked = [name for name in RECORDED if name == GPT or any(f"[{name}" in item.name for item in request.session.items)]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(asked, pool.map(record, asked)))


def real_snapshot(name, path):
    """A snapshot of a real GPU (docs/real-gpus.md): the public file itself where GPUMEM_REAL_SNAPSHOTS names a folder that has it, else one
    with its events. The figures have no addresses and no stacks: each size is freed in the order of its allocations, and addresses are
    given out anew."""
    figures = json.loads((FIGURES / f"{name}.json").read_text())
    for file in Path(os.environ["GPUMEM_REAL_SNAPSHOTS"]).iterdir() if "GPUMEM_REAL_SNAPSHOTS" in os.environ else ():
        if hashlib.sha256(file.read_bytes()).hexdigest() == figures["sha256"]:
            shutil.copy(file, path)
            return path
    trace, used, next_address = [], {}, 1 << 40
    for i, (action, size) in enumerate(compare_snapshots.expand(figures["events"])):
        if action in ("alloc", "segment_alloc"):
            address, next_address = next_address, next_address + (size + 511) // 512 * 512
            used.setdefault((action, size), []).append(address)
        elif action == "free_requested":
            address = used["alloc", size].pop(0)
            used.setdefault((action, size), []).append(address)
        else:
            address = used[{"free_completed": "free_requested", "segment_free": "segment_alloc"}[action], size].pop(0)
        frames = [{"filename": "train.py", "line": 1 + i % 7, "name": "step"}]
        trace.append({"action": action, "addr": address, "size": size, "stream": 0, "frames": frames})
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}))
    return path


@pytest.fixture(scope="module", params=[*(pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in RECORDED), *REAL])
def recording(request, recordings, tmp_path_factory):
    if request.param in REAL:
        return real_snapshot(request.param, tmp_path_factory.mktemp("real") / f"{request.param}.pickle")
    path = recordings[request.param]
    if isinstance(path, str):
        pytest.skip(f"the tests' Python has no {path}")
    return path


@pytest.fixture(scope="module")
def opened(chromium, recording, run_gpumem):
    with Opened(chromium, view(run_gpumem, recording)) as shown:
        yield shown


def test_the_page_opens_without_an_error_and_without_a_request(opened):
    assert opened.evaluate("document.documentElement.dataset.ready") == "yes"
    opened.wait("() => gpumem.recording.device.detailed")
    for key in ("p", "w", "d", "s", "Home"):
        opened.locator("#plot").focus()
        opened.keyboard.press(key)
    opened.evaluate("() => gpumem.view.setBlock(0)")
    opened.wait("() => document.querySelector('#card h2').textContent.startsWith('Block #')")
    assert opened.said == []


def test_totals_of_ten_moments_are_those_of_blocks(opened, recording, run_gpumem):
    check_totals(opened, recording, run_gpumem)


def test_cards_of_blocks_are_what_why_says(opened, recording, run_gpumem):
    assert check_cards(opened, recording, run_gpumem, 8) > 3


def test_hands_zoom_pan_and_choose(opened):
    check_hands(opened)
    assert opened.said == []


def test_conditions_select_what_where_selects(opened, recording, run_gpumem):
    """Sizes, categories, phases, steps and a line that are there, and a search for that line."""
    peak = opened.evaluate("gpumem.recording.device.facts.peak_event")
    told = blocks_at(run_gpumem, recording, peak)
    largest = told["blocks"][0]
    half = told["blocks"][len(told["blocks"]) // 2]["size"]
    line = f"{Path(largest['site']['file']).name}:{largest['site']['line']}"
    conditions = [f"size>{half}", f"category={largest['category']}", f"phase!={largest['phase']}", "step>1 or step=0", f"line={line}", f"not line={line} and size<={half}", "dtype~float", "stream=0"]  # fmt: skip
    parts = 0
    for event in {*ten_moments(recording, run_gpumem)[4::4], peak}:
        for condition in conditions:
            some, whole = check_condition(opened, recording, run_gpumem, condition, event)
            parts += 0 < some < whole
    assert parts > 3


@pytest.mark.parametrize("size", SIZES)
def test_each_view_fits_the_window(chromium, request, opened, size):
    """build/screenshots/ has the pictures."""
    width, height = SIZES[size]
    name = request.node.callspec.params["recording"]
    with Opened(chromium, opened.path, viewport={"width": width, "height": height}) as shown:
        shown.wait("() => gpumem.recording.device.detailed")
        shown.evaluate("() => gpumem.view.setBlock(3)")
        shown.wait(CARD, "Block #")
        check_fits(shown, f"{name}-{size}")
        assert shown.said == []


def test_the_peak_is_that_of_info(opened, recording, run_gpumem):
    devices = run_gpumem("info", recording, "--json").check().json()["devices"]
    shown = opened.evaluate("gpumem.recording.device.facts")
    (told,) = [device for device in devices if device["device"] == shown["device"] and device["events"] == shown["events"]]
    assert (shown["peak_event"], shown["peak_allocated"]) == (told["peak_event"], told["peak_allocated"])
    assert opened.evaluate(STATE, shown["peak_event"])["allocated"] == told["peak_allocated"]


@pytest.fixture
def gpt(recordings, run):
    version = run([PYTHON, "-c", "import importlib.metadata as m; print(m.version('torch'))"]).check().out.strip()
    if f"torch=={version}" not in (ROOT / "scripts" / "requirements.txt").read_text():
        pytest.skip(f"the pictures are of another PyTorch than {version}")
    return recordings[GPT]


def test_the_svg_in_the_documents_is_the_one_that_is_made(gpt, run_gpumem, tmp_path):
    """tests/tools/view_picture.py makes it anew."""
    run_gpumem("view", gpt, "--svg", tmp_path / "made.svg").check()
    assert (tmp_path / "made.svg").read_text() == (ROOT / "docs" / "view-gpt.svg").read_text()


def test_the_png_in_the_documents_shows_what_is_recorded(gpt, gpumem):
    """tests/tools/view_picture.py makes it anew."""
    assert view_picture.told(ROOT / "docs" / "view-gpt.png") == view_picture.shown(gpt, gpumem)


@pytest.mark.long
def test_the_png_of_two_recordings_shows_what_is_recorded(gpt, gpumem, run_gpumem, tmp_path):
    """tests/tools/view_picture.py makes it anew."""
    other = tmp_path / "bf16.gpumem"
    run_gpumem("run", "--sim", "-o", other, "--", PYTHON, "-W", "ignore", EXAMPLES / "gpt.py", "bf16", cwd=tmp_path).check()
    assert view_picture.told(ROOT / "docs" / "view-compare.png") == view_picture.compared(gpt, other, gpumem)
