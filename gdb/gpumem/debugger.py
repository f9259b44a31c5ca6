"""Differences between debuggers, and defects of theirs that would spoil our commands."""

import gdb


def version():
    """gdb's own version as a pair; cuda-gdb's is that of the gdb inside."""
    numbers = []
    for part in gdb.VERSION.split(".")[:2]:
        digits = ""
        for character in part:
            if not character.isdigit():
                break
            digits += character
        numbers.append(int(digits or 0))
    return tuple((numbers + [0, 0])[:2])


def write(text, error=False):
    """Writes once, so that paging, logging and redirection see one piece."""
    if text:
        gdb.write(text, gdb.STDERR if error else gdb.STDOUT)


def say(line):
    write(f"gpumem: {line}\n")


def warn(line):
    gdb.flush()
    write(f"gpumem: {line}\n", error=True)


def columns():
    """Width of the terminal, 0: unlimited."""
    width = gdb.parameter("width")
    return int(width) if width else 0


def is_cuda_gdb():
    return "cuda-gdb" in getattr(gdb, "PYTHONDIR", "") or "CUDA" in gdb.execute("show version", to_string=True)


def repair_unwinders():
    """Takes out the hook through which cuda-gdb asks Python for unwinders, where it is broken.

    cuda-gdb 11.8 as Debian packages it takes None, the hook's answer where no unwinder is registered, for a
    wrong one: every frame fails with "A Unwinder should return gdb.UnwindInfo instance". Without the hook
    it complains once a frame instead, which only `set python print-stack none` keeps quiet. Unwinders of
    the user's own would not work there either, so nothing is lost.
    """
    if version() >= (12, 0) or getattr(gdb, "_execute_unwinders", None) is None or not is_cuda_gdb():
        return
    del gdb._execute_unwinders
    gdb.execute("set python print-stack none", to_string=True)


# --- resuming without a step -------------------------------------------------------------------------
#
# gdb steps over a breakpoint with a second stop of the thread. The core can do the one instruction there
# instead; gdb, made to read the registers again, then just lets the thread run. Not where somebody could
# see the difference: a breakpoint or watchpoint of the user's (it may stand at the same address, with a
# condition still to be asked), or gdb's own recording of every instruction.

_user_breakpoints = 0
_flush = None


def _count_breakpoints(_event=None):
    global _user_breakpoints
    _user_breakpoints = sum(1 for one in gdb.breakpoints() or () if one.number > 0)


def _deleted(breakpoint):
    global _user_breakpoints
    _user_breakpoints = sum(1 for one in gdb.breakpoints() or () if one.number > 0 and one is not breakpoint)


def watch_breakpoints():
    global _flush
    _flush = "maintenance flush register-cache" if version() >= (11, 0) else "maintenance flush-regs"
    gdb.events.breakpoint_created.connect(_count_breakpoints)
    gdb.events.breakpoint_deleted.connect(_deleted)
    _count_breakpoints()


def may_advance():
    return _user_breakpoints == 0 and _flush is not None and gdb.current_recording() is None


def forget_registers():
    gdb.execute(_flush, False, True)
