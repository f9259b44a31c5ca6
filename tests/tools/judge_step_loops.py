"""judge_step_loops.py GPUMEM OUT: compares what gpumem tells of the programs that run_step_loops.py has run with what they know themselves.

Of each the recording and PyTorch's snapshot are asked. `steps` is right where their number is, and each allocation within one
has its number, and each outside of all has none (with two threads at once: where their number is that of one of them; with
tasks that take turns, where all this is so of the one that has most, but for what is outside of its steps).
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


def steps_of(steps, thread, allocations):
    """Of each allocation its step in that thread or task; None: it has none."""
    expected = [None] * allocations
    for number, step in enumerate((step for step in steps if step["thread"] == thread), 1):
        for first, end in step["ranges"]:
            expected[first:end] = [number] * (end - first)
    return expected


def judge_steps(gpumem, path, truth):
    """None: right; else what is wrong."""
    at_once = truth["shape"] in ("two_threads", "tasks")
    steps = [{**step, "thread": at_once and step["thread"]} for step in truth["steps"]]
    threads = collections.Counter(step["thread"] for step in steps)
    told = json.loads(ask(gpumem, "info", path, "--json"))["steps"]
    if told not in threads.values() or (truth["shape"] == "tasks" and told != max(threads.values())):
        return f"{told} steps for {sorted(threads.values())}"
    if truth["shape"] == "two_threads":
        return None
    events = [json.loads(line) for line in ask(gpumem, "events", path, "--json").splitlines()]
    found = [one["step"] for one in events if one["action"] == "alloc" and one["device_type"] == "cuda"]
    unsure = slice(truth["unsure"]["from"], truth["unsure"]["to"])
    why = None
    # of several tasks it is one, and what the others do belongs where that one is
    for thread in threads:
        expected = steps_of(steps, thread, truth["allocations"])
        expected[unsure] = found[unsure]
        compared = [n for n, step in enumerate(expected) if not thread or step]
        wrong = [n for n in compared if found[n] != expected[n]]
        if not wrong and threads[thread] == told:
            return None
        if wrong:
            why = f"{len(wrong)} of {len(compared)} allocations: #{wrong[0]} is in step {found[wrong[0]]} instead of {expected[wrong[0]]}"
    return why


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
