"""Both pages in headless Chromium, as 46_page_first has them: memory of the script."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
browser = import_module("46_page_first")
TITLE = "Both pages in headless Chromium, software rendering: memory of the script"
UNIT = "MB"
CONTENDERS = {"the page of gpumem view": browser.ours("heap"), "the page of trace_plot": browser.rivals("heap")}
COMPARE = [("the page of trace_plot", "the page of gpumem view", "times gpumem's (at least 5)")]
