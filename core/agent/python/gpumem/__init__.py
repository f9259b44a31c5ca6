"""Functions by which a program can control gpumem.

`gpumem run` makes this module importable; otherwise put its folder (gpumem-python, next to
libgpumem-agent.so) on PYTHONPATH. If nothing records, step() and range() do nothing.

    import gpumem

    for batch in loader:
        gpumem.step()               # a step begins here
        with gpumem.range("augment"):
            batch = augment(batch)
        ...

    with gpumem.record("block.gpumem"):   # records only this block, without `gpumem run`
        suspect()
"""

import contextlib as _contextlib
import ctypes as _ctypes
import os as _os

__all__ = ["start", "stop", "recording", "step", "range", "record"]

_agent = None


def _find(load=False):
    """The loaded agent; with `load`, else the one next to this module. None: there is none."""
    global _agent
    if _agent is None:
        library = _ctypes.CDLL(None)  # if it was preloaded
        if not hasattr(library, "gpumem_agent_step"):
            beside = _os.path.dirname(_os.path.dirname(_os.path.dirname(_os.path.abspath(__file__))))
            path = _os.environ.get("GPUMEM_AGENT_LIBRARY") or _os.path.join(beside, "libgpumem-agent.so")
            try:  # by `gpumem attach`, or loaded earlier
                library = _ctypes.CDLL(path, mode=0 if load else _os.RTLD_NOLOAD | _os.RTLD_NOW)
            except OSError as error:
                if load:
                    raise RuntimeError(f"gpumem: no agent: {error}") from None
                return None
        library.gpumem_agent_path.restype = _ctypes.c_char_p
        library.gpumem_agent_push.argtypes = [_ctypes.c_char_p]
        library.gpumem_agent_start.argtypes = [_ctypes.c_char_p]
        library.gpumem_agent_step.restype = library.gpumem_agent_push.restype = None
        library.gpumem_agent_pop.restype = None
        _agent = library
    return _agent


def recording():
    """The file that this process records to, or None."""
    agent = _find()
    path = agent.gpumem_agent_path() if agent else b""
    return _os.fsdecode(path) if path else None


def start(out="gpumem.%p.gpumem", devices="cuda", stacks="python,native"):
    """Starts recording to the file `out` (%p is the process id, %r the rank). Returns False if it records already."""
    for word in (out, devices, stacks):
        if ";" in word:
            raise ValueError(f"gpumem: ';' cannot be in {word!r}")
    settings = f"out={_os.path.abspath(out)};devices={devices};stacks={stacks}"
    status = _find(load=True).gpumem_agent_start(_os.fsencode(settings))
    if status == 2:
        raise RuntimeError("gpumem: cannot record: see the line on stderr")
    return status == 0


def stop():
    """Ends the recording and completes its file. Returns False if nothing was recorded."""
    agent = _find()
    return agent is not None and agent.gpumem_agent_stop() == 0


def step():
    """Marks the beginning of a step. If a program marks steps, gpumem looks for no others."""
    agent = _find()
    if agent:
        agent.gpumem_agent_step()


def load_ipython_extension(shell):
    """`%load_ext gpumem` in a notebook: the magics %gpumem and %%gpumem."""
    from . import notebook

    notebook.load(shell)


@_contextlib.contextmanager
def range(name):
    """Puts the events of the block in a range with this name."""
    agent = _find()
    if agent:
        agent.gpumem_agent_push(name.encode("utf-8", "replace"))
    try:
        yield
    finally:
        if agent:
            agent.gpumem_agent_pop()


@_contextlib.contextmanager
def record(out="gpumem.%p.gpumem", devices="cuda", stacks="python,native"):
    """Records only this block. If recording is on already, the block becomes a range named after the file."""
    if start(out, devices, stacks):
        try:
            yield
        finally:
            stop()
    else:
        with range(_os.path.splitext(_os.path.basename(out))[0]):
            yield
