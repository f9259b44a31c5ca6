"""`gpumem`: the prefix of all commands."""

import gdb

from ..command import answer, gate, split


class Gpumem(gdb.Command):
    """Shows what holds GPU memory, and why.

    gpumem record           records allocations from now on, or from the program's start
    gpumem info             shows the contents of the recording
    gpumem who-holds BLOCK  shows everything that keeps a block alive
    gpumem why BLOCK        shows what allocated a block, and which statement released it
    gpumem locals           shows the variables of a Python frame; `gpumem up` and `down` select one
    gpumem at EVENT         shows a past state of the recording
    gpumem oom              explains why PyTorch ran out of memory, and what fills the device

    BLOCK is an address, `#N` (the event that allocated it), or a Python variable of the selected thread.

    Example: gpumem record
             run
             gpumem peak"""

    def __init__(self):
        super().__init__("gpumem", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

    def invoke(self, argument, from_tty):
        typed = argument.split(maxsplit=1)
        if not typed:
            gdb.execute("help gpumem")
            return
        gate(typed[0], lambda: answer(split(argument)))
