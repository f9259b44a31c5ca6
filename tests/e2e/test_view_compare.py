"""`gpumem view A B`: the differences are those of `gpumem diff`, and B's memory lies over A's plot at the same steps and phases."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Opened  # noqa: E402
from hostile import check_text, hostile  # noqa: E402
from pages import blocks_at, entry, snapshot, ten_moments  # noqa: E402
from view_page import recording  # noqa: E402, F401

from conftest import EXAMPLES, PYTHON  # noqa: E402

CELLS = "caption => [...document.querySelectorAll('#compare table')].filter((one) => one.caption.textContent === caption).flatMap((one) => [...one.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)))"


@pytest.fixture(scope="module")
def longer(run_gpumem, tmp_path_factory):
    """Another run of the same program, with two more steps, a larger batch, and no optimizer state."""
    folder = tmp_path_factory.mktemp("longer")
    program = folder / "train_mlp.py"
    text = (EXAMPLES / "train_mlp.py").read_text()
    for old, new in (("steps=3", "steps=5"), ("randn(64", "randn(256"), ("AdamW", "SGD")):
        assert old in text
        text = text.replace(old, new)
    program.write_text(text)
    run_gpumem("run", "--sim", "-o", folder / "longer.gpumem", "--", PYTHON, program).check()
    return folder / "longer.gpumem"


@pytest.fixture(scope="module")
def both(recording, longer, run_gpumem):
    page = longer.with_name("both.html")
    run_gpumem("view", recording, longer, "-o", page).check()
    return page


@pytest.fixture(scope="module")
def shown(chromium, both):
    with Opened(chromium, both) as opened:
        opened.locator("#tab-compare").click()
        yield opened


def diff(run_gpumem, *words):
    return run_gpumem("diff", *words)


def test_the_page_has_the_numbers_of_diff(shown, recording, longer, run_gpumem):
    told = diff(run_gpumem, recording, longer, "--json").check(1).json()
    assert shown.evaluate("gpumem.recording.other.facts.diff") == told
    for table in told["tables"]:
        differ = [group for group in table["groups"] if len(set(group["bytes"])) > 1 or len(set(group["blocks"])) > 1]
        assert differ
        rows = shown.evaluate(CELLS, f"Differences at the peaks, by {table['by']}")
        assert [(int(row[3]), int(row[4])) for row in rows] == [tuple(group["blocks"]) for group in differ]
        if table["by"] == "category":
            assert [row[5].replace(" ", "_") for row in rows] == [group["key"] for group in differ]
    assert shown.said == []


def test_sizes_are_written_as_diff_writes_them(shown, recording, longer, run_gpumem):
    text = diff(run_gpumem, recording, longer).check(1).out
    size = r"[+-]?[\d.]+ [KMGT]?i?B|="
    by_category = text[text.index("blocks A  blocks B  category") :].split("\n\n")[0]
    told = [re.findall(size, line)[:3] for line in by_category.splitlines()[1:]]
    assert [row[:3] for row in shown.evaluate(CELLS, "Differences at the peaks, by category")] == told
    steps = text[text.index("peak A") :].splitlines()[1:]
    told = [re.findall(size, line) for line in steps if re.match(r"\s*\d+(-\d+)? ", line)]
    rows = shown.evaluate(CELLS, "Steps")
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert all([row[3], row[1], row[2], row[6], row[4], row[5]] in told for row in rows)


def test_b_at_a_place_is_what_blocks_says_of_b(shown, recording, longer, run_gpumem):
    found = 0
    for event in ten_moments(recording, run_gpumem):
        there = shown.evaluate("event => gpumem.recording.other.at(event)", event)
        assert there["bytes"] == blocks_at(run_gpumem, longer, there["event"])["allocated"]
        found += there["bytes"] > 0
        shown.evaluate("event => gpumem.view.setMoment(event)", event)
        own = blocks_at(run_gpumem, recording, event)["allocated"]
        words = shown.locator("#compare-moment").inner_text()
        assert any(f"event #{there['event']}{sign}" in words for sign in (", in step", " (")) and f"({there['bytes']:,} bytes)" in words
        assert ("= against A" in words) == (own == there["bytes"])
    assert found > 5


def test_steps_and_phases_stand_over_one_another(shown, recording, longer, run_gpumem):
    firsts = []
    for path in (recording, longer):
        events = run_gpumem("events", path, "--json").json_lines()
        runs = {}
        for event in events:
            runs.setdefault((event["step"], event["phase"]), event["n"])
        firsts.append(runs)
    both = [key for key in firsts[0] if key in firsts[1] and key[0]]
    assert {key[0] for key in both} == {1, 2, 3} and len({key[1] for key in both}) > 3
    for key in both:
        here, there = firsts[0][key], firsts[1][key]
        assert shown.evaluate("event => gpumem.recording.other.alignment.placeOf(event)", there) == here, key
        assert shown.evaluate("event => gpumem.recording.other.alignment.otherAt(event)", here) == there, key


def test_steps_that_a_does_not_have_are_reported_and_not_drawn(shown, longer, run_gpumem):
    assert "2 steps of B are not in A and not drawn." in shown.locator("#compare-words").inner_text()
    steps = run_gpumem("steps", longer, "--json").check().json()["steps"]
    most = max(step["peak"] for step in steps if step.get("step") and step["step"] <= 3)
    heights = shown.evaluate("[...gpumem.recording.other.heights(0, gpumem.view.events, 700)].filter((one) => one === one)")
    assert max(heights) == most
    places = shown.evaluate("[...gpumem.recording.other.line.place]")
    assert places == sorted(places) and places[-1] < shown.evaluate("gpumem.view.events")


def test_a_click_on_a_step_shows_it_in_the_plot(shown):
    shown.locator("#compare button.link", has_text="2").first.click()
    assert shown.evaluate("gpumem.view.runs.stepAt(gpumem.view.moment)") == 2
    assert shown.evaluate("gpumem.view.from") == shown.evaluate("gpumem.view.runs.steps[1].first")


def test_the_line_is_in_the_legend_and_in_the_place_under_the_pointer(shown):
    assert "B: longer.gpumem" in shown.locator("#legend").inner_text()
    assert shown.locator("#title").inner_text() == "A: mlp.gpumem, B: longer.gpumem"
    shown.evaluate("gpumem.view.setRange(0, gpumem.view.events)")
    shown.locator("#plot").hover(position={"x": 500, "y": 200})
    shown.wait("() => document.querySelector('#readout').textContent.includes(' reserved')")
    assert re.search(r" reserved, B [\d.]+ [KMG]?i?B", shown.locator("#readout").inner_text())


def test_a_recording_compared_with_itself_is_the_same(chromium, recording, run_gpumem, tmp_path):
    page = tmp_path / "same.html"
    said = run_gpumem("view", recording, recording, "-o", page, "--json").check().json()
    assert said["compared"] == str(recording)
    with Opened(chromium, page) as opened:
        opened.evaluate("gpumem.tabs.choose('compare')")
        assert "the same peak" in opened.locator("#compare-words").inner_text()
        same = "Array.from({ length: gpumem.view.events }, (_, event) => { const there = gpumem.recording.other.at(event); return there.event === event && there.bytes === gpumem.recording.device.allocatedAt(event); })"
        assert all(opened.evaluate(same))
        assert opened.said == []


def test_a_page_of_one_recording_has_no_view_that_compares(chromium, recording, run_gpumem, tmp_path):
    run_gpumem("view", recording, "-o", tmp_path / "one.html").check()
    with Opened(chromium, tmp_path / "one.html") as opened:
        assert opened.locator("#tab-compare").is_hidden()
        assert "compare" not in opened.evaluate("gpumem.tabs.names")


def test_a_long_recording_keeps_its_peaks(chromium, run_gpumem, tmp_path):
    """More events than the line has points: each point is the maximum of several events."""
    trace = []
    for number in range(40_000):
        size = 1 << 20 if number == 12_345 else 512 * (1 + number % 7)
        trace += [entry("alloc", 1 << 30, size), entry("free_requested", 1 << 30, size), entry("free_completed", 1 << 30, size)]
    long = snapshot(tmp_path / "long.pickle", trace)
    short = snapshot(tmp_path / "short.pickle", trace[:30])
    run_gpumem("view", short, long, "-o", tmp_path / "two.html").check()
    with Opened(chromium, tmp_path / "two.html") as opened:
        assert opened.evaluate("gpumem.recording.other.facts.bucket") == 2
        assert opened.evaluate("Math.max(...gpumem.recording.other.bytes.filter((one) => one > 1 << 19))") == 1 << 20
        opened.evaluate("gpumem.tabs.choose('compare')")
        assert "the most of 2 events" in opened.locator("#compare-moment").inner_text()
        assert opened.said == []


def test_recordings_without_events_and_with_hostile_names_are_compared(chromium, recording, run_gpumem, tmp_path):
    none = snapshot(tmp_path / "none.pickle", [])
    frames = [(f"/{hostile('file')}.py", 7, hostile("name"))]
    evil = snapshot(tmp_path / "evil.pickle", [entry("alloc", 4096, 1 << 20, *frames), entry("alloc", 1 << 30, 512, *frames)])
    for a, b in ((none, recording), (recording, none), (none, none), (recording, evil), (evil, recording)):
        page = tmp_path / "page.html"
        run_gpumem("view", a, b, "-o", page).check()
        with Opened(chromium, page) as opened:
            assert opened.evaluate("document.documentElement.dataset.ready") == "yes"
            if a != none:
                opened.evaluate("gpumem.tabs.choose('compare')")
                check_text(opened.locator("#compare").inner_text().encode(), tabs=True)
            assert opened.said == [], (a.name, b.name)


def test_recordings_that_cannot_be_compared_are_refused(recording, longer, run_gpumem, tmp_path):
    assert "one recording" in run_gpumem("view", recording, longer, "--svg", tmp_path / "a.svg").check(2).err
    assert "--loop" in run_gpumem("view", recording, longer, "--loop", "a.py:1").check(2).err
    assert "which would be lost" in run_gpumem("view", recording, longer, "-o", longer).check(2).err
    (tmp_path / "other").write_text("no recording")
    assert str(tmp_path / "other") in run_gpumem("view", recording, tmp_path / "other", "-o", tmp_path / "a.html").check(3).err
    assert not (tmp_path / "a.html").exists()
