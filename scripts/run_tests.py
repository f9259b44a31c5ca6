"""Runs every kind of test and adds up what they say. `scripts/test` sets up and calls this.

A stage is a build or a run; each gives back cases (name, outcome, text). A stage that cannot even run is one
failed case, so that the closing line never hides it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import fuzz_seeds

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "test-results"
JOBS = str(os.cpu_count() or 2)
# The times that stages may take are there for what hangs: a busy machine takes many times as long as a quiet one.


@dataclass
class Case:
    name: str
    outcome: str  # passed, failed or skipped
    text: str = ""
    unsteady: bool = False  # it failed among all the others and passed alone (--rerun)


def shell(command, timeout, env=None):
    """(status, output); status None: it ran past its time."""
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as late:
        out = late.stdout or b""
        return None, out.decode(errors="replace") if isinstance(out, bytes) else out
    return done.returncode, done.stdout


def last_lines(text, count=40):
    return "\n".join(text.splitlines()[-count:])


# --- builds ---------------------------------------------------------------------------------------------


def build(folder, options, compiler=None):
    """Configures and builds; one case."""
    env = {"CC": compiler} if compiler else {}
    name = f"build {folder} ({' '.join([compiler or 'gcc', *options])})"
    cache = ROOT / folder / "CMakeCache.txt"
    if cache.exists() and f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" not in cache.read_text():
        shutil.rmtree(ROOT / folder)  # a clone that was moved
    status, text = shell(["cmake", "-S", ".", "-B", folder, "-G", "Ninja", *options], 1800, env)
    if status == 0:
        status, text = shell(["ninja", "-C", folder], 7200)
    return [Case(name, "passed" if status == 0 else "failed", last_lines(text))]


# --- C unit tests ---------------------------------------------------------------------------------------

CMOCKA = re.compile(r"^\[ +(OK|FAILED|SKIPPED|ERROR) +\] (\S+?)(?:: .*)?$", re.M)
OUTCOMES = {"OK": "passed", "FAILED": "failed", "ERROR": "failed", "SKIPPED": "skipped"}


def unit_tests(folder):
    report = RESULTS / f"{folder}.xml"
    command = ["ctest", "--test-dir", folder, "-j", JOBS, "--timeout", "1800", "--output-junit", report]
    command += ["--test-output-size-passed", "1000000", "--test-output-size-failed", "1000000"]
    report.unlink(missing_ok=True)
    status, text = shell(command, 7200)
    if not report.exists():
        return [Case(f"{folder}: ctest", "failed", last_lines(text))]
    cases = []
    for program in ElementTree.parse(report).iter("testcase"):
        cases += cmocka_cases(f"{folder}/{program.get('name')}", program)
    if not cases:
        cases.append(Case(f"{folder}: ctest", "failed", f"no unit tests ran\n{last_lines(text)}"))
    return cases


def cmocka_cases(program, element):
    """One case per cmocka test, and one more where the program died without saying which."""
    output = element.findtext("system-out") or ""
    # cmocka names a failed test twice: once where it ran, once in its closing list.
    found = {name: OUTCOMES[word] for word, name in CMOCKA.findall(output) if not name.isdigit()}
    cases = [Case(f"{program}: {name}", outcome) for name, outcome in found.items()]
    bad = element.get("status") not in ("run", "disabled")
    if bad or not cases:
        failed = [case for case in cases if case.outcome == "failed"]
        if not failed:
            failed = [Case(f"{program}", "failed" if bad else "passed")]
            cases += failed
        failed[0].text = last_lines(output) if bad else ""
    return cases


# --- fuzzers --------------------------------------------------------------------------------------------


def fuzz(folder, seconds):
    """Every fuzzer for a while, one on each processor."""
    found = sorted((ROOT / folder / "tests").glob("fuzz_*"))
    programs = [path for path in found if os.access(path, os.X_OK) and not path.is_dir()]
    with ThreadPoolExecutor(int(JOBS)) as threads:
        return list(threads.map(lambda program: fuzz_one(program, seconds), programs))


def fuzz_one(program, seconds):
    """From the seeds in tests/fuzz/NAME/ where there are any, and those that are made here."""
    corpus = RESULTS / "fuzz" / program.name
    corpus.mkdir(parents=True, exist_ok=True)
    fuzz_seeds.make(program.name, corpus)
    seeds = [path for path in [ROOT / "tests" / "fuzz" / program.name] if path.is_dir()]
    command = [program, f"-max_total_time={seconds}", "-timeout=100", "-rss_limit_mb=2048"]
    command += [f"-artifact_prefix={RESULTS}/", "-print_final_stats=1", corpus, *seeds]
    status, text = shell(command, seconds + 3600)
    return Case(f"{program.name} ({seconds} s)", "passed" if status == 0 else "failed", last_lines(text))


# --- static analysis --------------------------------------------------------------------------------------

# What runs as root beside strangers' programs. The other rooms, with --all: clang takes three minutes for them all, and fuzzers
# run over those that read strangers' files each time.
ANALYZED_DAILY = ["core/inject", "core/spool"]
# Not core/sim, where reports stand that are not true: of work that is counted by references, of a name that a table keeps.
ANALYZED = [f"core/{path.name}" for path in sorted((ROOT / "core").iterdir()) if path.name not in ("include", "sim")]
ANALYZED += ["tests"]


def static_analysis(all_rooms):
    """clang's analyzer over the rooms, one case each. What has not changed since is not analyzed again."""
    sys.path.insert(0, str(ROOT / "tests" / "tools"))
    import static_analysis as analyzer

    if not shutil.which("clang"):
        return [Case("clang's analyzer", "skipped", "no clang on this machine")]
    cases = []
    for room in ANALYZED if all_rooms else ANALYZED_DAILY:
        said = "".join(analyzer.reports([room], int(JOBS)).values())
        cases.append(Case(f"clang's analyzer: {room}", "failed" if said else "passed", said))
    return cases


