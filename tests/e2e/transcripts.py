"""Transcripts in documents: types the commands of their `console` blocks and compares what comes back.

A line that begins with `$ ` is a shell command, one with `(gdb) ` is typed to the gdb that the latest
`$ … gpumem gdb …` of the document started; the lines below are the output. A line `...` stands for any
lines. Addresses, process numbers and times differ from run to run and are not compared; what gdb itself
says of threads is left out. A block below the line `<!-- needs PACKAGE -->` is skipped if Python (GPUMEM_TEST_PYTHON, or .venv's)
does not have the package.

    .venv/bin/python tests/e2e/transcripts.py docs/tutorial-linear-loop.md    # writes the real output into it
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from gdb_session import GdbSession  # noqa: E402

BLOCK = re.compile(r"(?:^<!-- needs (\w+) -->\n)?^```console\n(.*?)^```$", re.S | re.M)
PYTHON = os.environ.get("GPUMEM_TEST_PYTHON") or ROOT / ".venv" / "bin" / "python"
CHATTER = re.compile(
    r"^(\[New (Thread|LWP)|\[Thread |\[Detaching|\[Attaching|\[Inferior|Using host libthread_db|warning: |"
    r"Starting program: |Continuing\.$|Download failed|This GDB supports|Enable debuginfod|Debuginfod has|To make this|"
    r"Reading symbols from|\(No debugging symbols|\d+\t\.\./sysdeps)"
)
# Where this clone and its private Python lie on this machine.
PLACES = [(re.compile(r"[^\s(]*/venv-[0-9a-f]{16}/"), ".venv/"), (re.compile(re.escape(f"{ROOT}/")), "")]
VARYING = [
    (re.compile(r"/tmp/(gt-\w+/)*gpumem-\S+\.gpumem"), "LOG"),
    (re.compile(r"0x[0-9a-f]{5,}"), "0xADDRESS"),
    (re.compile(r"\b(process|thread|pid|Thread|LWP) \d+"), r"\1 N"),
    (re.compile(r"\b\d+(\.\d+)? ?(us|µs|ms|s|seconds|minutes)\b"), "TIME"),
    (re.compile(r"\d\d:\d\d:\d\d(\.\d+)?"), "TIME"),
    (re.compile(r"[ \t]+"), " "),
]


def clean(text):
    """Lines of output as a document shows them."""
    for pattern, word in PLACES:
        text = pattern.sub(word, text)
    lines = [line.rstrip() for line in text.replace("\r", "").splitlines() if not CHATTER.match(line)]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def comparable(line):
    for pattern, word in VARYING:
        line = pattern.sub(word, line)
    return line.strip()


def matches(expected, actual):
    """Whether lines are the same, `...` standing for any number of them."""
    if not expected:
        return not actual
    if expected[0] == "...":
        return any(matches(expected[1:], actual[at:]) for at in range(len(actual) + 1))
    return bool(actual) and comparable(expected[0]) == comparable(actual[0]) and matches(expected[1:], actual[1:])


class Runner:
    """Runs the commands of one document in order; keeps its gdb between blocks.

    What a document has in /tmp lies in a folder of the runner's own: another one may run at the same time.
    """

    def __init__(self, build):
        self.build = build
        self.gdb = None
        self.folder = tempfile.mkdtemp(prefix="t", dir="/tmp")
        self.environment = {**os.environ, "PET_STANDALONE": "1"}  # torchrun listens on a port that is free

    def clean(self, text):
        return clean(text.replace(f"{self.folder}/", "/tmp/").replace(str(PYTHON), ".venv/bin/python"))

    def run(self, prompt, command):
        command = command.replace("/tmp/", f"{self.folder}/")
        if prompt == "(gdb)":
            assert self.gdb, f"no gdb was started before: {command}"
            return self.clean(self.gdb.type(command))
        self.end_gdb()
        command = re.sub(r"\.venv/bin/python\b", str(PYTHON), command)
        words = command.split()
        if len(words) > 1 and words[0].endswith("gpumem") and words[1] == "gdb" and "-batch" not in words:
            words[0] = str(self.build / "bin" / "gpumem")
            self.gdb = GdbSession(words, cwd=ROOT)
            return self.clean(self.gdb.start)
        line = re.sub(r"\bbuild/bin/gpumem\b", str(self.build / "bin" / "gpumem"), command)
        done = subprocess.run(
            ["bash", "-c", line], cwd=ROOT, stdin=subprocess.DEVNULL, timeout=600, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return self.clean(done.stdout)

    def end_gdb(self):
        if self.gdb:
            self.gdb.__exit__()
            self.gdb = None

    def close(self):
        self.end_gdb()
        shutil.rmtree(self.folder)


def can_run(package):
    """Of a block that needs a package."""
    return not package or subprocess.run([PYTHON, "-c", f"import {package}"], capture_output=True, timeout=600).returncode == 0


def steps(block):
    """(prompt, command, expected lines) of a console block."""
    found = []
    for line in block.splitlines():
        match = re.match(r"(\$|\(gdb\)) (.*)", line)
        if match:
            found.append((match[1], match[2], []))
        else:
            assert found, f"a console block begins with a command, not with: {line}"
            found[-1][2].append(line.rstrip())
    return found


def differences(path, build):
    """What a document says and is not so; empty when all is."""
    wrong = []
    runner = Runner(build)
    try:
        for package, block in BLOCK.findall(path.read_text()):
            for prompt, command, expected in steps(block) if can_run(package) else ():
                actual = runner.run(prompt, command)
                while expected and not expected[-1]:
                    expected.pop()
                if not matches(expected, actual):
                    wrong.append("\n".join([f"{prompt} {command}", *actual, "--- but the document says", *expected]))
    finally:
        runner.close()
    return wrong


def shape(line):
    """A line without its figures: what stays of it when versions change."""
    return re.sub(r"[\d.,]*\d", "0", comparable(line))


def shortened(expected, actual):
    """`actual` with `...` where `expected` had it: between the lines that are alike but for their figures. All of it
    where those are not found."""
    lines, at, left_out = [], 0, False
    for line in expected:
        if line == "...":
            left_out = True
            continue
        if left_out:
            found = next((i for i in range(at, len(actual)) if shape(actual[i]) == shape(line)), None)
            if found is None:
                return actual
            lines.append("...")
            at, left_out = found, False
        if at == len(actual) or shape(actual[at]) != shape(line):
            return actual
        lines.append(actual[at])
        at += 1
    return [*lines, "..."] if left_out else lines + actual[at:]


def update(path, build):
    runner = Runner(build)

    def renew(match):
        lines, head = [], f"<!-- needs {match[1]} -->\n" if match[1] else ""
        if not can_run(match[1]):
            return match[0]
        for prompt, command, expected in steps(match[2]):
            actual = runner.run(prompt, command)
            while expected and not expected[-1]:
                expected.pop()
            lines += [f"{prompt} {command}", *(expected if matches(expected, actual) else shortened(expected, actual))]
        return head + "```console\n" + "".join(f"{line}\n" for line in lines) + "```"

    try:
        path.write_text(BLOCK.sub(renew, path.read_text()))
    finally:
        runner.close()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        update(Path(name), Path(os.environ.get("GPUMEM_BUILD_DIR", ROOT / "build")).resolve())
