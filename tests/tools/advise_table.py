"""The table of docs/advise.md: each measure of `gpumem advise` applied to the examples.

    .venv/bin/python tests/tools/advise_table.py          # writes it into the document
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import advised  # noqa: E402
from conftest import Run  # noqa: E402


def run_gpumem(*words):
    done = subprocess.run([ROOT / "build/bin/gpumem", *map(str, words)], capture_output=True, text=True)
    return Run(done.returncode, done.stdout, done.stderr)


def main():
    document = ROOT / "docs" / "advise.md"
    with tempfile.TemporaryDirectory() as folder:
        _, outcomes, _ = advised.outcomes(run_gpumem, Path(folder), advised.CASES)
    table = "\n".join([advised.HEAD, *map(advised.row, outcomes)]) + "\n"
    text = document.read_text()
    document.write_text(re.sub(r"^\| measure \| example .*?\n\n", lambda _: table + "\n", text, flags=re.S | re.M))


if __name__ == "__main__":
    main()