# What runs as root beside strangers' programs and what all stands on. Not spool/replay.c: gcc 12 takes minutes for it.
GCC_ANALYZED = ["core/inject", "core/preload", "core/log", "core/base", "core/spool"]
GCC_SLOW = {"core/spool/replay.c"}


def gcc_analysis():
    """gcc's analyzer over the rooms that run as root, one case each."""
    sys.path.insert(0, str(ROOT / "tests" / "tools"))
    import gcc_analysis as analyzer

    cases = []
    for room in GCC_ANALYZED:
        said, slow = analyzer.reports([room], int(JOBS), without=GCC_SLOW)
        text = "".join(said.values()) + "".join(f"{path}: not analyzed in {analyzer.LIMIT} s\n" for path in slow)
        cases.append(Case(f"gcc's analyzer: {room}", "failed" if text else "passed", text))
    return cases


# --- pytest ---------------------------------------------------------------------------------------------


def python_tests(name, paths, timeout, extra=(), env=None):
    """Runs pytest with its own output shown, and reads the outcomes from its JUnit file."""
    report = RESULTS / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *paths, *extra]
    try:
        environment = {**os.environ, **(env or {})}
        status = subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=timeout, env=environment
        ).returncode
    except subprocess.TimeoutExpired:
        status = None
    if not report.exists():
        return [Case(f"pytest {name}", "failed", f"pytest wrote no report (status {status})")]
    cases = []
    for element in ElementTree.parse(report).iter("testcase"):
        case = Case(f"{element.get('classname')}::{element.get('name')}", "passed")
        for child in element:
            if child.tag in ("failure", "error"):
                case.outcome = "failed"
            elif child.tag == "skipped":
                case.outcome, case.text = "skipped", child.get("message") or ""
        cases.append(case)
    if status not in (0, 1, 5) or (status == 1 and not any(case.outcome == "failed" for case in cases)):
        cases.append(Case(f"pytest {name}", "failed", f"pytest ended with status {status}"))
    return cases


RERUN_AT_MOST = 3
RERUNS = 3


def rerun(name, cases):
    """A few tests that failed are run again by themselves: who passes each time is unsteady, and is reported as that.

    More than a few, or a test that fails once more, is no matter of the machine's load: all stays failed.
    """
    failed = [case for case in cases if case.outcome == "failed"]
    if not failed or len(failed) > RERUN_AT_MOST or any("::" not in case.name for case in failed):
        return cases
    file_and_test = [case.name.split("::", 1) for case in failed]
    tests = [f"{file.replace('.', '/')}.py::{test}" for file, test in file_and_test]
    passed = dict.fromkeys((case.name for case in failed), 0)
    for number in range(1, RERUNS + 1):
        print(f"== run again by themselves, {number} of {RERUNS}", flush=True)
        for again in python_tests(f"{name}-again-{number}", tests, 3600):
            if again.outcome == "passed" and again.name in passed:
                passed[again.name] += 1
    for case in failed:
        if passed[case.name] == RERUNS:
            case.outcome, case.unsteady = "passed", True
    return cases


# --- other versions of CPython and PyTorch ------------------------------------------------------------------


def versions():
    """The tests that hang on a version, on every one that tests/tools/torch_matrix.py has installed."""
    sys.path.insert(0, str(ROOT / "tests" / "tools"))
    import torch_matrix

    cases = []
    for entry in torch_matrix.ENTRIES:
        python = torch_matrix.python_of(entry)
        if not python:
            text = f"not installed: .venv/bin/python tests/tools/torch_matrix.py install {entry}"
            cases.append(Case(entry, "skipped", text))
            continue
        print(f"   {entry}", flush=True)
        files = [f"tests/e2e/{name}.py" for name in torch_matrix.TESTS]
        found = python_tests(entry, files, 43200, ["--long"], {"GPUMEM_TEST_PYTHON": str(python)})
        cases += [Case(f"{entry}: {case.name}", case.outcome, case.text) for case in found]
    return cases


