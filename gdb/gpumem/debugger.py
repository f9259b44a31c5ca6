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


def repair_unwinders():
    """Takes out the hook through which gdb asks Python for unwinders, where it is broken and unused.

    cuda-gdb 11.8 as Debian packages it raises "A Unwinder should return gdb.UnwindInfo instance" at every
    frame, with no unwinder registered at all. Nothing is lost by taking the hook out then.
    """
    if "cuda" not in gdb.VERSION.lower() and version() >= (11, 0):
        return
    if getattr(gdb, "_execute_unwinders", None) is None:
        return
    registered = list(getattr(gdb, "frame_unwinders", ()))
    for space in gdb.progspaces():
        registered += space.frame_unwinders
        for objfile in space.objfiles():
            registered += objfile.frame_unwinders
    if not registered:
        del gdb._execute_unwinders
