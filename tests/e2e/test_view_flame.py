"""The page's flame graph: the calls and sums of `gpumem blocks --tree`, to zoom into by mouse and keys."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Opened  # noqa: E402
from hostile import check_text, hostile  # noqa: E402
from pages import blocks_at, entry, snapshot, ten_moments, view  # noqa: E402
from view_page import opened, page, recording  # noqa: E402, F401

TREE = """async (moment) => {
    gpumem.tabs.choose("flame");
    gpumem.view.setMoment(moment);
    await gpumem.flame.show();
    const plain = ({ kind, title, bytes, blocks, children }) => ({ kind, title, bytes, blocks, children: children.map(plain) });
    return plain(gpumem.flame.root).children;
}"""
SHOW = """async (moment) => {
    gpumem.tabs.choose("flame");
    gpumem.view.setMoment(moment);
    await gpumem.flame.show();
    return gpumem.flame.root.children.map(({ kind, bytes }) => [kind, bytes]);
}"""
CELLS = "[...document.querySelectorAll('#flame .cell')].map((one) => [one.textContent, one.style.left, parseFloat(one.style.width), one.style.top])"


def told(nodes):
    """The tree of `blocks --tree --json` in the page's words, in an order that does not depend on ties."""
    found = []
    for node in nodes:
        if node["kind"] == "call":
            title = "{file}:{line} in {function}".format(**node["site"])
        elif node["kind"] == "work":
            names = [node[name] for name in ("node", "operator") if name in node]
            title = f"{names[0]} ({names[1]})" if len(names) == 2 else names[0]
        else:
            title = None
        found.append((node["bytes"], node["blocks"], title, told(node["children"])))
    return sorted(found, key=repr)


def shown(nodes):
    return sorted(
        ((node["bytes"], node["blocks"], node["title"] if node["kind"] in ("call", "work") else None, shown(node["children"])) for node in nodes), key=repr
    )


def test_calls_and_sums_of_ten_moments_are_those_of_the_tree_of_blocks(opened, recording, run_gpumem):
    for event in ten_moments(recording, run_gpumem)[1:]:
        answer = blocks_at(run_gpumem, recording, event, "--tree")
        assert shown(opened.evaluate(TREE, event)) == told(answer["tree"]), event
        assert opened.evaluate("gpumem.flame.root.bytes") == answer["allocated"]
    assert opened.said == []


def test_the_graph_is_of_what_the_search_selects_when_asked(opened, recording, run_gpumem):
    moment = ten_moments(recording, run_gpumem)[6]
    opened.evaluate(TREE, moment)
    assert opened.locator("#flame-filtered").is_disabled()
    opened.evaluate("gpumem.table.search('category=optimizer_state')")
    opened.evaluate(TREE, moment)
    opened.locator("#flame-filtered").check()
    answer = blocks_at(run_gpumem, recording, moment, "--tree", "--where=category=optimizer_state")
    assert shown(opened.evaluate(TREE, moment)) == told(answer["tree"])
    assert opened.evaluate("gpumem.flame.root.bytes") == answer["where"]["bytes"] > 0
    opened.locator("#flame-filtered").uncheck()
    opened.evaluate("gpumem.table.search('')")


def test_widths_are_shares_and_a_click_zooms(opened, recording, run_gpumem):
    moment = ten_moments(recording, run_gpumem)[6]
    tree = opened.evaluate(TREE, moment)
    opened.locator("#flame-all").click()
    cells = opened.evaluate(CELLS)
    assert cells[0] == ["all", "0%", 100, "0px"]
    total = sum(node["bytes"] for node in tree)
    call = max(tree[0]["children"], key=lambda node: node["bytes"])
    name = call["title"].split(" in ")[-1]
    cell = opened.locator("#flame .cell", has_text=f"{name} train_mlp.py:{call['title'].split(':')[-1].split(' ')[0]}").first
    width = cell.evaluate("one => parseFloat(one.style.width)")
    assert width == pytest.approx(100 * call["bytes"] / total)
    cell.focus()
    opened.keyboard.press("Enter")
    assert opened.locator("#flame [aria-current]").evaluate("one => [one.style.width, one === document.activeElement]") == ["100%", True]
    assert call["title"] in opened.locator("#flame-readout").inner_text()
    # at another moment the same call stays the one that is looked at
    opened.evaluate(TREE, moment - 1)
    assert call["title"] == opened.evaluate("gpumem.flame.focus.title")
    opened.locator("#flame-all").click()
    assert opened.evaluate("gpumem.flame.focus.title") == "all calls"


def test_a_deep_stack_and_hostile_names_are_shown_as_text(chromium, run_gpumem, tmp_path):
    frames = [(f"{hostile('file')}<b>", line, hostile("name")) for line in range(1, 900)]
    trace = [entry("alloc", 4096, 512, *frames), entry("alloc", 8192, 512)]
    path = snapshot(tmp_path / "deep.pickle", trace)
    with Opened(chromium, view(run_gpumem, path)) as page:
        assert page.evaluate(SHOW, 1) == [["call", 512], ["unknown", 512]]
        assert page.locator("#flame .cell").count() > 800 and page.locator("#flame b").count() == 0
        check_text("\n".join(page.locator("#flame .cell").all_text_contents()).encode())
        assert page.said == []


def test_a_graph_of_many_calls_is_bounded(chromium, run_gpumem, tmp_path):
    trace = [entry("alloc", 4096 * (n + 1), 512, *[(f"f{n}_{depth}.py", 1, "f") for depth in range(100)]) for n in range(300)]
    with Opened(chromium, view(run_gpumem, snapshot(tmp_path / "wide.pickle", trace))) as page:
        assert len(page.evaluate(SHOW, 299)) == 300
        assert 3000 <= page.locator("#flame .cell").count() < 3400
        assert page.said == []
