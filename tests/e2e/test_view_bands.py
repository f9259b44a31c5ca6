"""What the plot is stacked by, and its colours: sums by line, operator, dtype and phase are those of the commands."""

import re
import sys
from itertools import combinations
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Opened  # noqa: E402
from pages import CARD, blocks_at, entry, snapshot, ten_moments, view  # noqa: E402
from view_page import opened, page, recording  # noqa: E402, F401

CHOOSE = """async (by) => {
    const list = document.getElementById("bands");
    list.value = by;
    list.dispatchEvent(new Event("change"));
    while (gpumem.view.by !== by || gpumem.view.bands.by !== by) await new Promise((done) => setTimeout(done, 10));
}"""
SUMS = "event => Object.fromEntries([...gpumem.view.bands.sumsAt(event)].map((bytes, band) => [gpumem.view.bands.labels[band], bytes]).filter(([, bytes]) => bytes))"


def of_command(run_gpumem, recording, event, by):
    if by == "phase":
        return blocks_at(run_gpumem, recording, event)["by_phase"]
    groups = blocks_at(run_gpumem, recording, event, f"--by={by}")["groups"]
    return {group["key"]: group["bytes"] for group in groups}


@pytest.mark.parametrize("by", ["phase", "dtype", "operator"])
def test_bands_have_the_sums_of_blocks(by, opened, recording, run_gpumem):
    opened.evaluate(CHOOSE, by)
    for event in ten_moments(recording, run_gpumem):
        told = of_command(run_gpumem, recording, event, by)
        shown = opened.evaluate(SUMS, event)
        assert sum(shown.values()) == sum(told.values())
        known = {label: bytes for label, bytes in shown.items() if not re.search(r"no \w+ is known|\d+ others|before", label)}
        assert known.items() <= told.items(), event
    assert len(opened.evaluate("gpumem.view.bands.labels")) > 2 and opened.said == []


def test_bands_by_line_are_the_lines_of_the_moment(opened, recording, run_gpumem):
    opened.evaluate(CHOOSE, "line")
    for event in ten_moments(recording, run_gpumem):
        sites = opened.evaluate("event => gpumem.stateAt(gpumem.recording, event).sites", event)
        told = {re.sub(r"^.*/", "", site["text"]): site["bytes"] for site in sites}
        shown = opened.evaluate(SUMS, event)
        assert sum(shown.values()) == sum(told.values()) == blocks_at(run_gpumem, recording, event)["allocated"]
        assert {label: bytes for label, bytes in shown.items() if "others" not in label}.items() <= told.items()


@pytest.mark.parametrize("by", ["category", "line", "operator", "dtype", "phase"])
def test_levels_and_events_of_each_band_agree(by, opened):
    opened.evaluate(CHOOSE, by)
    assert opened.evaluate(
        """() => {
            const { device, bands } = gpumem.view;
            return [...device.levelMoment].every((moment, i) => bands.sumsAt(moment).every((bytes, band) => bytes === (bands.levelSums[band]?.[i] ?? 0)));
        }"""
    )
    legend = opened.locator("#legend li").all_inner_texts()
    assert legend[-1] == "reserved" and len(set(legend)) == len(legend)


def test_a_click_chooses_a_block_of_the_band_under_it(opened, recording, run_gpumem):
    opened.evaluate(CHOOSE, "line")
    peak = run_gpumem("info", recording, "--json").json()["devices"][0]["peak_event"]
    opened.evaluate("event => { gpumem.view.setRange(event - 3, event + 4); gpumem.view.setMoment(event); }", peak)
    opened.wait("() => gpumem.plot.from === gpumem.view.from")
    opened.evaluate("() => { gpumem.plot.draw(gpumem.view); }")
    largest = max(blocks_at(run_gpumem, recording, peak)["blocks"], key=lambda block: block["size"])
    place = opened.evaluate(
        """number => {
            const { view, plot, recording: { device } } = gpumem, { bands } = view, block = device.blockOf(number);
            const sums = bands.sumsAt(view.moment);
            let below = 0;
            for (const band of bands.order) { if (band === bands.of[block]) break; below += sums[band]; }
            device.eachLive(view.moment, (one) => { if (one < block && bands.of[one] === bands.of[block]) below += device.size[one]; });
            const box = plot.canvas.getBoundingClientRect();
            return { x: box.left + plot.x(view.moment + 0.5), y: box.top + plot.y(below + device.size[block] / 2) };
        }""",
        largest["allocated"],
    )
    opened.mouse.click(place["x"], place["y"])
    title = f"Block #{largest['allocated']}, "
    opened.wait(CARD, title)


