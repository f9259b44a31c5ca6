"""Pages and pictures of recordings that are not as one would wish: they still grow, or little of what they could have is in them."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Opened  # noqa: E402
from pages import STATE, blocks_at, entry, snapshot, view  # noqa: E402

from conftest import PYTHON, wait_until  # noqa: E402

GROWS = """
import sys, time, torch
kept = []
def work(count):
    for _ in range(count):
        kept.append(torch.zeros(1 << 16, device="cuda"))
        if len(kept) > 50:
            del kept[0]
work(200)
print("stands", flush=True)
sys.stdin.readline()
while True:
    work(100)
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def growing(gpumem, tmp_path_factory):
    """A recording of a program that stands still after 200 allocations, and the program: a line from us, and it allocates on and on."""
    folder = tmp_path_factory.mktemp("growing")
    (folder / "grows.py").write_text(GROWS)
    path = folder / "grows.gpumem"
    command = [gpumem, "run", "--sim", "-o", path, "--", PYTHON, folder / "grows.py"]
    with subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        while process.stdout.readline() not in ("stands\n", ""):
            pass
        yield path, process
        subprocess.run(["kill", "-KILL", "--", f"-{process.pid}"], check=True)


def events_of(run_gpumem, path):
    return run_gpumem("info", path, "--json").check().json()["events"]


def test_a_recording_that_is_not_closed_makes_a_page_of_what_is_there(growing, chromium, run_gpumem):
    path, _ = growing
    events = events_of(run_gpumem, path)
    assert events >= 350
    with Opened(chromium, view(run_gpumem, path)) as shown:
        assert shown.evaluate("document.documentElement.dataset.ready") == "yes" and shown.said == []
        assert shown.evaluate("gpumem.recording.head.events") == events
        assert "not closed" in shown.locator("#banner").inner_text()
        for event in range(0, events, events // 10):
            assert shown.evaluate(STATE, event)["allocated"] == blocks_at(run_gpumem, path, event)["allocated"]
    run_gpumem("view", path, "--svg", path.with_suffix(".svg")).check()
    assert "not complete: the process still runs" in path.with_suffix(".svg").read_text()


def test_each_page_of_a_recording_that_grows_is_whole(growing, chromium, run_gpumem):
    """The events that it says it has are all there, and the state after each is that of a later reading."""
    path, process = growing
    before = events_of(run_gpumem, path)
    process.stdin.write("go on\n")
    process.stdin.flush()
    pages = []
    for number in range(4):
        wait_until(lambda: events_of(run_gpumem, path) > before)
        page = path.with_name(f"{number}.html")
        run_gpumem("view", path, "-o", page).check()
        run_gpumem("view", path, "--svg", page.with_suffix(".svg")).check()
        before = events_of(run_gpumem, path)
        pages.append((page, before))
    for page, most in pages:
        assert ElementTree.fromstring(page.with_suffix(".svg").read_text()) is not None
        with Opened(chromium, page) as shown:
            assert shown.evaluate("document.documentElement.dataset.ready") == "yes" and shown.said == []
            events = shown.evaluate("gpumem.recording.head.events")
            assert events <= most
            for event in (events // 2, events - 1):
                assert shown.evaluate(STATE, event)["allocated"] == blocks_at(run_gpumem, path, event)["allocated"]


def test_one_device_of_eight_is_the_one_that_is_shown(chromium, run_gpumem, tmp_path):
    trace = [entry("alloc", 4096 * n, 512 * n) for n in range(1, 9)]
    path = snapshot(tmp_path / "eight.pickle", [], [], [], [], [], trace, [], [])
    with Opened(chromium, view(run_gpumem, path)) as shown:
        assert shown.evaluate("document.documentElement.dataset.ready") == "yes" and shown.said == []
        assert shown.evaluate("gpumem.recording.device.facts.name") == "cuda:5"
        assert not shown.locator("#device").is_visible()  # there is nothing to choose
        assert shown.evaluate(STATE, 7)["allocated"] == 512 * 36
    run_gpumem("view", path, "--svg", tmp_path / "eight.svg").check()
    assert ">cuda:5: peak 18.00 KiB" in (tmp_path / "eight.svg").read_text()


def test_eight_devices_have_their_own_totals(chromium, run_gpumem, tmp_path):
    traces = [[entry("alloc", 4096 * n, 512 * (device + 1)) for n in range(1, 4)] for device in range(8)]
    path = snapshot(tmp_path / "all.pickle", *traces)
    last = events_of(run_gpumem, path) - 1
    with Opened(chromium, view(run_gpumem, path)) as shown:
        for device in range(8):
            shown.locator("#device").select_option(label=f"cuda:{device}")
            shown.wait("name => gpumem.recording.device.facts.name === name && gpumem.recording.device.detailed", f"cuda:{device}")
            told = blocks_at(run_gpumem, path, last, f"--device={device}")
            assert shown.evaluate(STATE, last)["allocated"] == told["allocated"] == 3 * 512 * (device + 1)
        assert shown.said == []


def test_a_file_name_is_text_in_the_page(chromium, run_gpumem, tmp_path):
    path = snapshot(tmp_path / "</title><script>done=1<!--\u202e'\".pickle".replace("/", "_"), [entry("alloc", 4096, 512)])
    with Opened(chromium, view(run_gpumem, path)) as shown:
        assert shown.evaluate("typeof done") == "undefined" and shown.said == []
        assert shown.title() == path.name.replace("\u202e", "\\u202e") + " – gpumem"