def learned_rows():
    """Who holds what, told with learned rows alone: of the private Python, and of every one that is installed."""
    sys.path.insert(0, str(ROOT / "tests" / "tools"))
    import torch_matrix

    pythons = {"private": sys.executable, **{entry: torch_matrix.python_of(entry) for entry in torch_matrix.ENTRIES}}
    files = [f"tests/e2e/{name}.py" for name in ("test_ways", "test_who_holds")]
    cases = []
    for entry, python in pythons.items():
        if python:
            print(f"   {entry}, learned", flush=True)
            env = {"GPUMEM_TEST_LEARNED": "1", "GPUMEM_TEST_PYTHON": str(python)}
            found = python_tests(f"learned-{entry}", files, 14400, ["--long"], env)
            cases += [Case(f"{entry}, learned: {case.name}", case.outcome, case.text) for case in found]
    return cases


# --- all of it ------------------------------------------------------------------------------------------


def stages(options):
    pytest_options = ["--long"] if options.all else []
    if options.k:
        selected = [*pytest_options, "-k", options.k]
        yield "tests that match", lambda: python_tests("selected", ["tests/checks", "tests/e2e"], 14400, selected)
        return
    yield "unit tests", lambda: unit_tests("build")
    yield "sanitizer build", lambda: build("build-sanitize", ["-DGPUMEM_SANITIZE=ON"])
    yield "unit tests, sanitized", lambda: unit_tests("build-sanitize")
    yield "clang build, fuzzers", lambda: build("build-clang", ["-DGPUMEM_FUZZ=ON"], "clang")
    yield "fuzzers", lambda: fuzz("build-clang", 600 if options.all else 5)
    yield "static analysis", lambda: static_analysis(options.all) + gcc_analysis()
    yield "checks of the source", lambda: python_tests("checks", ["tests/checks"], 1800)
    # A file's tests stay together: they share what they made first. The files begin in the order of tests/e2e/conftest.py.
    # A tenth of the time each waits for a debugger or a timer: there is one more than there are processors, four at most.
    workers = str(min(int(JOBS) + 1, 4))
    together = ["-n", workers, "--dist", "loadfile", "--no-loadscope-reorder", *pytest_options]
    together += ["--shuffle", options.shuffle] if options.shuffle else []
    again = rerun if options.rerun else lambda _name, cases: cases
    limit = 86400 if options.all else 14400
    yield "end to end", lambda: again("e2e", python_tests("e2e", ["tests/e2e"], limit, together))
    if options.all:
        yield "other versions of CPython and PyTorch", versions
        yield "learned rows alone", learned_rows


def main():
    parser = argparse.ArgumentParser(prog="scripts/test", description="Builds gpumem and runs its tests.")
    parser.add_argument("--all", action="store_true", help="the long tests too (hours)")
    parser.add_argument("-k", metavar="EXPR", help="only pytest's tests that match (pytest's -k)")
    parser.add_argument(
        "--rerun",
        action="store_true",
        help=f"run up to {RERUN_AT_MOST} failed end-to-end tests {RERUNS} times more, alone; who passes each time is listed as unsteady",
    )
    parser.add_argument("--shuffle", metavar="SEED", help="end-to-end tests in an order made from SEED")
    parser.add_argument("--no-apt", action="store_true", help="install no system packages")
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)

    cases = []
    for title, stage in stages(options):
        print(f"== {title}", flush=True)
        start = time.monotonic()
        found = stage()
        cases += found
        for case in found:
            if case.outcome == "failed":
                print(f"FAILED {case.name}\n{case.text}" if case.text else f"FAILED {case.name}")
        counts = count(found)
        print(f"   {counts} ({time.monotonic() - start:.0f} s)", flush=True)

    skipped = [case for case in cases if case.outcome == "skipped"]
    if skipped:
        print("== skipped")
    for case in skipped:
        print(f"   {case.name}: {case.text or 'the test says why in its output'}")
    unsteady = [case for case in cases if case.unsteady]
    if unsteady:
        print(f"== unsteady: failed among the others, passed {RERUNS} times alone; each has a fault to be found")
    for case in unsteady:
        print(f"   {case.name}")
    failed = [case for case in cases if case.outcome == "failed"]
    if failed:
        print("== failed")
    for case in failed:
        print(f"   {case.name}")
    print(count(cases))
    return 1 if failed or not any(case.outcome == "passed" for case in cases) else 0


def count(cases):
    def number(outcome):
        return sum(case.outcome == outcome for case in cases)

    return f"{number('passed')} passed, {number('failed')} failed, {number('skipped')} skipped"


if __name__ == "__main__":
    sys.exit(main())
