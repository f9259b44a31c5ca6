"""browse.py PAGE [FOLDER]: opens a page in Debian's Chromium, zooms and pans in it, and prints what that took.

PAGE is of `gpumem view`, or of PyTorch's trace_plot: then FOLDER has MemoryViz.js and d3.v5.min.js, which that page asks of the
network. What is measured is the same of both: "first", seconds from the beginning of the navigation to the first frame with a plot;
"frames", milliseconds between frames while the wheel zooms and pans, the 95th percentile; "heap", megabytes of the script after
a collection of garbage.
"""

import os
import re
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "build" / "playwright"))
from playwright.sync_api import sync_playwright  # noqa: E402

OURS = "globalThis.gpumem?.plot?.sample"
OURS_WHOLE = "document.documentElement.dataset.ready"
RIVALS = "document.querySelector('svg polygon, svg path[d]')"
# Asked at each frame: a plot that is in the document is on the screen at the next one.
FIRST = "(() => {{ const look = () => {{ if ({}) requestAnimationFrame(() => (globalThis.first = performance.now())); else requestAnimationFrame(look); }}; requestAnimationFrame(look); }})();"
FRAMES = "() => { globalThis.at = []; const note = (now) => { at.push(now); requestAnimationFrame(note); }; requestAnimationFrame(note); }"
IMPORT = re.compile(r"^import (?:\* as (\w+)|(\{[^}]*\})) from .*$", re.M)


def answer(route, folder):
    """MemoryViz.js, with d3 of a file. It reads d3.event, which changes: a namespace of a module could not."""
    if not route.request.url.endswith("/MemoryViz.js"):
        route.abort()
        return
    code = (folder / "d3.v5.min.js").read_text()
    viz = IMPORT.sub(lambda found: f"const {found[1] or found[2]} = self.d3;", (folder / "MemoryViz.js").read_text())
    route.fulfill(content_type="text/javascript", headers={"Access-Control-Allow-Origin": "*"}, body=f"(function () {{\n{code}\n}}).call(self);\n{viz}")


def wait(page, condition):
    while not page.evaluate(condition):
        time.sleep(0.05)


def main():
    path, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with sync_playwright() as driver:
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=[*root, "--enable-precise-memory-info"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(600_000)
        page.add_init_script(FIRST.format(RIVALS if folder else OURS))
        if folder:
            page.route(re.compile("^https?:"), lambda route: answer(route, folder))
        page.goto(path.as_uri())
        wait(page, "globalThis.first")
        print("first:", page.evaluate("first") / 1000)
        if not folder:
            wait(page, OURS_WHOLE)
        box = page.locator("svg" if folder else "#plot").first.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.evaluate(FRAMES)
        for turn in range(30):
            page.mouse.wheel(0, -120 if turn % 10 < 7 else 120)
        page.mouse.down()
        for step in range(20):
            page.mouse.move(box["x"] + box["width"] / 2 - 10 * step, box["y"] + box["height"] / 2)
        page.mouse.up()
        at = page.evaluate("at")
        between = sorted(after - before for before, after in zip(at, at[1:]))
        print("frames:", between[int(0.95 * (len(between) - 1))])
        session = page.context.new_cdp_session(page)
        session.send("HeapProfiler.collectGarbage")
        print("heap:", session.send("Runtime.getHeapUsage")["usedSize"] / 1e6)
        browser.close()


if __name__ == "__main__":
    main()
