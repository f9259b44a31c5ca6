"""`gpumem view --svg`: the picture's numbers are those of the commands; it is well-formed XML, whatever names there are."""

import random
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from hostile import check_text, hostile  # noqa: E402
from pages import blocks_at, entry, snapshot, ten_moments  # noqa: E402

from conftest import EXAMPLES, PYTHON, ROOT  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
# Half of the last digit of a coordinate; and what is rounded on the way.
HALF = 0.006


class Picture:
    def __init__(self, path):
        self.text = path.read_bytes()
        self.root = ElementTree.fromstring(self.text)
        self.plot = self.find("plot")
        if self.plot is not None:
            facts = {name.removeprefix("data-"): float(value) for name, value in self.plot.attrib.items() if name != "id"}
            self.left, self.width, self.height = facts["left"], facts["width"], facts["height"]
            self.top, self.bytes, self.events, self.columns = (facts[name] for name in ("top", "bytes", "events", "columns"))
        self.areas = {one.get("data-category"): one for one in self.root.iter(f"{SVG}path") if one.get("data-category")}

    def find(self, name):
        return next((one for one in self.root.iter() if one.get("id") == name), None)

    def x(self, event):
        return self.left + event / self.events * self.width

    def bytes_at(self, y):
        return (1 - (y - self.top) / self.height) * self.bytes

    def error(self):
        return self.bytes / self.height * 2 * HALF

    def thickness(self, category, event):
        """Of its area, in bytes, in the middle of an event."""
        x, pen, found = self.x(event + 0.5), [0, 0], []
        for command, numbers in re.findall(r"([MHVZ])([^MHVZ]*)", self.areas[category].get("d")):
            before = list(pen)
            values = [float(number) for number in numbers.split()]
            if command == "M":
                pen = values
            elif command != "Z":
                pen["HV".index(command)] = values[0]
            if command == "H" and min(before[0], pen[0]) <= x < max(before[0], pen[0]):
                found.append(pen[1])
        assert len(found) == 2, (category, event)
        return self.bytes_at(found[0]) - self.bytes_at(found[1])


@pytest.fixture(scope="module")
def recording(run_gpumem, tmp_path_factory):
    path = tmp_path_factory.mktemp("svg") / "mlp.gpumem"
    run_gpumem("run", "--sim", "-o", path, "--", PYTHON, EXAMPLES / "train_mlp.py").check()
    return path


def draw(run_gpumem, path, *more):
    out = path.with_suffix(".svg")
    run_gpumem("view", path, "--svg", out, *more).check()
    return Picture(out)


@pytest.fixture(scope="module")
def picture(recording, run_gpumem):
    return draw(run_gpumem, recording)


def device_of(run_gpumem, recording):
    return next(device for device in run_gpumem("info", recording, "--json").check().json()["devices"] if device["events"])


def test_the_command_says_what_it_wrote(recording, run_gpumem, tmp_path):
    out = tmp_path / "a.svg"
    told = run_gpumem("view", recording, "--svg", out, "--json").check().json()
    info = run_gpumem("info", recording, "--json").check().json()
    assert (told["path"], told["bytes"], told["events"]) == (str(out), out.stat().st_size, info["events"])
    assert told["columns"] == Picture(out).columns
    assert run_gpumem("view", recording, "--svg", out).check().out.startswith(f"{out}: {info['events']:,} events and ")
    assert not recording.with_name("mlp.gpumem.html").exists()


def test_the_peak_has_the_place_and_bytes_that_peak_shows(picture, recording, run_gpumem):
    device = device_of(run_gpumem, recording)
    mark = next(picture.find("peak").iter(f"{SVG}circle"))
    assert (int(mark.get("data-event")), int(mark.get("data-bytes"))) == (device["peak_event"], device["peak_allocated"])
    assert abs(float(mark.get("cx")) - picture.x(device["peak_event"] + 0.5)) < HALF
    assert abs(picture.bytes_at(float(mark.get("cy"))) - device["peak_allocated"]) < picture.error()
    told = run_gpumem("peak", recording, "--json").check().json()["by_category"]
    shown = {name: int(area.get("data-at-peak")) for name, area in picture.areas.items()}
    assert {name: sum for name, sum in shown.items() if sum} == {name: sum for name, sum in told.items() if sum}
    assert f"({device['peak_allocated']:,} bytes) after event #{device['peak_event']}" in picture.find("facts").text
    for name, area in picture.areas.items():
        assert area.find(f"{SVG}title").text.endswith(f"({shown[name]:,} bytes) at the peak")


