"""`gpumem until`."""

import re

from ..command import Command, Usage, needs_process, needs_recording
from ..debugger import say
from ..library import Failure
from ..session import session
from .step import go_on


class Until(Command):
    """Run to a pass of the training loop.

    gpumem until step=N

    Stops at the first event of the loop's N-th pass; passes count from 1.

    Example: gpumem until step=2"""

    name = "until"
    words = ("step=",)

    @needs_process
    @needs_recording
    def run(self, arguments):
        match = re.match(r"step=([0-9]+)$", "".join(arguments))
        if not match or not 1 <= int(match[1]) < 1 << 32:
            raise Usage(f"'{' '.join(arguments)}' is no condition: give one, as in `gpumem until step=2`")
        recorder = session().recording.recorder
        if recorder.step() >= int(match[1]):
            raise Failure(
                f"until step={match[1]}: the program is in step {recorder.step()} already: name a later one, or `run` anew",
                2,
            )
        recorder.stop_when(step=int(match[1]))
        if not go_on():
            say(f"the program did not come to step {match[1]}")
