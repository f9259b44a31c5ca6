"""`gpumem next-event`, and `gpumem step`, its older name."""

import gdb

from ..command import Command, Usage, answer, needs_recorded_program, number
from ..debugger import process_id, say
from ..recorder import waiting
from ..session import session


def go_on(events=0, step=0, watch=None):
    """Continues, or starts the program, until the condition is met, and shows the event. Returns False if the
    program stopped for another reason, or ended; gdb and why_not() then tell the reason."""
    if waiting.by_agent and waiting.on:
        return go_on_by_agent(events, step, watch)
    recording = session().recording
    started = recording is None
    before = 0 if started else recording.recorder.event_count()
    condition = {"events": events, "step": step}
    if started:
        waiting.condition = condition
    else:
        recording.stopped = False
        recording.recorder.stop_when(**condition)
    try:
        gdb.execute("run" if started else "continue")
    finally:
        waiting.condition = {}
        now = session().recording
        if now is not None and (started or now is recording):
            now.recorder.stop_when()
    if now is None or not (started or now is recording) or not now.stopped:
        return False
    held, event = now.recorder.stopped_by()
    if watch is not None and held != watch.number:
        return False  # another condition held: watches.py has reported it
    if watch is not None:
        number = str(event)
    else:
        number = str(before + events - 1 if events else now.recorder.event_count() - 1)
    answer(["events", "--from", number, "--to", number])
    return True


def why_not(aim):
    """The line for a program that stopped earlier. If it still lives, it can continue."""
    if process_id():
        return f"the program stopped before {aim}: repeat the command to continue"
    return f"the program ended before {aim}"


def go_on_by_agent(events, step, watch):
    """go_on() for a program that the agent records. For a number or a step the program stops at each event, and gdb checks it;
    for a condition it stops only at events where the condition may hold."""
    started = session().recording is None
    if watch is not None:
        return until_held(watch, started)
    if started:
        # the recording takes it when it begins
        waiting.condition = {"events": events, "step": step}
        try:
            gdb.execute("run")
        finally:
            waiting.condition = {}
    recording = session().recording
    if recording is None:
        return False
    before = 0 if started else recording.recorder.event_count()
    if started:
        recording.aim_no_more()
    else:
        recording.aim(before + events if events else 0, step)
        recording.go_on()
    if not recording.stopped or session().recording is not recording:
        return False
    number = str(before + events - 1 if events else recording.recorder.event_count() - 1)
    answer(["events", "--from", number, "--to", number])
    return True


def until_held(watch, started):
    if not started:
        session().recording.stopped = False
    gdb.execute("run" if started else "continue")
    recording = session().recording
    if recording is None or not recording.stopped:
        return False
    held, event = recording.recorder.stopped_by()
    if held != watch.number:
        return False
    answer(["events", "--from", str(event), "--to", str(event)])
    return True


class NextEvent(Command):
    """Run to the next event, or to the N-th event from here.

    gpumem next-event [N]

    The program stops inside the allocator, at the event that is shown. `gpumem who-holds` and `gpumem why`
    then describe the state at that event. If the program is not running yet, it is started.

    Example: gpumem next-event 10"""

    name = "next-event"

    @needs_recorded_program
    def run(self, arguments):
        if len(arguments) > 1:
            raise Usage(f"too many arguments: give one number, as in `gpumem {self.name} 10`")
        count = number(arguments[0], "N") if arguments else 1
        if not 1 <= count < 1 << 63:
            raise Usage(f"N: {count} is not a number of events: give 1 or more")
        if not go_on(events=count):
            say(why_not("that event"))


class Step(NextEvent):
    """Run to the next event, or to the N-th event from here: the older name of `gpumem next-event`.

    gpumem step [N]

    Example: gpumem step 10"""

    name = "step"