def test_areas_of_ten_moments_are_those_of_blocks(picture, recording, run_gpumem):
    info = run_gpumem("info", recording, "--json").check().json()
    assert picture.columns == info["events"] == picture.events  # each event has a column
    for event in ten_moments(recording, run_gpumem):
        told = blocks_at(run_gpumem, recording, event)["by_category"]
        for name in picture.areas:
            assert abs(picture.thickness(name, event) - told.get(name, 0)) < picture.error(), (event, name)


def test_steps_begin_where_steps_says(picture, recording, run_gpumem):
    steps = {step["step"]: step["first_event"] for step in run_gpumem("steps", recording, "--json").check().json()["steps"]}
    shown = {int(line.get("data-step")): int(line.get("data-event")) for line in picture.find("steps").iter(f"{SVG}line")}
    assert shown == steps and len(shown) > 1
    for line in picture.find("steps").iter(f"{SVG}line"):
        assert abs(float(line.get("x1")) - picture.x(int(line.get("data-event")))) < HALF


def test_phases_are_those_of_events(picture, recording, run_gpumem):
    columns = run_gpumem("timeline", recording, "--json").check().json()["columns"]
    shown = {title.text for title in picture.find("phases").iter(f"{SVG}title")}
    assert {column["phase"] for column in columns} <= shown
    assert {text.text for text in picture.find("phase-legend").iter(f"{SVG}text")} == {"phases", *shown}


def test_colours_are_those_of_the_page(picture):
    style = (ROOT / "core/view/page/style.css").read_text().split("}")[0]
    for name, area in picture.areas.items():
        assert f"--category-{name.replace('_', '-')}: {area.get('fill')};" in style
    source = (ROOT / "core/render/picture_plot.c").read_text()
    for name, colour in re.findall(r"GM_PHASE_(\w+)\] = \"(#\w+)\"", source):
        assert f"--phase-{name.lower().replace('_', '-')}: {colour};" in style
    for name, colour in re.findall(r"GM_CATEGORY_(\w+)\] = \{\"[^\"]*\", \"(#\w+)\"", source):
        assert f"--category-{name.lower().replace('_', '-')}: {colour};" in style


def test_the_picture_loads_nothing_and_runs_nothing(picture):
    kinds = {one.tag.removeprefix(SVG) for one in picture.root.iter()}
    assert kinds <= {"svg", "g", "rect", "line", "path", "circle", "text", "title"}
    names = {name for one in picture.root.iter() for name in one.attrib}
    assert not [name for name in names if name.startswith("on") or "href" in name or name == "style"]


def test_labels_are_within_the_picture_and_not_on_each_other(picture):
    width = float(picture.root.get("width"))
    assert picture.root.get("viewBox") == f"0 0 {picture.root.get('width')} {picture.root.get('height')}"
    rows = {}
    for text in picture.root.iter(f"{SVG}text"):
        size = 0.55 * float(text.get("font-size", 12)) * len(text.text)  # about
        anchor = {"end": 1, "middle": 0.5}.get(text.get("text-anchor"), 0)
        left = float(text.get("x")) - anchor * size
        assert 0 <= left and left + size <= width, text.text
        assert 0 < float(text.get("y")) < float(picture.root.get("height"))
        rows.setdefault(text.get("y"), []).append((left, left + size, text.text))
    for row in rows.values():
        row.sort()
        for one, next_one in zip(row, row[1:]):
            assert one[1] < next_one[0], (one, next_one)


# --- other recordings -----------------------------------------------------------------------------------


def test_errors_of_memory_are_marked(run_gpumem, tmp_path):
    oom = {"action": "oom", "size": 1 << 30, "stream": 0, "device_free": 0, "frames": []}
    picture = draw(run_gpumem, snapshot(tmp_path / "oom.pickle", [entry("alloc", 4096, 512), oom, entry("alloc", 8192, 512), oom]))
    marks = [(int(line.get("data-event")), int(line.get("data-bytes"))) for line in picture.find("ooms").iter(f"{SVG}line")]
    assert marks == [(1, 1 << 30), (3, 1 << 30)]
    assert [text.text for text in picture.find("ooms").iter(f"{SVG}text")] == ["out of memory"] * 2


