"""The page within another one, as Jupyter shows it below a cell."""

import html
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from view_page import page as made  # noqa: E402, F401
from view_page import recording  # noqa: E402, F401


@pytest.mark.parametrize("kind", ["a file", "its text", "its text, which may only run scripts"])
def test_the_page_works_within_another_page(kind, chromium, made, tmp_path):  # noqa: F811
    (tmp_path / "page.html").write_bytes(made.read_bytes())
    text = html.escape((tmp_path / "page.html").read_text(), quote=True)
    frame = {
        "a file": '<iframe src="page.html" sandbox="allow-scripts" width="1000" height="900"></iframe>',
        "its text": f'<iframe srcdoc="{text}" width="1000" height="900"></iframe>',
        "its text, which may only run scripts": f'<iframe srcdoc="{text}" sandbox="allow-scripts" width="1000" height="900"></iframe>',
    }[kind]
    (tmp_path / "notebook.html").write_text(f"<!doctype html><title>notebook</title><body>{frame}")
    context = chromium.new_context(offline=True)
    page = context.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((tmp_path / "notebook.html").as_uri())
    inner = page.frames[1]
    while not inner.evaluate("document.documentElement.dataset.ready ?? ''"):
        time.sleep(0.02)
    assert inner.evaluate("document.documentElement.dataset.ready") == "yes"
    inner.evaluate("gpumem.view.setMoment(30)")
    time.sleep(0.4)  # it writes its address, where it has one
    assert "After event #30" in inner.locator("#moment-title").inner_text()
    assert said == []
    context.close()
