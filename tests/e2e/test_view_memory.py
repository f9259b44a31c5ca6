"""The page's segments: laid out and added up as `gpumem segments --at` has them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Opened  # noqa: E402
from pages import CARD, entry, snapshot, ten_moments, view  # noqa: E402
from view_page import opened, page, recording  # noqa: E402, F401

from conftest import PYTHON  # noqa: E402

PROGRAMS = Path(__file__).parent / "programs"
LAYOUT = """async (moment) => {
    const { memory, view, tabs } = gpumem;
    tabs.choose("memory");
    view.setMoment(moment);
    await memory.show();
    const { segments, ...sums } = memory.state;
    return { ...sums, segments: segments.map(({ parts, ...one }) => ({ ...one, parts: parts.map((part) => ({ ...part, block: part.block < 0 ? null : view.device.alloc[part.block] })) })) };
}"""
SUMS = {"reserved": "reserved", "allocated": "allocated", "pending": "pending", "free": "free", "largest_free": "largestFree", "holes": "holes"}
OF_SEGMENT = {"size": "size", "used": "used", "pending": "pending", "free": "free", "largest_free": "largestFree", "holes": "holes", "stream": "stream", "expandable": "mapped"}


def check(opened, path, event, run_gpumem):
    """The page at a moment has each segment and each part of the command; returns the command's answer."""
    told = run_gpumem("segments", path, f"--at={event}", "--json").check().json()
    shown = opened.evaluate(LAYOUT, event)
    assert {name: shown[own] for name, own in SUMS.items()} == {name: told[name] for name in SUMS}, event
    assert len(shown["segments"]) == len(told["segments"])
    for one, other in zip(shown["segments"], told["segments"]):
        assert hex(one["address"]) == other["address"]
        assert {name: one[own] for name, own in OF_SEGMENT.items()} == {name: other[name] for name in OF_SEGMENT}
        parts = [(hex(part["address"]), part["size"], part["state"], part["block"]) for part in one["parts"]]
        assert parts == [(part["address"], part["size"], part["state"], part.get("block")) for part in other["blocks"]]
    return told


def test_segments_of_ten_moments_are_those_of_the_command(opened, recording, run_gpumem):
    answers = [check(opened, recording, event, run_gpumem) for event in ten_moments(recording, run_gpumem)]
    assert max(answer["holes"] for answer in answers) > 1
    assert opened.said == []


def test_segments_that_are_mapped_and_unmapped(chromium, run_gpumem, tmp_path):
    path = tmp_path / "churn.gpumem"
    run_gpumem("run", "--sim", "-o", path, "--", PYTHON, PROGRAMS / "expandable_churn.py", env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}).check()
    with Opened(chromium, view(run_gpumem, path)) as shown:
        answers = [check(shown, path, event, run_gpumem) for event in ten_moments(path, run_gpumem)]
        assert any(one["expandable"] for answer in answers for one in answer["segments"])
        assert shown.said == []


MIB = 1 << 20


def test_parts_that_wait_and_blocks_from_before_the_recording(chromium, run_gpumem, tmp_path):
    base = 1 << 40
    trace = [
        entry("segment_alloc", base, 20 * MIB),
        entry("alloc", base, 4 * MIB),
        entry("alloc", base + 6 * MIB, 2 * MIB),
        entry("free_requested", base, 4 * MIB),
        entry("segment_map", base + 32 * MIB, 2 * MIB),
        entry("free_requested", base + 8 * MIB, MIB),  # it was there before
        entry("segment_map", base + 34 * MIB, 2 * MIB),
        entry("free_completed", base, 4 * MIB),
        entry("segment_map", base + 30 * MIB, 2 * MIB),
        entry("free_completed", base + 10 * MIB, MIB),
        entry("segment_unmap", base + 33 * MIB, MIB),
        entry("alloc", base + 19 * MIB, 3 * MIB),  # beyond the segment's end
        entry("alloc", base + 20 * MIB, MIB),
        entry("segment_free", base, 20 * MIB),
    ]
    path = snapshot(tmp_path / "parts.pickle", trace)
    with Opened(chromium, view(run_gpumem, path)) as shown:
        events = run_gpumem("info", path, "--json").check().json()["events"]
        answers = [check(shown, path, event, run_gpumem) for event in range(events)]
        assert any(answer["pending"] for answer in answers)
        assert max(len(answer["segments"]) for answer in answers) == 3
        assert shown.said == []


