"""`gpumem view`: the page shows the answers of the commands; it uses no network, and names in it are only text."""

import re
import shlex
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Opened  # noqa: E402
from columns import columns_of  # noqa: E402
from hostile import check_text, hostile  # noqa: E402
from pages import CARD, STATE, blocks_at, check_cards, check_hands, check_totals, entry, snapshot, ten_moments, view  # noqa: E402
from view_page import opened, page, recording  # noqa: E402, F401

# --- the command ----------------------------------------------------------------------------------------


def test_the_page_is_written_next_to_the_recording_and_its_path_is_printed(recording, page, run_gpumem, tmp_path):
    said = run_gpumem("view", recording).check()
    assert said.out.startswith(f"{page}: ") and page.exists()
    told = run_gpumem("view", recording, "-o", tmp_path / "page.html", "--json").check().json()
    info = run_gpumem("info", recording, "--json").check().json()
    assert told["path"] == str(tmp_path / "page.html") and told["bytes"] == (tmp_path / "page.html").stat().st_size
    assert told["events"] == info["events"] and told["devices"] == len(info["devices"])
    allocs = [event for event in run_gpumem("events", recording, "--json").json_lines() if event["action"] == "alloc"]
    assert told["blocks"] == len(allocs)


def test_a_recording_is_not_overwritten(recording, run_gpumem):
    before = recording.read_bytes()
    assert "this is the recording itself" in run_gpumem("view", recording, "-o", recording).check(2).err
    assert recording.read_bytes() == before


def test_a_page_that_cannot_be_written_is_reported(recording, run_gpumem, tmp_path):
    assert "page.html" in run_gpumem("view", recording, "-o", tmp_path / "no" / "page.html").check(4).err
    assert "not a regular file" in run_gpumem("view", recording, "-o", tmp_path).check(4).err
    (tmp_path / "other").write_text("no recording")
    assert str(tmp_path / "other") in run_gpumem("view", tmp_path / "other").check(3).err
    assert not (tmp_path / "other.html").exists()


# --- the format, as docs/view-format.md has it ----------------------------------------------------------


def test_sums_of_the_columns_are_those_of_blocks(recording, page, run_gpumem):
    columns = columns_of(page)
    device = columns["head"]["main"]
    own = {name.removeprefix(f"d{device}."): values for name, values in columns.items() if name.startswith(f"d{device}.")}
    names = columns["head"]["categories"]
    for event in ten_moments(recording, run_gpumem):
        told = blocks_at(run_gpumem, recording, event)
        sums = dict.fromkeys(names, 0)
        for alloc, life, size, category in zip(own["block.alloc"], own["block.life"], own["block.size"], own["block.category"]):
            if alloc <= event and (not life or alloc + life > event):
                sums[names[category]] += size
        rest = sum([*own["rest.bytes"][: sum(at <= event for at in own["rest.event"])][-1:]])
        assert sum(sums.values()) + rest == told["allocated"]
        assert {name: sum for name, sum in sums.items() if sum} == {name: sum for name, sum in told["by_category"].items() if sum}


def test_levels_are_the_maxima_of_each_64_events(page, recording, run_gpumem):
    columns = columns_of(page)
    levels = {name.split(".level.")[1]: values for name, values in columns.items() if name.startswith("d0.level.")}
    at = levels.pop("at")
    allocated = [event["allocated"] for event in columns_walk(columns)]
    assert len(at) == (len(allocated) + 63) // 64
    for bucket, offset in enumerate(at):
        part = allocated[bucket * 64 : bucket * 64 + 64]
        assert offset == part.index(max(part)), bucket
        assert sum(values[bucket] for values in levels.values()) == max(part)


def columns_walk(columns):
    """The bytes allocated after each event, from the columns of the blocks of device 0."""
    change = [0] * (columns["head"]["events"] + 1)
    for alloc, life, size in zip(*(columns[f"d0.block.{name}"] for name in ("alloc", "life", "size"))):
        change[alloc] += size
        if life:
            change[alloc + life] -= size
    allocated = 0
    for delta in change[:-1]:
        allocated += delta
        yield {"allocated": allocated}


