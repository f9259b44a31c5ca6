"""`gpumem step`."""

import gdb

from ..command import Command, Usage, answer, needs_process, needs_recording, number
from ..debugger import say
from ..session import session


def go_on(event=None):
    """Continues until the condition is met, and shows the event; False: the program stopped for another
    reason, or ended."""
    recording = session().recording
    recording.stopped = False
    try:
        gdb.execute("continue")
    finally:
        if session().recording is recording:
            recording.recorder.stop_when()
    if session().recording is not recording or not recording.stopped:
        return False
    number = str(recording.recorder.event_count() - 1 if event is None else event)
    answer(["events", "--from", number, "--to", number])
    return True


class Step(Command):
    """Run to the next event, or N events further.

    gpumem step [N]

    The program stops inside the allocator, at the event that is shown; `gpumem who-holds` and `gpumem why`
    ask about that moment.

    Example: gpumem step 10"""

    name = "step"

    @needs_process
    @needs_recording
    def run(self, arguments):
        if len(arguments) > 1:
            raise Usage("too many words: give one number, as in `gpumem step 10`")
        count = number(arguments[0], "N") if arguments else 1
        if not 1 <= count < 1 << 63:
            raise Usage(f"N: {count} is no number of events: give one from 1 on")
        recorder = session().recording.recorder
        recorder.stop_when(events=count)
        if not go_on(recorder.event_count() + count - 1):
            say("the program did not come to that event")