def test_a_click_chooses_the_block_there_and_a_segment_can_be_shown_alone(opened, recording, run_gpumem):
    peak = run_gpumem("info", recording, "--json").json()["devices"][0]["peak_event"]
    opened.evaluate(LAYOUT, peak)
    place = opened.evaluate(
        """() => {
            const { places, rowWidth, canvas } = gpumem.memory;
            const one = places.find(({ part }) => part.block >= 0);
            const at = (one.from + Math.min(one.to, (Math.floor(one.from / rowWidth) + 1) * rowWidth)) / 2;
            const box = canvas.getBoundingClientRect();
            return { block: gpumem.view.device.alloc[one.part.block], x: box.left + (at % rowWidth), y: box.top + Math.floor(at / rowWidth) * 26 + 10 };
        }"""
    )
    opened.mouse.move(place["x"], place["y"])
    assert f"block #{place['block']}" in opened.locator("#memory-readout").inner_text()
    opened.mouse.click(place["x"], place["y"])
    title = f"Block #{place['block']},"
    opened.wait(CARD, title)
    segment = opened.locator("#segments button").nth(1)
    address = segment.inner_text().split()[0]
    segment.click()
    opened.wait("address => gpumem.memory.only === Number(address) && new Set(gpumem.memory.places.map((one) => one.segment.address)).size === 1", address)
    opened.locator("#memory-all").click()
    opened.wait("() => new Set(gpumem.memory.places.map((one) => one.segment.address)).size > 1")


ASKED = """async ([moment, bytes, stream]) => {
    const { memory, view, tabs } = gpumem;
    tabs.choose("memory");
    view.setMoment(moment);
    await memory.show();
    document.getElementById("request-text").value = bytes;
    document.getElementById("request-stream").value = stream;
    document.querySelector("#request button").click();
    const { holes, part, ...told } = memory.asks;
    const { tooSmall: too_small, otherStream: other_stream, otherPool: other_pool } = holes;
    return { ...told, at: part && memory.text(part.address), too_small, other_stream, other_pool, said: document.getElementById("request-answer").innerText };
}"""


def check_request(opened, path, event, size, stream, run_gpumem):
    told = run_gpumem("segments", path, f"--at={event}", f"--request={size}", f"--stream={stream}", "--json").check().json()["request"]
    shown = opened.evaluate(ASKED, [event, str(size), str(stream)])
    assert {name: shown[name] for name in ("bytes", "rounded", "segment", "stream", "fits", "at")} == {
        name: told[name] for name in ("bytes", "rounded", "segment", "stream", "fits", "at")
    }
    for kind in ("too_small", "other_stream", "other_pool"):
        assert shown[kind] == {"count": told[kind]["holes"], "bytes": told[kind]["bytes"], "largest": told[kind]["largest"]}, kind
    assert (told["at"] or "fits in no free part") in shown["said"]
    return told


def test_what_a_request_would_get_is_what_segments_says(opened, recording, run_gpumem):
    found = []
    for event in ten_moments(recording, run_gpumem)[2::3]:
        for size in ("1", "1048576", "1048577", "3MiB", "9.5MiB", "10MiB", "400MiB"):
            for stream in (0, 7):
                found.append(check_request(opened, recording, event, size, stream, run_gpumem))
    assert {one["fits"] for one in found} == {True, False}
    assert all(any(one[kind]["holes"] for one in found) for kind in ("too_small", "other_stream", "other_pool"))
    opened.evaluate("() => { document.getElementById('request-text').value = 'much'; document.querySelector('#request button').click(); }")
    assert "is not a size" in opened.locator("#request-answer").inner_text()
    opened.evaluate("() => { document.getElementById('request-text').value = ''; document.querySelector('#request button').click(); }")
    assert opened.locator("#request-answer").inner_text() == "" and opened.said == []


def test_addresses_above_what_a_number_holds(chromium, run_gpumem, tmp_path):
    base = 0xFFFF_8000_0000_0000
    trace = [entry("segment_alloc", base, 2 * MIB), entry("alloc", base + 512, 512), entry("alloc", base + 1536, 512)]
    path = snapshot(tmp_path / "high.pickle", trace)
    with Opened(chromium, view(run_gpumem, path)) as shown:
        told = run_gpumem("segments", path, "--at=2", "--json").check().json()
        layout = shown.evaluate(LAYOUT, 2)
        texts = shown.evaluate("parts => parts.map((one) => gpumem.memory.text(one.address))", layout["segments"][0]["parts"])
        assert texts == [part["address"] for part in told["segments"][0]["blocks"]] and len(texts) == 5
        assert told["segments"][0]["address"] in shown.locator("#segments").inner_text()
        assert check_request(shown, path, 2, "512", 0, run_gpumem)["fits"]
        assert shown.said == []


def test_a_recording_without_segments_says_so(chromium, run_gpumem, tmp_path):
    with Opened(chromium, view(run_gpumem, snapshot(tmp_path / "none.pickle", [entry("alloc", 4096, 512)]))) as shown:
        assert shown.evaluate(LAYOUT, 0)["segments"] == []
        assert "No segments are known" in shown.locator("#memory-sums").inner_text()
        assert shown.locator("#memory").is_hidden()
        assert shown.said == []
