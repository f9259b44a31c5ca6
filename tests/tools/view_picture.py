"""view_picture.py PAGE.html OUT.png [MOMENT]: a picture of a page of `gpumem view`, for the documents, by Debian's Chromium.

MOMENT is what stands behind # in the page's address: event=2814&block=2649. docs/view-gpt.png is of examples/gpt.py:

    gpumem run --sim -o gpt.gpumem -- python examples/gpt.py
    gpumem view gpt.gpumem
    view_picture.py gpt.gpumem.html docs/view-gpt.png 'event=2814&block=2649'
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from browser import Opened, browser  # noqa: E402

if __name__ == "__main__":
    page, out, moment = Path(sys.argv[1]), sys.argv[2], "".join(sys.argv[3:])
    with browser() as chromium, Opened(chromium, page.resolve(), f"#{moment}", viewport={"width": 1280, "height": 900}) as shown:
        shown.wait_for_timeout(500)  # the last frame
        shown.screenshot(path=out)
