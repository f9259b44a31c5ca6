"""`gpumem until`."""

import re

from ..command import Command, Usage, needs_recorded_program
from ..debugger import say
from ..library import Failure
from ..session import session
from ..watches import watches
from .next_event import go_on, why_not
from .watch import FACTS


class Until(Command):
    """Run to the next event for which a condition holds.

    gpumem until CONDITION
    gpumem until step=N

    `help gpumem watch` describes conditions. `gpumem until step=N` stops at the first event of the
    loop's N-th iteration; iterations count from 1. If the program is not running yet, it is started.

    Example: gpumem until step=2
    Example: gpumem until size>1GiB and line=train.py:31"""

    name = "until"
    words = tuple(f"{fact}=" for fact in FACTS)
    takes_text = True

    @needs_recorded_program
    def run(self, text):
        step = re.match(r"step==?([0-9]+)$", text.replace(" ", ""))
        if not text:
            raise Usage("a condition is missing: give one, as in `gpumem until step=2`")
        if step and 1 <= int(step[1]) < 1 << 32:
            self.until_step(int(step[1]))
        else:
            self.until_condition(text)

    @staticmethod
    def until_step(number):
        recording = session().recording
        now = recording.recorder.step() if recording else 0
        if now >= number:
            raise Failure(f"until step={number}: the program is in step {now} already: give a later step, or `run` again", 2)
        if not go_on(step=number):
            say(why_not(f"step {number}"))

    @staticmethod
    def until_condition(text):
        watch = watches().add("until", text, once=True, hidden=True)
        try:
            if not go_on(watch=watch):
                say(why_not(f"'{text}' held"))
        finally:
            watches().drop(watch)
