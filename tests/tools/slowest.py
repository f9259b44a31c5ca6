#!/usr/bin/env python3
"""Where the time of the tests goes, from the JUnit file that `scripts/test` leaves.

    tests/tools/slowest.py                                # build/test-results/e2e.xml
    tests/tools/slowest.py build/test-results/e2e.xml --tests 40
    tests/tools/slowest.py --within test_walk.py          # every test of one file

A test's seconds are those of its set-up, its call and its end. What a fixture makes for several tests counts with
the first of them: of a file that shares a program look at the sum.
"""

import argparse
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "build" / "test-results" / "e2e.xml"


def seconds(report):
    """{(file, test): seconds} of a JUnit file. pytest names a test's file as a module: tests.e2e.test_walk."""
    found = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        module = [word for word in (case.get("classname") or "").split(".") if word.startswith("test_")]
        found[module[0] + ".py" if module else "?", case.get("name") or "?"] += float(case.get("time") or 0)
    return found


def print_table(counted, number, total):
    for name, spent in counted.most_common(number):
        print(f"{spent:8.1f} s  {100 * spent / (total or 1):4.1f} %  {name}")


def main():
    parser = argparse.ArgumentParser(description="Prints the files and the tests that take longest.")
    parser.add_argument("report", nargs="?", type=Path, default=REPORT, help="a JUnit file (build/test-results/e2e.xml)")
    parser.add_argument("--files", type=int, default=25, metavar="N", help="the N longest files (25)")
    parser.add_argument("--tests", type=int, default=25, metavar="N", help="the N longest tests (25)")
    parser.add_argument("--within", metavar="FILE", help="the tests of this file alone, all of them")
    options = parser.parse_args()
    try:
        found = seconds(options.report)
    except (OSError, ElementTree.ParseError) as error:
        sys.exit(f"slowest.py: {options.report}: {error}: run scripts/test first, or name a JUnit file")
    if options.within:
        found = Counter({(file, test): spent for (file, test), spent in found.items() if file == Path(options.within).name})
    total = sum(found.values())
    print(f"{len(found)} tests, {total:.0f} s: {total / 120:.1f} minutes for two at a time")
    if not options.within:
        files = Counter()
        for (file, _), spent in found.items():
            files[file] += spent
        print("\nfiles")
        print_table(files, options.files, total)
        print("\ntests")
    print_table(Counter({f"{file}::{test}": spent for (file, test), spent in found.items()}), None if options.within else options.tests, total)


if __name__ == "__main__":
    main()
