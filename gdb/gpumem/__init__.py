"""gpumem in gdb: who holds GPU memory, and why.

This is a thin layer over libgpumem.so: it has the breakpoints and the commands, and the library makes every
answer. It needs no newer Python API than gdb 10's.

    library.py      the library, bound by ctypes; usable outside gdb
    session.py      the target of questions: process, thread, log
    recording.py    one process being recorded: breakpoints and their stops
    agent.py        the same with the agent, and loading it into a process
    calls.py        calls of functions in the stopped process
    watches.py      conditions at which the program stops, over several runs
    recorder.py     `gpumem record` over several runs: waits for programs, ends recordings
    libraries.py    which libraries' symbols gdb reads
    awaited.py      pending breakpoints in libraries whose symbols gdb does not read
    frames.py       native frames without symbols in gdb: callers and names
    python_frames.py  Python frames: the selected one, and those in `bt`
    debugger.py     differences between debuggers, and their defects
    settings.py     `set gpumem …`
    functions.py    `$gpumem_allocated()` and similar functions
    window.py       the timeline as a window of gdb's TUI
    command.py      code that all commands share
    commands/       one file for each command
"""


def install():
    """Adds the commands to this gdb. Doing it twice is harmless."""
    from . import awaited, debugger, functions, libraries, settings, window
    from .commands import install_all
    from .library import LibraryMissing, visible

    debugger.repair_unwinders()
    debugger.watch_breakpoints()
    try:
        install_all()
    except LibraryMissing as error:
        import gdb

        gdb.write(f"gpumem: {visible(error)}\n", gdb.STDERR)
        return
    libraries.install()
    awaited.install()
    settings.install()
    functions.install()
    window.install()
