"""`gpumem`: the word before all commands."""

import gdb

from ..command import answer, gate, split


class Gpumem(gdb.Command):
    """Who holds GPU memory, and why.

    gpumem record           records allocations from here on, or from the program's start
    gpumem info             what was recorded
    gpumem who-holds BLOCK  everything that keeps a block alive
    gpumem why BLOCK        who made it, which statement let it go
    gpumem oom              why PyTorch ran out of memory, and who fills the device

    BLOCK is an address, `#N` (the event that allocated it), or a Python variable of the selected thread.

    Example: gpumem record
             run
             gpumem peak"""

    def __init__(self):
        super().__init__("gpumem", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

    def invoke(self, argument, from_tty):
        words = split(argument)
        if not words:
            gdb.execute("help gpumem")
            return
        gate(words[0], lambda: answer(words))
