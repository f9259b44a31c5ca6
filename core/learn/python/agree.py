"""How a field is found and proved.

A field is described by cases: each is one object (or one moment) and a test of whether the field may lie at an
offset. The even cases are those it is found with: exactly one offset must pass all of them. The odd cases are
other objects, and that offset must pass all of them too. Whatever is not found so is left out, with the reason.
"""

import sys

from memory import Unreadable, signed, unsigned

PROVING = 2  # cases with different answers, at least, on each side


class Unproved(Exception):
    pass


class Row:
    def __init__(self):
        self.fields = {}
        self.missing = {}
        self.samples = {}  # field -> (address, width, mask, value), of the cases that it was proved with
        self.kept = []

    def __getitem__(self, name):
        if name not in self.fields:
            raise Unproved("needs %s, which was not learned" % name)
        return self.fields[name]

    def __contains__(self, name):
        return name in self.fields

    def leave_out(self, name, why):
        self.fields.pop(name, None)
        self.missing.setdefault(name, why)

    def prove(self, name, value, cases):
        """Takes a value that was found by other means, where each of the cases says yes to it."""
        cases = list(cases)
        if len(cases) < PROVING:
            self.leave_out(name, "only %d objects to prove it with" % len(cases))
        elif not all(_passes(case, value) for case in cases):
            self.leave_out(name, "%d was found, and other objects disagree" % value)
        else:
            self.fields[name] = value

    def search(self, name, cases, offsets):
        """Finds the one offset that all cases agree on. A case is a function of an offset that says yes or no."""
        cases = list(cases)
        finding, proving = cases[0::2], cases[1::2]
        if len(finding) < PROVING or len(proving) < PROVING:
            self.leave_out(name, "only %d objects to learn it from" % len(cases))
            return
        found = [offset for offset in offsets if all(_passes(case, offset) for case in finding)]
        if len(found) != 1:
            shown = ", ".join(map(str, found[:6]))
            self.leave_out(
                name, "no offset fits all objects" if not found else "several offsets fit: %s" % shown
            )
        elif not all(_passes(case, found[0]) for case in proving):
            self.leave_out(name, "%d was found, and other objects disagree" % found[0])
        else:
            self.fields[name] = found[0]

    def claims(self):
        """What a reader finds in memory if it has the right offset: (field, address, width, value). The objects that a
        field was proved with; those that have changed or gone since are left out."""
        for name, samples in self.samples.items():
            seen = set()
            if name.startswith(("thread_", "interpreter_", "runtime_", "frame_")):
                continue  # threads and interpreters that have ended
            for address, width, mask, value in samples if name in self.fields else ():
                try:
                    word = unsigned(address + self.fields[name], width)
                except Unreadable:
                    continue
                if (word ^ value) & mask & (1 << 8 * width) - 1 == 0 and word not in seen and len(seen) < 6:
                    seen.add(word)
                    yield name, address, width, word

    def find(self, name, samples, low=0, high=256, width=8, step=None, sign=False, mask=None):
        """Finds the field whose value is known: `samples` are pairs of an address and the value there."""
        samples = [(address, value) for address, value in samples]
        for half in (samples[0::2], samples[1::2]):
            if len({value for _, value in half}) < PROVING:
                self.leave_out(name, "its values do not differ enough to tell it from others")
                return
        proving = [(address, width, -1 if mask is None else mask, value) for address, value in samples[1::2]]
        self.samples.setdefault(name, []).extend(proving)
        self.kept.append(dict(sys._getframe(1).f_locals))  # the objects stay where they are
        self.search(
            name, [_holds(a, v, width, sign, mask) for a, v in samples], range(low, high, step or width)
        )


def _passes(case, offset):
    try:
        return bool(case(offset))
    except Unreadable:
        return False


def _holds(address, value, width, sign, mask):
    get = signed if sign else unsigned

    def case(offset):
        word = get(address + offset, width)
        return (word if mask is None else word & mask) == value

    return case


def mix(*groups):
    """Puts samples of several groups in an order in which both halves, even and odd, have some of each."""
    mixed = []
    for i in range(0, max(map(len, groups)), 2):
        for group in groups:
            mixed += group[i : i + 2] if len(group[i : i + 2]) == 2 else []
    return mixed


LEARNERS = []


def learns(*names):
    """Marks a function of a row as the one that learns these fields."""

    def mark(function):
        LEARNERS.append((names, function))
        return function

    return mark


def learn_all(row):
    for names, function in LEARNERS:
        why = "not found"
        try:
            function(row)
        except Unproved as error:
            why = str(error)
        except Unreadable as error:
            why = "memory at %s is not readable" % error
        except Exception as error:  # what one learner trips over must not cost the others' fields
            why = "%s: %s" % (type(error).__name__, error)
        for name in names:
            if name not in row:
                row.missing.setdefault(name, why)