# --- the page in a browser ------------------------------------------------------------------------------


def test_a_page_opens_without_an_error_and_without_a_request(chromium, page, tmp_path):
    alone = tmp_path / "alone.html"
    alone.write_bytes(page.read_bytes())
    with Opened(chromium, alone) as shown:
        assert shown.evaluate("document.documentElement.dataset.ready") == "yes"
        assert shown.title() == "mlp.gpumem – gpumem"
        shown.wait_for_timeout(300)
        assert shown.said == []


def test_its_policy_stops_other_scripts_and_requests(chromium, page, tmp_path):
    changed = tmp_path / "changed.html"
    changed.write_text(page.read_text().replace("</main>", '<img src="x" onerror="done=1"><script>done=2</script></main>'))
    with Opened(chromium, changed) as shown:
        assert shown.evaluate("document.documentElement.dataset.ready") == "yes"
        assert shown.evaluate("typeof done") == "undefined"
        assert any("Content Security Policy" in line for line in shown.said)
        shown.evaluate("fetch('https://example.invalid/').catch(() => 0)")
        assert any("connect-src" in line or "default-src" in line for line in shown.said)


def test_totals_of_ten_moments_are_those_of_blocks(opened, recording, run_gpumem):
    check_totals(opened, recording, run_gpumem)


def test_the_card_of_a_block_is_what_why_says(opened, recording, run_gpumem):
    assert check_cards(opened, recording, run_gpumem, 12) > 8


def test_a_click_on_the_plot_chooses_the_block_there(opened, recording, run_gpumem):
    opened.locator("#plot").focus()
    opened.keyboard.press("p")
    peak = run_gpumem("info", recording, "--json").json()["devices"][0]["peak_event"]
    assert opened.evaluate("gpumem.view.moment") == peak
    opened.evaluate("event => gpumem.view.setRange(event - 3, event + 4)", peak)
    opened.wait("() => gpumem.plot.from === gpumem.view.from")
    largest = max(blocks_at(run_gpumem, recording, peak)["blocks"], key=lambda block: block["size"])
    # where the page draws the block: above the sum of the blocks below it
    place = opened.evaluate(
        """number => {
            const { view, plot, recording: { device } } = gpumem, block = device.blockOf(number), moment = view.moment;
            const part = plot.partAt(plot.x(moment + 0.5));
            let below = 0;
            for (const other of plot.drawn) {
                if (other === device.category[block]) break;
                below += plot.sample.sums[part * device.width + other];
            }
            device.eachLive(moment, (one) => { if (one < block && device.category[one] === device.category[block]) below += device.size[one]; });
            const box = plot.canvas.getBoundingClientRect();
            return { x: box.left + plot.x(moment + 0.5), y: box.top + plot.y(below + device.size[block] / 2) };
        }""",
        largest["allocated"],
    )
    opened.mouse.click(place["x"], place["y"])
    title = f"Block #{largest['allocated']}, "
    opened.wait(CARD, title)
    assert largest["address"] in opened.locator("#card").inner_text()
    opened.wait("text => location.hash.includes(text)", f"block={largest['allocated']}")


def test_an_address_with_an_event_opens_at_that_event(chromium, page):
    with Opened(chromium, page, "#event=40&from=20&to=60&block=39") as shown:
        assert shown.evaluate("[gpumem.view.moment, gpumem.view.from, gpumem.view.to]") == [40, 20, 60]
        assert shown.locator("#moment-title").inner_text().startswith("After event #40,")
    with Opened(chromium, page, "#event=-1&from=x&to=1e99&block=99999999") as shown:
        assert shown.evaluate("document.documentElement.dataset.ready") == "yes" and shown.said == []


