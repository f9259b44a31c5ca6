"""`gpumem watch`."""

from ..command import Command, Usage
from ..debugger import say, write
from ..library import visible
from ..watches import watches

FACTS = ("size", "requested", "step", "stream", "address", "event", "block", "device", "allocated", "reserved", "action", "phase", "function", "line",
         "module", "operator", "node", "collective", "dtype", "shape")  # fmt: skip


class Watch(Command):
    """Stop the program at each event for which a condition holds.

    gpumem watch [--once] CONDITION
    gpumem watch
    gpumem watch delete [N ...]

    `gpumem watch` alone lists the conditions with their numbers and how often each held. A condition is kept over several
    runs until it is deleted. With --once the program stops only the first time. If a condition never held, gpumem reports that
    when the program ends.

    A condition compares properties of the event, and combines the comparisons by `and`, `or`, `not` and parentheses, as
    `gpumem blocks --where` does. The properties: size, requested, step, stream, address, phase, function, line; module (the
    class of a module that is being called), operator (aten::addmm), node (of autograd, AddmmBackward0), collective (a
    function of torch.distributed, all_reduce, or none); event (its number), block (the number of the event that allocated
    the block), action (alloc, free_requested, ...), device, and allocated and reserved (the bytes of the device after the
    event).

    dtype and shape are those of the block that is allocated or freed. With `gpumem record --engine agent` there are also overflow
    and skipped, which take no comparison. overflow: since the thread's previous event, a GradScaler found a gradient that is not
    finite. skipped: since then, it skipped the optimizer's step.

    The program stops inside the allocator, at the event that is shown.

    Example: gpumem watch size>1GiB and phase=backward
    Example: gpumem watch --once allocated>20GiB
    Example: gpumem watch module=Attention and not operator=aten::empty
    Example: gpumem watch action=free_requested and block=7
    Example: gpumem watch skipped or dtype=float16 and shape=[*, 50257]"""

    name = "watch"
    words = ("delete", "--once", *(f"{fact}=" for fact in FACTS))
    takes_text = True

    def run(self, text):
        first, _, rest = text.partition(" ")
        if not text:
            self.show()
        elif first == "delete":
            watches().delete([self.number(word) for word in rest.split()] or None)
        elif first == "--once":
            self.set(rest.strip(), True)
        else:
            self.set(text, False)

    @staticmethod
    def number(word):
        if not word.isdecimal():
            raise Usage(f"delete: '{word}' is not a number: `gpumem watch` lists the conditions")
        return int(word)

    @staticmethod
    def set(condition, once):
        if not condition:
            raise Usage("--once: CONDITION is missing: give one, as in `gpumem watch --once size>1GiB`")
        watch = watches().add("watch", condition, once)
        say(f"condition {watch.number}: {condition}{', once' if once else ''}")

    @staticmethod
    def show():
        listed = watches().listed()
        if not listed:
            say("no conditions: `gpumem watch size>1GiB` sets one")
            return
        lines = ["  N    held  condition"]
        for watch in listed:
            once = " (once)" if watch.once else ""
            lines.append(f"{watch.number:3}  {watch.hits:6}  {visible(watch.condition)}{once}")
        write("\n".join(lines) + "\n")
