"""The size of both pages."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
pages = import_module("44_page")
TITLE = "Both pages: size"
UNIT = "MB"
ROUNDS = 1
CONTENDERS = {
    "the page of gpumem view": lambda bench: pages.page_of_ours(bench).stat().st_size / 1e6,
    "the page of trace_plot": lambda bench: pages.page_of_rival(bench).stat().st_size / 1e6,
}
COMPARE = [("the page of trace_plot", "the page of gpumem view", "times as large as gpumem's (at least 15)")]