def test_keys_and_wheel_zoom_and_pan(opened):
    def look():
        return opened.evaluate("[gpumem.view.from, gpumem.view.to]")

    check_hands(opened)
    opened.locator("#plot").focus()
    opened.evaluate("gpumem.view.setRange(10, 30)")
    opened.keyboard.press("ArrowRight")
    assert look() == [12, 32]
    opened.keyboard.press("a")
    assert look() == [10, 30]
    box = opened.locator("#plot").bounding_box()
    opened.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50)
    opened.mouse.wheel(0, -200)
    opened.wait("() => gpumem.view.to - gpumem.view.from < 20")
    opened.mouse.down()
    opened.mouse.move(box["x"] + box["width"] / 2 - 200, box["y"] + 50, steps=4)
    before = look()
    opened.mouse.up()
    assert look() == before and before[0] > 10  # a drag chooses nothing and moves the range


def test_the_summary_has_the_words_of_peak_and_info(opened, recording, run_gpumem):
    shown = opened.locator("#summary").text_content()
    for question in ("peak", "info"):
        for line in run_gpumem(question, recording).check().out.splitlines():
            assert line in shown
    timeline = run_gpumem("timeline", recording).check().out
    for line in re.findall(r"^  (#.*)$", timeline, re.M):
        assert line.strip() in shown


def test_numbers_of_steps_do_not_overlap(opened):
    firsts = [1, 2, 3, 40, 41, 90, 91, 92, 93, 94, 200, 201, 230, 231]
    steps = [{"step": number, "first": first} for number, first in enumerate(firsts, 1)]
    draw = """steps => {
        const { from, to } = gpumem.plot;
        Object.assign(gpumem.plot, { from: 0, to: 232 });
        const labels = gpumem.plot.drawSteps({ stepsIn: () => steps });
        Object.assign(gpumem.plot, { from, to });
        return labels;
    }"""
    labels = opened.evaluate(draw, steps)
    assert len(labels) > 3 and labels[-1][1] < opened.evaluate("gpumem.plot.width")
    assert all(left[1] < right[0] for left, right in zip(labels, labels[1:]))


def test_the_page_fits_a_telephone_and_a_laptop(chromium, page, opened):
    for width, height in ((390, 844), (1280, 800)):
        with Opened(chromium, page, viewport={"width": width, "height": height}) as shown:
            assert shown.evaluate("document.documentElement.scrollWidth") <= width


# --- bad input ------------------------------------------------------------------------------------------


def test_a_name_is_text_and_nothing_else(chromium, run_gpumem, tmp_path):
    names = ["</script><script>done=1</script>", "<img src=x onerror=done=1>", hostile("name"), "x" * 10_000_000, "__proto__", "&lt;b&gt;"]
    trace = [entry("alloc", 4096 * n, 512, (name, 1, name)) for n, name in enumerate(names, 1)]
    made = view(run_gpumem, snapshot(tmp_path / "<script>done=1<\u202e\x1b[2J.pickle", trace))
    assert made.stat().st_size < 1 << 20
    text = made.read_text()
    assert "done=1" not in text and hostile("name") not in text
    with Opened(chromium, made) as shown:
        assert shown.evaluate("document.documentElement.dataset.ready") == "yes"
        assert shown.evaluate("typeof done") == "undefined" and shown.said == []
        for i, name in enumerate(names):
            shown.evaluate("i => gpumem.view.setBlock(i)", i)
            title = f"Block #{i},"
            shown.wait(CARD, title)
            check_text(shown.locator("body").text_content().encode())
            assert name[:20] in shown.locator("#card").text_content() or "\x1b" in name
        check_text(shown.title().encode())
        assert shown.locator("#card img, #card script, #sites img, #sites script").count() == 0


def test_the_command_of_a_card_can_be_typed_unchanged(chromium, run_gpumem, tmp_path):
    path = snapshot(tmp_path / "a b'$(touch done);.pickle", [entry("alloc", 4096, 512)])
    with Opened(chromium, view(run_gpumem, path)) as shown:
        shown.evaluate("() => gpumem.view.setBlock(0)")
        shown.wait(CARD, "Block #0,")
        assert shlex.split(shown.locator("#card code").inner_text()) == ["gpumem", "why", path.name, "#0"]


