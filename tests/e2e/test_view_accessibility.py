"""The page can be used by all: axe-core finds nothing in any of its views, and nothing moves where people ask for less motion."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import FOLDER, Opened  # noqa: E402
from pages import CARD, entry, snapshot, view  # noqa: E402
from view_page import opened, page, recording  # noqa: E402, F401

from conftest import note_of_set_up  # noqa: E402

AXE = FOLDER / "axe_playwright_python" / "axe.min.js"
RUN = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
    .map((one) => [one.id, one.help, one.nodes.map((node) => node.html.slice(0, 200)).slice(0, 5)])"""


@pytest.fixture(scope="module")
def axe():
    if not AXE.exists():
        pytest.skip(f"no axe-core ({note_of_set_up('no-playwright')})")
    return AXE.read_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["laptop", "telephone"])
def test_axe_finds_nothing_in_any_view(size, theme, axe, chromium, page):
    with Opened(chromium, page, viewport={"width": size[0], "height": size[1]}, color_scheme=theme) as shown:
        shown.evaluate(axe)
        for name in shown.evaluate("gpumem.tabs.names"):
            shown.evaluate("async (name) => { gpumem.tabs.choose(name); await gpumem.tabs.show(); gpumem.view.setBlock(3); }", name)
            shown.wait(CARD, "Block #")
            assert shown.evaluate(RUN) == [], name
        shown.evaluate("gpumem.tabs.choose('table'), gpumem.table.search('sise>1')")
        assert shown.locator("#filter-problem").is_visible()
        assert shown.evaluate(RUN) == []
        assert shown.said == []


def test_axe_finds_nothing_in_a_page_without_events_and_with_a_banner(axe, chromium, recording, run_gpumem, tmp_path):
    cut = tmp_path / "cut.gpumem"
    cut.write_bytes(recording.read_bytes()[:-20])
    for path in (cut, snapshot(tmp_path / "none.pickle", [])):
        with Opened(chromium, view(run_gpumem, path)) as shown:
            shown.evaluate(axe)
            assert shown.evaluate(RUN) == []


def test_axe_finds_nothing_in_a_page_that_compares(axe, chromium, recording, run_gpumem, tmp_path):
    other = snapshot(tmp_path / "other.pickle", [entry("alloc", 4096, 1 << 26), entry("alloc", 1 << 30, 512)])
    run_gpumem("view", recording, other, "-o", tmp_path / "both.html").check()
    for theme in ("light", "dark"):
        with Opened(chromium, tmp_path / "both.html", color_scheme=theme) as shown:
            shown.evaluate(axe)
            shown.evaluate("gpumem.tabs.choose('compare')")
            assert shown.locator("#compare table").count() > 2
            assert shown.evaluate(RUN) == []


def test_axe_sees_what_is_wrong(axe, chromium, page):
    """Else nothing would be found because nothing was looked at."""
    with Opened(chromium, page) as shown:
        shown.evaluate(axe)
        shown.evaluate("document.querySelector('label[for=filter-text]').remove(); gpumem.tabs.choose('table')")
        shown.evaluate("document.querySelector('h1').style.color = 'rgb(240, 240, 240)'; document.querySelector('#filter-text').removeAttribute('placeholder')")
        assert {found[0] for found in shown.evaluate(RUN)} >= {"color-contrast", "label"}


def test_views_are_reached_by_keys(opened):
    opened.locator("#tab-sums").click()
    for name in ("table", "flame", "memory", "sums"):
        opened.keyboard.press("ArrowRight")
        assert opened.evaluate("document.activeElement.id") == f"tab-{name}"
        assert [opened.locator(f"#view-{one}").is_visible() for one in ("sums", "table", "flame", "memory")] == [one == name for one in ("sums", "table", "flame", "memory")]


def test_nothing_moves_where_people_ask_for_less_motion(chromium, page):
    with Opened(chromium, page, reduced_motion="reduce") as shown:
        shown.evaluate("gpumem.tabs.choose('flame'), gpumem.view.setBlock(3)")
        shown.locator("#to-peak").click()
        assert shown.evaluate("document.getAnimations().length") == 0
        moving = "[...document.querySelectorAll('*')].filter((one) => { const style = getComputedStyle(one); return style.transitionDuration !== '0s' || style.animationName !== 'none' || style.scrollBehavior === 'smooth'; }).length"
        assert shown.evaluate(moving) == 0
