"""`gpumem where`."""

from ..command import Command, Usage, answer, number
from ..library import Failure
from ..session import session


class Where(Command):
    """Show the stacks of an event: the Python frames with their source lines, then the native ones.

    gpumem where [EVENT]

    The default is the latest event. After a stop by `gpumem next-event`, `until` or `watch`, that is the event at which the
    program stopped. gdb's own `bt` shows the native frames of any stop.

    Example: gpumem where
    Example: gpumem where 12"""

    name = "where"

    def run(self, arguments):
        if len(arguments) > 1:
            raise Usage("too many arguments: give one event, as in `gpumem where 12`")
        if arguments:
            event = number(arguments[0].removeprefix("#"), "EVENT")
        else:
            event = self.latest()
        if not 0 <= event < 1 << 32:
            raise Usage(f"EVENT: {event} is not the number of an event: events count from 0")
        answer(["events", "--from", str(event), "--to", str(event), "--stacks"])

    @staticmethod
    def latest():
        """The latest event; at a stop, the event at which a condition held, because a release makes two events."""
        recording = session().recording
        if recording is None:
            raise Failure("where: nothing is recorded now: name an event, as in `gpumem where 12`", 2)
        count = recording.recorder.event_count()
        if not count:
            raise Failure("where: no event is recorded yet: `gpumem next-event` runs to the first one", 2)
        held, event = recording.recorder.stopped_by()
        return event if held and recording.at_event else count - 1
