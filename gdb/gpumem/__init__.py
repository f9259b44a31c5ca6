"""gpumem in gdb: who holds GPU memory, and why.

A thin layer over libgpumem.so: it owns breakpoints and the commands that users type; every answer is
made by the library. It needs gdb 10's Python API and nothing newer.

    library.py      the library, bound by ctypes; usable outside gdb
    session.py      what is asked about: process, thread, log
    recording.py    one process being recorded: breakpoints and what their stops mean
    agent.py        the same by the agent, and how it gets into a process
    calls.py        calls of functions in the stopped process
    watches.py      conditions at which the program stops, over several runs
    recorder.py     `gpumem record` over several runs: waits for programs, ends recordings
    libraries.py    which libraries' symbols gdb reads
    awaited.py      … and those that a pending breakpoint waits for
    frames.py       native frames of what gdb has no symbols of: callers and names
    python_frames.py  Python frames: the selected one, and those in `bt`
    debugger.py     differences between debuggers, and their defects
    settings.py     `set gpumem …`
    functions.py    `$gpumem_allocated()` and its like
    window.py       the timeline as a window of gdb's TUI
    command.py      what all commands share
    commands/       one file a command
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
