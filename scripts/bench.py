"""Runs the rows of scripts/bench.d and prints ratios. scripts/bench sets up and calls this.

A row is a module of scripts/bench.d: `TITLE`, `UNIT`, `CONTENDERS` (name -> a function of a Bench that does one
measurement and gives back a number) and `COMPARE` (a list of (ours, rival, what the ratio means)); with
`LESS`, a contender's name, ratios are of what comes on top of it; `ROUNDS` is the most rounds that tell more. The
contenders of a row take turns, round by round, so that a slow minute of the machine hits them alike; medians
are compared. Figures of time mean something only beside each other: nothing here fails on them.
"""

import argparse
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
ROWS = ROOT / "scripts" / "bench.d"


VERSIONS = "import sys, torch; print('PyTorch', torch.__version__, 'on CPython', sys.version.split()[0])"


class Failed(Exception):
    pass


class Skipped(Failed):
    """A rival that is not installed, and need not be."""


class Bench:
    """What the rows use: paths, the simulated device's environment, running a command."""

    root = ROOT
    programs = ROWS / "programs"
    python = ROOT / ".venv" / "bin" / "python"
    gpumem = ROOT / "build" / "bin" / "gpumem"
    Failed = Failed
    Skipped = Skipped

    def __init__(self, python=None):
        if python:
            self.python = Path(python)
        self._sim = None
        self._kept = {}

    def keep(self, name, start):
        """A process that all rounds share: start() makes it at first use; ended with the benchmarks."""
        if name not in self._kept:
            self._kept[name] = start()
        return self._kept[name]

    def close(self):
        for process in self._kept.values():
            process.kill()
            process.wait()

    def target(self, program, *arguments, name=None):
        """A program of scripts/bench.d/programs, one for all rounds and rows that ask for it alike (or by `name`), once
        it is ready: the words of the line that it printed, (process id, a block's address)."""
        command = [self.python, self.programs / f"{program}.py", *arguments]
        process = self.keep(name or " ".join(map(str, command[1:])), lambda: self.start(command, env=self.sim))
        if not hasattr(process, "said"):
            process.said = process.stdout.readline().split()
        if not process.said:
            raise Failed("the program that is looked at did not start")
        return int(process.said[0]), process.said[1]

    @property
    def sim(self):
        """The variables that put a program on the simulated device."""
        if self._sim is None:
            out = self.run([self.gpumem, "run", "--sim", "--no-record", "--", "/usr/bin/env", "-0"])
            shown = dict(line.split("=", 1) for line in out.split("\0") if "=" in line)
            self._sim = {name: value for name, value in shown.items() if os.environ.get(name) != value}
        return self._sim

    def plain_gdb(self, settings, commands, program, *arguments):
        """The output of a gdb without our plugin, whose program is on the simulated device."""
        line = ["gdb", "-nx", "-batch"]
        for name, value in self.sim.items():
            line += ["-ex", f"set environment {name} {value}"]
        for command in ["set confirm off", *settings, *commands]:
            line += ["-ex", command]
        return self.run([*line, "--args", self.python, program, *arguments])

    def our_gdb(self, commands, program, *arguments):
        line = [self.gpumem, "gdb", "--sim", "-batch"]
        for command in commands:
            line += ["-ex", command]
        return self.run([*line, "--", self.python, program, *arguments])

    def start(self, command, env=None):
        return subprocess.Popen(
            [str(word) for word in command], env={**os.environ, **(env or {})}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def run(self, command, env=None, timeout=600):
        process = subprocess.Popen(
            [str(word) for word in command], env={**os.environ, **(env or {})}, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            out, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"{command[0]} took more than {timeout} s") from None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # gdb may leave its program behind
            except ProcessLookupError:
                pass
        return out

    def figure(self, text, label):
        """The number after "LABEL: " in what a program printed."""
        for line in text.splitlines():
            if line.startswith(f"{label}: "):
                return float(line.split(": ")[1].split()[0])
        raise Failed(f"no '{label}' in: …{' '.join(text.split())[-200:]}")


def load(path):
    spec = importlib.util.spec_from_file_location(f"bench_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def progress(text, shown=[0.0]):
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    elif text and time.monotonic() - shown[0] >= 20:  # a file or a pipe: that it goes on
        shown[0] = time.monotonic()
        print(text, file=sys.stderr, flush=True)


def measure(row, bench, rounds):
    times = {name: [] for name in row.CONTENDERS}
    failed, skipped = {}, {}
    rounds = min(rounds, getattr(row, "ROUNDS", rounds))
    for turn in range(rounds):
        for name, contender in row.CONTENDERS.items():
            if name in failed or name in skipped:
                continue
            progress(f"  round {turn + 1}/{rounds}: {name}")
            try:
                times[name].append(contender(bench))
            except Skipped as reason:
                skipped[name] = str(reason)
            except Failed as reason:
                failed[name] = str(reason)
    progress("")
    return times, failed, skipped


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="measurements of each (5)")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE too")
    parser.add_argument("--python", metavar="PATH", help="runs the programs, with a PyTorch of its own (.venv's)")
    parser.add_argument("row", nargs="*", help="rows to run, by a part of their name; all without any")
    options = parser.parse_args()

    bench = Bench(options.python)
    report = []
    print(bench.run([bench.python, "-c", VERSIONS]).strip().splitlines()[-1])
    for path in sorted(ROWS.glob("*.py")):
        if options.row and not any(word in path.stem for word in options.row):
            continue
        row = load(path)
        print(row.TITLE)
        times, failed, skipped = measure(row, bench, options.rounds)
        medians = {name: statistics.median(values) for name, values in times.items() if values}
        for name, value in medians.items():
            low, high = min(times[name]), max(times[name])
            print(f"  {name:44} {value:10.4g} {row.UNIT:6} ({low:.4g} to {high:.4g})")
        for name, reason in failed.items():
            print(f"  {name:44} not measured: {reason}")
        for name, reason in skipped.items():
            print(f"  {name:44} skipped: {reason}")
        ratios = []
        for ours, rival, meaning in row.COMPARE:
            if ours in medians and rival in medians:
                base = medians.get(getattr(row, "LESS", None), 0)
                rivals = medians[rival] - base
                if rivals <= 0:
                    failed[rival] = f"{rivals:.4g} {row.UNIT}: no ratio can be made of it"
                    print(f"  {rival:44} not measured: {failed[rival]}")
                    continue
                ratio = (medians[ours] - base) / rivals
                print(f"  -> {ratio:.2f} {meaning}")
                ratios.append({"ours": ours, "rival": rival, "ratio": ratio, "meaning": meaning})
        report.append(
            {"row": path.stem, "title": row.TITLE, "unit": row.UNIT, "medians": medians,
             "rounds": times, "not_measured": failed, "skipped": skipped, "ratios": ratios}
        )  # fmt: skip
    bench.close()
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    return 1 if not report or any(row["not_measured"] for row in report) else 0


if __name__ == "__main__":
    sys.exit(main())
