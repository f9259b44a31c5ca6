"""Makes the table of rates in docs/truth.md from what the suites of random programs counted (tests/e2e/truth.py).

    GPUMEM_TRUTH_FILE=FILE .venv/bin/python -m pytest --long tests/e2e/test_truth_holders.py …
    .venv/bin/python tests/tools/truth_page.py FILE...
"""

import collections
import json
import math
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "truth.md"
BEGIN = "<!-- rates: made by tests/tools/truth_page.py, not by hand -->\n"
END = "<!-- end of rates -->\n"


def rows(files):
    """(question, source, unit) -> {seed: the last line that tells of it}, in the order of their first lines."""
    found = collections.defaultdict(dict)
    for file in files:
        for line in Path(file).read_text().splitlines():
            one = json.loads(line)
            found[one["question"], one["source"], one["unit"]][one["seed"]] = one
    return found


def amount(unit, count):
    return f"{count / 2**30:,.1f} GiB" if unit == "bytes" else f"{count:,} {unit}"


def percent(right, asked):
    """Rounded down: 100 % is said only of all."""
    return "100 %" if right == asked else f"{math.floor(right / asked * 10_000) / 100:.2f} %"


def table(files):
    lines = ["| question | asked of | how many | right |", "|---|---|---|---|"]
    for (question, source, unit), pieces in sorted(rows(files).items()):
        asked = sum(one["asked"] for one in pieces.values())
        right = sum(one["right"] for one in pieces.values())
        lines.append(f"| {question} | {source} | {amount(unit, asked)} | {percent(right, asked)} |")
    return "\n".join(lines) + "\n"


def main():
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + "\n" + table(sys.argv[1:]) + "\n" + END + after)


if __name__ == "__main__":
    main()
