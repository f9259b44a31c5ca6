"""`gpumem until`."""

import re

from ..command import Command, Usage, needs_recorded_program
from ..debugger import say
from ..library import Failure
from ..session import session
from .step import go_on, why_not


class Until(Command):
    """Run to an iteration of the training loop.

    gpumem until step=N

    Stops at the first event of the loop's N-th iteration; iterations count from 1. If the
    program does not run yet, it is started.

    Example: gpumem until step=2"""

    name = "until"
    words = ("step=",)

    @needs_recorded_program
    def run(self, arguments):
        match = re.match(r"step=([0-9]+)$", "".join(arguments))
        if not match or not 1 <= int(match[1]) < 1 << 32:
            raise Usage(f"'{' '.join(arguments)}' is not a condition: give one, as in `gpumem until step=2`")
        recording = session().recording
        now = recording.recorder.step() if recording else 0
        if now >= int(match[1]):
            raise Failure(
                f"until step={match[1]}: the program is in step {now} already: give a later step, or `run` again", 2
            )
        if not go_on(step=int(match[1])):
            say(why_not(f"step {match[1]}"))
