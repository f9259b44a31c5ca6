"""Phases and categories of training loops that were made at random, against what the programs themselves logged:
misleading names, evaluation inline, closures of optimizers, autocast, half precision, averages of models, accumulation,
recurrent networks, batches that a thread or a task makes, optimizers in hooks. docs/truth.md states the rates."""

import bisect
import collections
import json
import sqlite3
from pathlib import Path

import pytest

import truth
from conftest import PYTHON

PROGRAM = Path(__file__).parent / "programs" / "known_loops.py"
# What a block is, where hooks saw it as several things: a parameter that is saved for backward is a parameter.
RANK = ["parameter", "buffer", "gradient", "optimizer_state", "input", "early", "activation"]
SLACK_NS = 5000  # the recorder's clock and the program's are two


class Windows:
    """What a thread of the program did at a moment: the innermost of its windows."""

    def __init__(self, windows):
        self.edges, self.phases = [], []
        stack = []
        marks = sorted([(start, 1, -end, phase) for phase, start, end, _ in windows] +
                       [(end, 0, -start, phase) for phase, start, end, _ in windows])  # fmt: skip
        for time, begins, _, phase in marks:
            if begins:
                stack.append(phase)
            else:
                stack.pop()
            self.edges.append(time)
            self.phases.append(stack[-1] if stack else None)

    def at(self, time):
        """None: in none, or too near to an edge to tell."""
        i = bisect.bisect(self.edges, time)
        near = [edge for edge in self.edges[max(0, i - 1) : i + 1] if abs(edge - time) <= SLACK_NS]
        return self.phases[i - 1] if i and not near else None


def true_category(seen):
    return next((name for name in RANK if name in seen), None)


# No hook sees what .cuda() makes on its way, and a copy of a weight whose layer's input needs no gradient is not saved.
UNSEEN = ("Module.to() or .cuda() moved it", "autocast converted a parameter")


def fits(true, category, reason):
    if true is None and category == "optimizer_state":  # LBFGS's, replaced within the step that made it
        return reason == "the optimizer's step allocated it and kept it"
    if true is None:  # no hook saw it: nobody's but PyTorch's own
        return category in ("temporary", "workspace", "communication", "unknown") or reason.startswith(UNSEEN)
    if true == "early":  # data from before the loop: nothing tells, but for a parameter it must not be taken
        return category in ("input", "unknown")
    return category == true


def compare(known, blocks):
    """Bytes of blocks, by (true, told) phase and by (true, told, reason) category."""
    producers = {thread for *_, thread in known["windows"]}
    windows = {own: Windows([w for w in known["windows"] if w[3] == own]) for own in producers}
    notes = collections.defaultdict(list)
    for address, category, time in known["notes"]:
        notes[address].append((time, category))
    phases, categories = collections.Counter(), collections.Counter()
    for address, size, born, died, thread, phase, category, reason in blocks:
        true = windows[thread if thread in producers else 0].at(born)
        if true == "ahead":  # of the loop: where that begins is seen when it has allocated
            true = phase if phase in ("init", "data") else "data"
        if true == "once more":  # the data of a step outside of the loop, which is known as one at its backward pass
            true = phase if phase in ("evaluation", "other") else "data"
        if true:
            phases[true, phase] += size
        seen = {name for time, name in notes[address] if born - SLACK_NS <= time <= died + SLACK_NS}
        # what modules compute in evaluation is nobody's to keep: output or temporary; and a checkpoint's own hooks keep
        # those of the program from seeing what it computes again
        true = true_category(seen)
        if true is None and phase in ("evaluation", "recompute") and category == "activation":
            true = "activation"
        categories[true, category, reason] += size
    return phases, categories


def read_blocks(run_gpumem, file, folder):
    database = folder / (Path(file).stem + ".db")
    run_gpumem("export", file, "--to", "sqlite", "-o", database).check()
    with sqlite3.connect(database) as connection:
        return connection.execute(
            "SELECT b.address, b.size, a.time_ns, ifnull(f.time_ns, 9e18), a.thread, b.phase, b.category, b.reason"
            " FROM block b JOIN event a ON a.id = b.alloc LEFT JOIN event f ON f.id = b.free_requested"
        ).fetchall()


def rates(run_gpumem, folder, seeds):
    """Right bytes of all, for phases and categories; and the seeds with the wrong number of steps."""
    command = ["run", "--sim", "-o", folder / "%p.gpumem", "--", PYTHON, PROGRAM, folder, *map(str, seeds)]
    run_gpumem(*command, timeout=3600).check()
    phases, categories = collections.Counter(), collections.Counter()
    wrong = []
    for seed in seeds:
        known = json.loads((folder / f"{seed}.json").read_text())
        recording = folder / f"{known['pid']}.gpumem"
        one, other = compare(known, read_blocks(run_gpumem, recording, folder))
        for (true, told), size in one.items():
            phases[true == told, true, told, seed] += size
        for (true, told, reason), size in other.items():
            categories[fits(true, told, reason), true, told, reason, seed] += size
        answer = run_gpumem("steps", recording, "--json").check().json()
        steps = [answer["training_steps"], len(answer["steps"])]  # each iteration trains, and what follows the loop is none
        wrong += [(seed, known["steps"], steps)] if steps != 2 * [known["steps"]] else []
    return phases, categories, wrong


def right(counter):
    return sum(size for key, size in counter.items() if key[0]) / sum(counter.values())


def worst(counter):
    return [entry for entry in counter.most_common() if not entry[0][0]][:12]


def check(run_gpumem, folder, seeds):
    phases, categories, wrong = rates(run_gpumem, folder, seeds)
    for question, counter in (("phases", phases), ("categories", categories)):
        asked = sum(counter.values())
        truth.note(question, "a recording", "bytes", asked, round(right(counter) * asked), seeds[0], worst(counter))
    truth.note("steps", "a recording", "programs", len(seeds), len(seeds) - len(wrong), seeds[0], wrong)
    assert not wrong
    assert sum(phases.values()) > 0.5 * sum(categories.values())
    assert right(phases) >= 0.97, worst(phases)
    assert right(categories) >= 0.99, worst(categories)


def test_a_few_known_loops_have_their_steps(run_gpumem, tmp_path):
    check(run_gpumem, tmp_path, [3, 5, 6, 8, 13, 16, 21, 22])


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 500, 50))
def test_many_known_loops_have_their_steps(run_gpumem, tmp_path, start):
    check(run_gpumem, tmp_path, range(1000 + start, 1050 + start))
