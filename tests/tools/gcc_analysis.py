#!/usr/bin/env python3
"""gcc's static analyzer (-fanalyzer) over C files of a build, each with the settings that it is compiled with.

Use: gcc_analysis.py [--jobs N] PATH ...    # PATH: core/inject, a file, ...

Prints what is reported and ends with 1 if there is anything. It looks at one file at a time, and at all paths through its
functions, so a file with many paths takes it minutes: a file that takes longer than LIMIT seconds is named and left out.
"""

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from static_analysis import MODELS, ROOT, files_below

LIMIT = 120
# Left out: leaks. gcc 12 reports memory that an argument's struct owns; clang's analyzer looks for leaks.
SETTINGS = ["-O0", "-fanalyzer", "-Wno-analyzer-malloc-leak", "-fdiagnostics-plain-output", "-c", "-o", "/dev/null"]


def analyze(path, settings):
    """(what is reported of one file, whether it took too long)"""
    settings = [word for word in settings if word != f"-I{MODELS}"]  # these are for clang
    try:
        done = subprocess.run(
            ["gcc", *settings, *SETTINGS, str(path)], cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return "", True
    said = done.stderr.replace(f"{ROOT}/", "")
    return said if done.returncode or "-Wanalyzer-" in said else "", False


def reports(paths, jobs=1, without=()):
    """({file: what is reported}, [files that took too long])"""
    chosen = {path: settings for path, settings in files_below(paths).items() if str(path.relative_to(ROOT)) not in without}
    with ThreadPoolExecutor(jobs) as pool:
        results = dict(zip(chosen, pool.map(lambda path: analyze(path, chosen[path]), chosen), strict=True))
    said = {str(path.relative_to(ROOT)): text for path, (text, _) in results.items() if text}
    return said, [str(path.relative_to(ROOT)) for path, (_, slow) in results.items() if slow]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    options = parser.parse_args()
    said, slow = reports(options.paths, options.jobs)
    for text in said.values():
        print(text, end="")
    for path in slow:
        print(f"{path}: not analyzed in {LIMIT} s")
    print(f"{len(said)} files with reports")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
