"""What the suites of random programs count: how many answers they asked for, and how many were right. Where
GPUMEM_TRUTH_FILE names a file, a line of JSON is appended to it for each piece of a suite that ran;
tests/tools/truth_page.py makes the table of docs/truth.md from these lines."""

import json
import os


def note(question, source, unit, asked, right, seed, wrong=()):
    """`asked` and `right` are counts of `unit` (graphs, states, programs, bytes); `wrong`: some of what is wrong, as text."""
    path = os.environ.get("GPUMEM_TRUTH_FILE")
    if not path:
        return
    line = {"question": question, "source": source, "unit": unit, "asked": asked, "right": right,
            "seed": seed, "wrong": [str(one)[:600] for one in wrong][:20]}  # fmt: skip
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")
