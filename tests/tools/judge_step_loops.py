"""judge_step_loops.py GPUMEM OUT: compares what gpumem tells of the programs that run_step_loops.py has run with what they know themselves.

Of each the recording and PyTorch's snapshot are asked. `steps` is right where their number is, and each allocation within one
has its number, and each outside of all has none (with two threads at once: where their number is that of one of them).
`leaks` is right where something piles up and a line that does is named, and no other line is; or nothing does and no line is.
"""

import collections
import json
import subprocess
import sys
from pathlib import Path


def ask(gpumem, *arguments):
    run = subprocess.run([gpumem, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stderr
    return run.stdout


def judge_steps(gpumem, path, truth):
    """None: right; else what is wrong."""
    threads = collections.Counter(step["thread"] for step in truth["steps"])
    told = json.loads(ask(gpumem, "info", path, "--json"))["steps"]
    if told not in threads.values():
        return f"{told} steps for {sorted(threads.values())}"
    if len(threads) > 1:
        return None
    expected = [None] * truth["allocations"]
    for number, step in enumerate(truth["steps"], 1):
        expected[step["from"] : step["to"]] = [number] * (step["to"] - step["from"])
    events = [json.loads(line) for line in ask(gpumem, "events", path, "--json").splitlines()]
    found = [one["step"] for one in events if one["action"] == "alloc" and one["device_type"] == "cuda"]
    unsure = slice(truth["unsure"]["from"], truth["unsure"]["to"])
    expected[unsure] = found[unsure]
    for number, pair in enumerate(zip(found, expected)):
        if pair[0] != pair[1]:
            wrong = sum(a != b for a, b in zip(found, expected))
            return f"{wrong} of {len(expected)} allocations: #{number} is in step {pair[0]} instead of {pair[1]}"
    return None


def judge_leaks(gpumem, path, truth):
    sites = json.loads(ask(gpumem, "leaks", path, "--json"))["sites"]
    lines = {site["line"] for site in sites if site["file"] and site["file"].endswith(f"{truth['seed']}.py")}
    if not truth["piles_up"]:
        return f"lines {sorted(lines)} are told of, and nothing piles up" if sites else None
    if not sites:
        return "nothing is told of, and something piles up"
    if not truth["kept"]:  # a graph: many lines
        return None
    if len(lines) < len(sites) or not lines <= set(truth["kept"]):
        return f"lines {sorted(lines)} are told of instead of {truth['kept']}"
    return None


def recording_of(out, truth):
    path = out / f"run.gpumem.{truth['pid']}"
    return path if path.exists() else out / "run.gpumem"


def judge(gpumem, out):
    """Of each program: (seed, shape, leak, question, source, what is wrong)."""
    for path in sorted(out.glob("*.json"), key=lambda path: int(path.stem)):
        truth = json.loads(path.read_text())
        for source, file in (("recording", recording_of(out, truth)), ("snapshot", path.with_suffix(".pickle"))):
            for question, check in (("steps", judge_steps), ("leaks", judge_leaks)):
                yield truth["seed"], truth["shape"], truth["leak"], question, source, check(gpumem, file, truth)


def main():
    gpumem, out = sys.argv[1], Path(sys.argv[2])
    right, all_of = collections.Counter(), collections.Counter()
    for seed, shape, leak, question, source, wrong in judge(gpumem, out):
        all_of[question, source] += 1
        right[question, source] += not wrong
        if wrong:
            print(f"{seed} ({shape}, {leak}) {question} of the {source}: {wrong}")
    for one, count in all_of.items():
        print(f"{' of the '.join(one)}: {right[one]} of {count} right, {100 * right[one] / count:.1f} %")
    for error in sorted(out.glob("*.error")):
        print(error.name, error.read_text().splitlines()[-1])


if __name__ == "__main__":
    main()
