"""`gpumem up` and `gpumem down`: another Python frame of the selected thread."""

import gdb

from ..command import Command, Usage, answer, number
from ..library import Failure
from ..python_frames import read, selected


class Move(Command):
    direction = 0
    end = ""

    def run(self, arguments):
        if len(arguments) > 1:
            raise Usage(f"too many arguments: give one number, as in `gpumem {self.name} 2`")
        count = self.direction * (number(arguments[0], "N") if arguments else 1)
        now = selected().get()
        last = len(read()) - 1
        to = min(max(now + count, 0), last)
        if to == now and count:
            raise Failure(f"{self.name}: {self.end[count < 0]} is selected already: `gpumem {'up' if count < 0 else 'down'}` goes the other way", 2)
        selected().set(to)
        answer(["frames", "--frame", str(to)])


ENDS = ("the outermost Python frame", "the innermost Python frame")


class Up(Move):
    """Select the Python frame that called the selected one, or the N-th from it, and show it with its source line.

    gpumem up [N]

    `gpumem locals` then shows this frame's variables, until the program runs or another thread is selected. If a BLOCK is given
    as a variable, as in `gpumem who-holds output`, gpumem looks for it in this frame and its callers. gdb's own selected frame
    does not change: `up` moves through the native frames.

    Example: gpumem up
    Example: gpumem up 2"""

    name, direction, end = "up", 1, ENDS


class Down(Move):
    """Select the Python frame that the selected one called, or the N-th from it, and show it with its source line.

    gpumem down [N]

    Example: gpumem down"""

    name, direction, end = "down", -1, ENDS


def with_frame(arguments):
    """The arguments of `gpumem locals`, with the selected frame if they name no frame."""
    named = any(word == "--help" or word.partition("=")[0] == "--frame" for word in arguments)
    return arguments if named or not gdb.selected_thread() else [*arguments, "--frame", str(selected().get())]
