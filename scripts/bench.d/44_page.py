"""The page of `gpumem view` beside that of PyTorch's trace_plot, of the snapshot of 40_snapshot: processor time of the command that
writes it. 45 to 48 are of the same two pages."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
reading = import_module("40_snapshot")
TITLE = "The page of the same snapshot, written: processor time"
UNIT = "s"


def ours(bench):
    path = reading.snapshot(bench)
    return reading.processor_seconds(bench, [bench.gpumem, "view", path, "-o", path.with_suffix(".html")], "in a page of")


def page_of_ours(bench):
    path = reading.snapshot(bench).with_suffix(".html")
    if not path.exists():
        ours(bench)
    return path


def page_of_rival(bench):
    out = reading.snapshot(bench).with_suffix(".out")
    if not out.exists():
        reading.memory_viz("trace_plot", "script")(bench)
    page = out.with_suffix(".trace_plot.html")  # a browser shows no other name as a page
    if not page.exists():
        page.hardlink_to(out)
    return page


CONTENDERS = {
    "gpumem view": ours,
    "gpumem view --svg": lambda bench: reading.processor_seconds(
        bench, [bench.gpumem, "view", reading.snapshot(bench), "--svg", "/dev/null"], "in a picture of"
    ),
    "torch.cuda._memory_viz trace_plot": reading.memory_viz("trace_plot", "script"),
}
COMPARE = [("gpumem view", "torch.cuda._memory_viz trace_plot", "of trace_plot's (at most 0.25)")]