def test_the_few_largest_have_a_colour_and_the_others_share_one(chromium, run_gpumem, tmp_path):
    trace = [entry("alloc", 1 << 20 | n << 16, 512 * (n + 1), (f"f{n}.py", 1, "f")) for n in range(40)]
    with Opened(chromium, view(run_gpumem, snapshot(tmp_path / "lines.pickle", trace)), "#by=line") as shown:
        shown.wait("() => gpumem.view.bands?.by === 'line'")
        labels = shown.evaluate("gpumem.view.bands.labels")
        assert sorted(labels[:9]) == sorted(f"f{n}.py:1 in f" for n in range(31, 40)) and labels[9] == "31 others"
        assert shown.evaluate(SUMS, 39)["31 others"] == sum(512 * (n + 1) for n in range(31))
        colours = shown.evaluate("[...document.querySelectorAll('#legend .swatch')].map((one) => one.style.background)")
        assert len(colours) == len(set(colours)) == 10


def test_another_device_keeps_what_the_plot_is_stacked_by(chromium, run_gpumem, tmp_path):
    path = snapshot(tmp_path / "two.pickle", [entry("alloc", 4096, 512, ("a.py", 1, "f"))], [entry("alloc", 4096, 1024, ("b.py", 2, "g"))])
    with Opened(chromium, view(run_gpumem, path), "#by=line") as shown:
        shown.wait("() => gpumem.view.bands?.by === 'line'")
        shown.locator("#device").select_option(label="cuda:1")
        shown.wait("() => gpumem.recording.device.facts.name === 'cuda:1' && gpumem.view.bands?.by === 'line'")
        assert shown.evaluate(SUMS, 1) == {"b.py:2 in g": 1024}
        assert shown.said == []


# --- colours that colour-blind readers tell apart -------------------------------------------------------

# Viénot, Brettel and Mollon 1999: what is left of linear red, green and blue
SEEN = {
    "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "without red": [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
    "without green": [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
}


def linear(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def lab(rgb):
    x, y, z = (sum(a * b for a, b in zip(row, rgb)) for row in ([0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]))
    f = [part ** (1 / 3) if part > 0.008856 else 7.787 * max(part, 0) + 16 / 116 for part in (x / 0.9505, y, z / 1.089)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def distance(one, other, seen):
    a, b = (lab([sum(x * y for x, y in zip(row, linear(colour))) for row in SEEN[seen]]) for colour in (one, other))
    return sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5


CATEGORIES = ["parameter", "optimizer-state", "gradient", "input", "activation", "workspace", "temporary", "unknown"]


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_colours_for_colour_blind_readers_are_apart(seen, theme, opened):
    read = """([theme, names]) => {
        Object.assign(document.documentElement.dataset, { palette: "apart", theme });
        const style = getComputedStyle(document.documentElement);
        const found = names.map((name) => style.getPropertyValue(`--${name}`).trim());
        delete document.documentElement.dataset.palette;
        delete document.documentElement.dataset.theme;
        return found;
    }"""
    for names in ([f"category-{name}" for name in CATEGORIES], [f"series-{n}" for n in range(1, 10)]):
        colours = opened.evaluate(read, [theme, [*names, "surface"]])
        near = {(a, b): round(distance(one, other, seen), 1) for (a, one), (b, other) in combinations(zip([*names, "surface"], colours), 2)}
        assert {pair: far for pair, far in near.items() if far < 9} == {}
