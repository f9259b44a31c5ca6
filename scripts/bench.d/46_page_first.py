"""Both pages in headless Chromium: how long until there is a plot. PyTorch's page asks the network for its script and for d3: it is
measured where the folder that GPUMEM_BENCH_VIZ names has MemoryViz.js (torch/utils/viz of PyTorch's repository, a version that
imports d3@5) and d3.v5.min.js (the wheel of mpld3 on PyPI has it)."""

import os
import shutil
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
pages = import_module("44_page")
TITLE = "Both pages in headless Chromium, software rendering: from the navigation to the first plot"
UNIT = "s"
FOLDER = os.environ.get("GPUMEM_BENCH_VIZ", "")


def browse(bench, figure, *arguments):
    if not shutil.which("chromium") or not (bench.root / "build" / "playwright").exists():
        raise bench.Skipped("there is no chromium, or no playwright (./scripts/setup --with-tests gets it)")
    return bench.figure(bench.run([bench.python, bench.programs / "browse.py", *arguments]), figure)


def ours(figure):
    return lambda bench: browse(bench, figure, pages.page_of_ours(bench))


def rivals(figure):
    def measured(bench):
        if not all((Path(FOLDER) / name).exists() for name in ("MemoryViz.js", "d3.v5.min.js")) or not FOLDER:
            raise bench.Skipped("GPUMEM_BENCH_VIZ names no folder with its script and d3: see 46_page_first.py")
        return browse(bench, figure, pages.page_of_rival(bench), FOLDER)

    return measured


CONTENDERS = {"the page of gpumem view": ours("first"), "the page of trace_plot": rivals("first")}
COMPARE = [("the page of trace_plot", "the page of gpumem view", "times gpumem's (at least 4)")]
