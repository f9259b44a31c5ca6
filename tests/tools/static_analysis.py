#!/usr/bin/env python3
"""clang's static analyzer over C files of a build, each with the settings that it is compiled with.

Use: static_analysis.py [--jobs N] [PATH ...]    # PATH: core/inject, a file, ...; none: all

Prints what is reported and ends with 1 if there is anything. A result is kept in build/static-analysis/ under the hash of
the file's preprocessed text, so that a file is analyzed again only after it, or a header of it, has changed.
"""

import argparse
import hashlib
import json
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "static-analysis"
MODELS = Path(__file__).resolve().parent / "analyzer"  # what it is to know of macros and functions that it cannot see through
# Left out: deadcode, which the compilers' warnings have; and the two that report every memcpy(), snprintf() and strcpy()
# as such: their room is checked as they run (_FORTIFY_SOURCE, cmake/hardening.cmake).
CHECKERS = ["core", "unix", "security", "nullability"]
NOT = ["deadcode", "security.insecureAPI.DeprecatedOrUnsafeBufferHandling", "security.insecureAPI.strcpy"]
REPORT = re.compile(r"\S+:\d+:\d+: warning: ")
LEAK = re.compile(r"(\S+?):(\d+):\d+: warning: Potential leak of memory pointed to by '(.+?)'")
ALLOCATED = re.compile(r"^(\S+?):(\d+):\d+: note: Memory is allocated", re.M)
RETURNED = re.compile(r"^(\S+?):(\d+):\d+: note: Returned allocated memory", re.M)
GUARD = re.compile(r"_cleanup_(\w+|\(\w+\)) ")
SETTINGS = [word for name in CHECKERS for word in ("-Xclang", f"-analyzer-checker={name}")]
SETTINGS += [word for name in NOT for word in ("-Xclang", f"-analyzer-disable-checker={name}")]
SETTINGS += ["-Xclang", "-analyzer-output=text", "-fno-caret-diagnostics", "-fno-color-diagnostics"]


def files():
    """{file: settings of its preprocessor}: of a file that is compiled twice, the first."""
    found = {}
    for entry in json.loads((ROOT / "build" / "compile_commands.json").read_text()):
        path = Path(entry["file"])
        if path.suffix != ".c" or ROOT not in path.parents or ROOT / "build" in path.parents or path in found:
            continue
        words, kept = iter(shlex.split(entry["command"])), []
        for word in words:
            if "_FORTIFY_SOURCE" in word:
                continue  # the analyzer knows memcpy(), not what stands in its place
            if word in ("-include", "-isystem", "-I", "-D"):
                kept += [word, next(words)]
            elif word.startswith(("-I", "-D", "-std=", "-m", "-U")):
                kept.append(word)
        # the functions that a model stands before are seen as they are where they are defined
        found[path] = kept if path.name == "error.c" else [f"-I{MODELS}", *kept]
    return found


def run(words):
    return subprocess.run(["clang", *words], cwd=ROOT, capture_output=True, text=True, errors="replace")


def statements(path, line):
    """What stands in a function up to a line, cut at the ends of statements."""
    lines = (ROOT / path).read_text().splitlines()[: int(line)]
    begin = max((number for number, text in enumerate(lines) if text.startswith("{")), default=0)
    return [text.strip() for text in re.split(r"[;{}]", re.sub(r"/\*.*?(\*/|$)", "", " ".join(lines[begin:]))) if text.strip()] or [""]


def is_guarded(report):
    """Whether what is said to leak belongs to a variable that its scope frees (base/cleanup.h): the analyzer of clang 14 does not
    know of those. A leak that comes about by gm_take() is seen in who took it."""
    for place in [*ALLOCATED.finditer(report), *RETURNED.finditer(report)]:
        if GUARD.match(statements(place[1], place[2])[-1]):
            return True
    place = LEAK.match(report)
    said = statements(place[1], place[2])
    return any(GUARD.match(text) and re.search(rf"\b{place[3]}\b", text) for text in said)


def without_guarded(said):
    """The reports, each a warning with its notes, without those."""
    reports = [text for text in re.split(r"(?m)^(?=\S+:\d+:\d+: warning: )", said) if text]
    kept = [text for text in reports if not (LEAK.match(text) and is_guarded(text))]
    return "".join(kept) if any(REPORT.match(text) for text in kept) or len(kept) == len(reports) else ""


def raw(path, settings):
    """What the analyzer says of one file."""
    text = run([*settings, "-w", "-E", str(path)])
    if text.returncode:
        return text.stderr
    mark = hashlib.sha256("\0".join([*SETTINGS, *settings, text.stdout]).encode()).hexdigest()
    kept = KEPT / mark
    if kept.exists():
        return kept.read_text()
    done = run(["--analyze", *SETTINGS, *settings, "-w", "-o", "/dev/null", str(path)])
    said = re.sub(r"(?m)^\d+ warnings? generated\.\n", "", done.stderr.replace(f"{ROOT}/", ""))
    if done.returncode and not said:
        said = f"{path}: clang --analyze ended with {done.returncode}\n"
    KEPT.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(f".{path.name}.part")
    part.write_text(said)
    part.replace(kept)
    return said


def analyze(path, settings):
    """What is reported of one file, "" where nothing is."""
    return without_guarded(raw(path, settings))


def files_below(paths):
    """The files of files() that are or lie below these paths; all where none is given."""
    chosen = {
        path: settings
        for path, settings in files().items()
        if not paths or any(path == ROOT / wanted or ROOT / wanted in path.parents for wanted in paths)
    }
    if not chosen:
        raise ValueError(f"no file of the build is below {', '.join(paths)}")
    return chosen


def reports(paths=(), jobs=1):
    """{file: what is reported}: of the files below paths, those alone of which anything is."""
    chosen = files_below(paths)
    with ThreadPoolExecutor(jobs) as pool:
        said = pool.map(lambda path: analyze(path, chosen[path]), chosen)
        return {str(path.relative_to(ROOT)): text for path, text in zip(chosen, said, strict=True) if text}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("paths", nargs="*", metavar="PATH")
    options = parser.parse_args()
    found = reports(options.paths, options.jobs)
    for text in found.values():
        print(text, end="")
    print(f"{len(found)} files with reports")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
