"""What tests of pages share: pages of recordings and of snapshots made by hand, and what any page must show."""

import pickle
import re

STATE = "event => gpumem.stateAt(gpumem.recording, event)"
CARD = "title => document.querySelector('#card h2').textContent.startsWith(title)"
FACTS = "number => gpumem.blockFacts(gpumem.recording, gpumem.recording.device.blockOf(number))"

# What the table is of, as data: its sums, and the blocks by their numbers.
FOUND = """async ([text, moment]) => {
    const { table, view, tabs } = gpumem;
    tabs.choose("table");
    if (moment !== null) view.setMoment(moment);
    document.getElementById("table-scope").value = moment === null ? "all" : "moment";
    await table.search(text);
    const { blocks, ...sums } = await table.find();
    return { ...sums, condition: table.condition, numbers: blocks.map((block) => view.device.alloc[block]), problem: document.getElementById("filter-problem").innerText };
}"""


def ten_moments(recording, run_gpumem):
    events = run_gpumem("info", recording, "--json").check().json()["events"]
    return [events * i // 10 for i in range(10)]


def blocks_at(run_gpumem, recording, event, *more):
    return run_gpumem("blocks", recording, f"--at={event}", *more, "--json").check().json()


def snapshot(path, *traces):
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [list(trace) for trace in traces]}))
    return path


def entry(action, address, size, *frames):
    stack = [{"filename": file, "line": line, "name": name} for file, line, name in frames]
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": stack}


def view(run_gpumem, path):
    out = path.with_suffix(".html")
    run_gpumem("view", path, "-o", out).check()
    return out


def check_totals(opened, recording, run_gpumem):
    """What is allocated after ten events, by category and by line, is what `blocks --at` says; at the peak in the same words too."""
    for event in ten_moments(recording, run_gpumem):
        told = blocks_at(run_gpumem, recording, event, "--by=line")
        shown = opened.evaluate(STATE, event)
        assert shown["allocated"] == told["allocated"], event
        assert {one["name"]: one["bytes"] for one in shown["categories"]} == {k: v for k, v in told["by_category"].items() if v}
        assert by_place(shown["sites"], "text") == by_place(told["groups"], "key"), event
    peak = opened.evaluate("gpumem.recording.device.facts.peak_event")
    told = blocks_at(run_gpumem, recording, peak, "--by=line")["groups"]
    shown = opened.evaluate(STATE, peak)["sites"]
    assert {one["text"]: (one["bytes"], one["blocks"]) for one in shown} == {one["key"]: (one["bytes"], one["blocks"]) for one in told}


def by_place(groups, name):
    """Bytes and blocks by the program's own lines: which of them `blocks` descends from depends on the moment."""
    sums = {}
    for group in groups:
        place = re.match(r"(.*?:\d+)(?: in |$)", group[name].split(" ← ")[-1])
        key = place[1] if place else group[name]
        before = sums.get(key, (0, 0))
        sums[key] = before[0] + group["bytes"], before[1] + group["blocks"]
    return sums


def without_steps(sentence):
    return re.sub(r" in step \d+", "", sentence)


def check_cards(opened, recording, run_gpumem, most):
    """The cards of at most so many of the blocks that are alive at the peak have what `why` says; returns how many there were."""
    peak = next(device for device in run_gpumem("info", recording, "--json").json()["devices"] if device["events"])["peak_event"]
    numbers = [opened.evaluate("i => gpumem.recording.device.alloc[i]", i) for i in opened.evaluate(STATE, peak)["live"][:most]]
    for number in numbers:
        why = run_gpumem("why", recording, f"#{number}", "--json").check().json()
        card = opened.evaluate(FACTS, number)
        assert (card["address"], card["size"]) == (why["block"]["address"], why["block"]["size"])
        assert (card["requested"] or None) == why["block"]["requested"]
        assert (card["name"] or None) == (why["block"].get("name"))
        assert (card["released"] or {"event": None})["event"] == (why["freed"] or {"n": None})["n"]
        for frame in [*card["stack"], *card["releaseStack"]]:
            assert frame.pop("library") == bool(re.search(r"^<|/(site|dist)-packages/|/lib/python3", frame["file"]))
        assert card["stack"] == why["allocated"]["python"]
        assert card["releaseStack"] == (why["freed"] or {"python": []})["python"]
        # the card says the step apart
        assert bool(card["cause"]) == (why["freed"] is not None) and (card["cause"] or "") in without_steps(why["sentence"])
        assert (card["kept"] or None) == (why["held_until"] and without_steps(why["held_until"]))
    return len(numbers)


def check_condition(opened, recording, run_gpumem, condition, event):
    """It selects in the table what `blocks --where` selects. Returns its bytes and all bytes."""
    told = blocks_at(run_gpumem, recording, event, f"--where={condition}")
    shown = opened.evaluate(FOUND, [condition, event])
    assert shown["problem"] == "" and shown["allBytes"] == told["allocated"]
    where = {"bytes": shown["bytes"], "blocks": len(shown["numbers"]), "unknown_bytes": shown["unknownBytes"], "unknown_blocks": shown["unknownBlocks"]}
    assert where == told["where"], (condition, event)
    assert sorted(shown["numbers"]) == sorted(block["allocated"] for block in told["blocks"])
    return shown["bytes"], shown["allBytes"]


def check_hands(opened):
    """Wheel, drag, keys and click zoom, pan, and choose a moment with a block."""

    def look():
        return opened.evaluate("[gpumem.view.from, gpumem.view.to]")

    opened.locator("#plot").focus()
    opened.keyboard.press("Home")
    whole = look()
    opened.keyboard.press("w")
    near = look()
    assert near[1] - near[0] < whole[1] - whole[0]
    opened.keyboard.press("d")
    assert look()[0] > near[0]
    opened.keyboard.press("Home")
    assert look() == whole
    box = opened.locator("#plot").bounding_box()
    middle, top = box["x"] + box["width"] / 2, box["y"] + 50
    opened.mouse.move(middle, top)
    opened.mouse.wheel(0, -400)
    opened.wait("wide => gpumem.view.to - gpumem.view.from < wide", whole[1] - whole[0])
    before = look()
    opened.mouse.down()
    opened.mouse.move(middle - 100, top, steps=4)
    opened.mouse.up()
    assert look()[0] > before[0]
    opened.mouse.click(middle, box["y"] + box["height"] * 0.8)
    moment = opened.evaluate("gpumem.view.moment")
    assert look()[0] <= moment <= look()[1]
    opened.keyboard.press("Escape")
    opened.keyboard.press("Home")
