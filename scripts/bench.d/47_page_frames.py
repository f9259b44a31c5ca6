"""Both pages in headless Chromium, as 46_page_first has them: zoom and pan by the wheel and the mouse, frames at the 95th percentile."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
browser = import_module("46_page_first")
TITLE = "Both pages in headless Chromium, software rendering: zoom and pan by the wheel and the mouse, frames at the 95th percentile"
UNIT = "ms"
CONTENDERS = {"the page of gpumem view": browser.ours("frames"), "the page of trace_plot": browser.rivals("frames")}
COMPARE = [("the page of trace_plot", "the page of gpumem view", "times gpumem's")]