@pytest.mark.parametrize("trace", [[], [entry("alloc", 4096, 512)]], ids=["none", "one"])
def test_few_events_make_a_page(trace, chromium, run_gpumem, tmp_path):
    made = view(run_gpumem, snapshot(tmp_path / "few.pickle", trace))
    with Opened(chromium, made) as shown:
        assert shown.evaluate("document.documentElement.dataset.ready") == "yes" and shown.said == []
        if trace:
            assert shown.evaluate(STATE, 0)["allocated"] == 512
            shown.locator("#plot").click()
        else:
            assert shown.locator("#problem").inner_text() == "The recording contains no allocations."


def test_a_cut_recording_says_so_in_a_banner(chromium, recording, run_gpumem, tmp_path):
    nothing, cut = tmp_path / "nothing.gpumem", tmp_path / "cut.gpumem"
    nothing.write_bytes(recording.read_bytes()[:200])
    assert "no allocation before" in run_gpumem("view", nothing).check(3).err
    whole = recording.read_bytes()
    cut.write_bytes(whole[:-20])  # the recording's end is a separate chunk
    with Opened(chromium, view(run_gpumem, cut)) as shown:
        gaps = run_gpumem("info", cut, "--json").json()["gaps"]
        assert gaps and shown.locator("#banner").is_visible()
        for gap in gaps:
            assert gap in shown.locator("#banner").inner_text()
        assert shown.said == []


def test_each_of_several_devices_can_be_chosen(chromium, run_gpumem, tmp_path):
    path = snapshot(tmp_path / "two.pickle", [], [entry("alloc", 4096, 512)], [entry("alloc", 4096, 1024), entry("alloc", 8192, 1 << 50)])
    made = view(run_gpumem, path)
    with Opened(chromium, made) as shown:
        assert shown.locator("#device option").all_inner_texts() == ["cuda:1", "cuda:2"]
        assert shown.evaluate(STATE, 2)["allocated"] == 1024 + (1 << 50)  # the device with the highest peak
        shown.locator("#device").select_option(label="cuda:1")
        shown.wait("() => gpumem.recording.device.facts.name === 'cuda:1' && gpumem.recording.device.detailed")
        assert shown.evaluate(STATE, 2)["allocated"] == 512
        assert shown.said == []


def test_an_out_of_memory_error_is_marked_and_explained_as_by_oom(chromium, run_gpumem, tmp_path):
    oom = {"action": "oom", "size": 1 << 30, "stream": 0, "device_free": 0, "frames": []}
    path = snapshot(tmp_path / "oom.pickle", [entry("alloc", 4096, 512), oom])
    made = view(run_gpumem, path)
    columns = columns_of(made)
    assert columns["d0.oom.event"] == [1] and columns["d0.oom.bytes"] == [1 << 30]
    told = run_gpumem("oom", path).out
    with Opened(chromium, made) as shown:
        assert told and told in shown.locator("#summary").text_content()
        assert shown.said == []


@pytest.mark.parametrize("column, ready", [("texts", "partly"), ("head", "failed")])
def test_a_page_that_was_cut_shows_what_is_there_and_says_so(column, ready, chromium, page, tmp_path):
    text = page.read_text()
    changed = tmp_path / "cut.html"
    changed.write_text(re.sub(rf'<script type="application/x-gpumem-column" data-name="{column}".*?</script>', "", text))
    with Opened(chromium, changed) as shown:
        assert shown.evaluate("document.documentElement.dataset.ready") == ready and shown.said == []
        assert f"no column {column}" in shown.locator("#problem").inner_text()
        if ready == "partly":
            shown.locator("#zoom-in").click()
            assert shown.evaluate("gpumem.view.to - gpumem.view.from < gpumem.view.events")
            shown.locator("#plot").click()
