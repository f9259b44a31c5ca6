"""Conditions at which a recorded program stops, as `gpumem watch` lists them. The core evaluates them at each event, and gdb
stops if one holds. Like gdb's breakpoints they are numbered, kept over several runs, and deleted by number."""

import gdb

from . import debugger
from .library import Failure, check_condition
from .session import session

FIRST_HIDDEN = 1 << 30  # numbers of conditions that belong to one `gpumem until`


class Watch:
    def __init__(self, number, condition, once):
        self.number, self.condition, self.once = number, condition, once
        self.hits = 0  # in ended recordings, and in the current one up to the last check
        self.before = 0  # in ended recordings alone

    @property
    def hidden(self):
        return self.number >= FIRST_HIDDEN

    @property
    def is_done(self):
        return self.once and self.hits > 0


class Watches:
    def __init__(self):
        self.all = {}
        self.last = 0
        self.last_hidden = FIRST_HIDDEN - 1
        gdb.events.stop.connect(self._stopped)

    def add(self, command, condition, once=False, hidden=False):
        """Adds a condition. It is evaluated from the next event on."""
        recording = session().recording
        check(command, condition, recording)
        number = (self.last_hidden if hidden else self.last) + 1
        watch = Watch(number, condition, once)
        if recording is not None:
            recording.recorder.watch(number, condition, once)
        if hidden:
            self.last_hidden = number
        else:
            self.last = number
        self.all[number] = watch
        return watch

    def delete(self, numbers=None):
        """Deletes all listed conditions, or those given."""
        chosen = [number for number, watch in self.all.items() if not watch.hidden] if numbers is None else numbers
        for number in chosen:
            if number not in self.all or self.all[number].hidden:
                raise Failure(f"watch delete {number}: there is no condition of this number: `gpumem watch` lists them", 2)
        for number in chosen:
            self.drop(self.all[number])

    def drop(self, watch):
        self.all.pop(watch.number, None)
        recording = session().recording
        if recording is not None:
            recording.recorder.unwatch(watch.number)

    def listed(self):
        self.count()
        return [watch for watch in self.all.values() if not watch.hidden]

    # --- recordings ---

    def begin(self, recording):
        """Called when a recording begins. Conditions with --once that have held already stay inactive."""
        for watch in self.all.values():
            watch.before = watch.hits
            if watch.is_done:
                continue
            try:
                recording.recorder.watch(watch.number, watch.condition, watch.once)
            except Failure as error:  # it was written for the other engine
                debugger.warn(f"condition {watch.number} is not evaluated: {error}")

    def count(self):
        recording = session().recording
        if recording is None:
            return
        for watch in self.all.values():
            watch.hits = max(watch.hits, watch.before + recording.recorder.watch_hits(watch.number))

    def end(self, recording):
        """The lines about conditions that never held in an ending recording."""
        self.count()
        return [
            f"condition {watch.number} never held: {watch.condition}"
            for watch in self.all.values()
            if not watch.hidden and watch.hits == watch.before and not watch.is_done
        ]

    # --- called by gdb ---

    def _stopped(self, _event):
        recording = session().recording
        if recording is None or not recording.stopped:
            return
        number, event = recording.recorder.stopped_by()
        watch = self.all.get(number)
        if watch is None or watch.hidden:
            return
        recording.stopped = False  # reported once
        self.count()
        debugger.say(f"condition {number} holds: {watch.condition}")
        from .command import answer

        answer(["events", "--from", str(event), "--to", str(event)])


def check(command, condition, recording):
    """Refuses a condition with a syntax error, marked by a caret, or one that can never hold."""
    step, event = (recording.recorder.step(), recording.recorder.event_count()) if recording is not None else (0, 0)
    by_agent = recording.by_agent if recording is not None else waits_for_agent()
    wrong, column, possible = check_condition(condition, step, event, by_agent)
    if wrong:
        if column and condition.isprintable():
            debugger.write(f"  {condition}\n  {' ' * (column - 1)}^\n", error=True)
        raise Failure(f"{command}: {wrong}", 2)
    if not possible:
        now = f" from here on (step {step}, event {event})" if recording is not None else ""
        raise Failure(f"{command}: '{condition}' can never hold{now}: change it, or `run` again", 2)


def waits_for_agent():
    """Whether the agent will record the next program."""
    from .recorder import waiting

    return waiting.on and waiting.by_agent


_watches = None


def watches():
    global _watches
    if _watches is None:
        _watches = Watches()
    return _watches