def test_a_picture_is_of_one_device_and_another_can_be_named(run_gpumem, tmp_path):
    path = snapshot(tmp_path / "two.pickle", [], [entry("alloc", 4096, 512)], [entry("alloc", 4096, 1024), entry("alloc", 8192, 1 << 50)])
    assert draw(run_gpumem, path).find("facts").text.startswith("cuda:2: peak 1.00 PiB")  # the highest
    assert "the recording has 2 devices" in draw(run_gpumem, path).find("facts").text
    assert draw(run_gpumem, path, "--device=1").find("facts").text.startswith("cuda:1: peak 512 B")
    assert "no such device" in run_gpumem("view", path, "--svg", tmp_path / "x.svg", "--device=7").check(2).err
    assert not (tmp_path / "x.svg").exists()


def test_many_events_make_no_more_columns(run_gpumem, tmp_path):
    """Each column has the greatest moment of its events, so the peak is not lost."""
    trace, live, chance = [], [], random.Random(5)
    for address in range(20_000):
        trace.append(entry("alloc", 512 * (address + 1), 512 * chance.randrange(1, 1 << 16)))
        live.append(trace[-1])
        for one in (live.pop(chance.randrange(len(live))) for _ in range(chance.randrange(3)) if len(live) > 1):
            trace += [{**one, "action": action} for action in ("free_requested", "free_completed")]
    picture = draw(run_gpumem, snapshot(tmp_path / "many.pickle", trace))
    assert picture.events == len(trace) and 700 <= picture.columns <= 1500
    assert len(picture.text) < 1 << 20
    device = device_of(run_gpumem, tmp_path / "many.pickle")
    assert sum(int(area.get("data-at-peak")) for area in picture.areas.values()) == device["peak_allocated"]
    each = -(-len(trace) // 1500)
    middle = device["peak_event"] // each * each + each / 2 - 0.5
    sums = sum(picture.thickness(name, middle) for name in picture.areas)
    assert abs(sums - device["peak_allocated"]) < picture.error() * len(picture.areas)


@pytest.mark.parametrize("trace", [[], [entry("alloc", 4096, 512)]], ids=["none", "one"])
def test_few_events_make_a_picture(trace, run_gpumem, tmp_path):
    picture = draw(run_gpumem, snapshot(tmp_path / "few.pickle", trace))
    if trace:
        assert picture.columns == 1 and picture.thickness("unknown", 0) == pytest.approx(512, abs=picture.error())
    else:
        assert picture.find("facts").text == "The recording contains no allocations."


def test_a_cut_recording_says_so(recording, run_gpumem, tmp_path):
    cut = tmp_path / "cut.gpumem"
    cut.write_bytes(recording.read_bytes()[:-20])
    gaps = run_gpumem("info", cut, "--json").check().json()["gaps"]
    assert gaps and gaps[0][:100] in draw(run_gpumem, cut).find("gaps").text


def test_a_name_is_text_and_nothing_else(run_gpumem, tmp_path):
    name = '<script>a=1<script>&"\'\u202e\x1b[2J\uffff]]>--><!-- é.pickle'
    path = snapshot(tmp_path / name, [entry("alloc", 4096, 512, (hostile("file"), 1, hostile("function")))])
    picture = draw(run_gpumem, path)
    escaped = name.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b").replace("\uffff", "\\ufffe")
    assert picture.root.find(f"{SVG}title").text == escaped
    assert escaped in [text.text for text in picture.root.iter(f"{SVG}text")]
    check_text(picture.text)


@pytest.mark.parametrize("length", [250, 60])
def test_a_long_name_ends_within_the_picture(length, run_gpumem, tmp_path):
    picture = draw(run_gpumem, snapshot(tmp_path / ("&" * length), [entry("alloc", 4096, 512)]))
    shown = picture.root.find(f"{SVG}text").text
    assert shown == ("&" * length if length < 100 else "&" * (len(shown) - 1) + "…") and len(shown) <= 81


# --- what is refused ------------------------------------------------------------------------------------


def test_wrong_uses_of_svg_are_refused(recording, run_gpumem, tmp_path):
    before = recording.read_bytes()
    assert "one file is written at a time" in run_gpumem("view", recording, "--svg", tmp_path / "a", "-o", tmp_path / "b").check(2).err
    assert "only with --svg" in run_gpumem("view", recording, "--device=0").check(2).err
    assert "this is the recording itself" in run_gpumem("view", recording, "--svg", recording).check(2).err
    assert "a.svg" in run_gpumem("view", recording, "--svg", tmp_path / "no" / "a.svg").check(4).err
    assert recording.read_bytes() == before and not list(tmp_path.iterdir())
