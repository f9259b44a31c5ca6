"""mosaic (github.com/facebookresearch/mosaic) on the snapshot of 40_snapshot: the peak, and the categories at it. It is on
no package index: measured where it is installed, in .venv or in the folder that GPUMEM_BENCH_MOSAIC names (`pip install
--target FOLDER CLONE`)."""

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
reading = import_module("40_snapshot")
TITLE = "mosaic on the same snapshot: processor time"
UNIT = "s"
ROUNDS = 1  # its categories take a minute
FOLDER = os.environ.get("GPUMEM_BENCH_MOSAIC", "")


def mosaic(module, *arguments, says):
    def measured(bench):
        python = ["env", f"PYTHONPATH={FOLDER}", bench.python]
        if "yes" not in bench.run([*python, "-c", "import mosaic.cmd; print('yes')"]):
            raise bench.Skipped("it is not installed, and on no package index: see 42_mosaic.py")
        command = [*python, "-m", f"mosaic.cmd.{module}", "--snapshot", reading.snapshot(bench)]
        with tempfile.TemporaryDirectory() as folder:
            words = [word.format(out=folder) for word in arguments]
            return reading.processor_seconds(bench, [*command, *words], says)

    return measured


CONTENDERS = {
    "gpumem peak": reading.ours("peak"),
    "mosaic's peak": mosaic("get_memory_usage_peak", says="eak"),
    "gpumem peak --by category": lambda bench: reading.processor_seconds(
        bench, [bench.gpumem, "peak", reading.snapshot(bench), "--by", "category"], "cuda:0"
    ),
    "mosaic's categories": mosaic(
        "get_memory_profile", "--profile", "categories", "--out-path", "{out}/page.html", says=""
    ),
}
COMPARE = [
    ("mosaic's peak", "gpumem peak", "times gpumem's"),
    ("mosaic's categories", "gpumem peak --by category", "times gpumem's"),
]
