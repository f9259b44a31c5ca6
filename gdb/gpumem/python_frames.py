"""Python frames of the selected thread: which one is selected by `gpumem up` and `down`, and a frame filter that shows them in
`bt`, below the native frames that run them.

A native frame of _PyEval_EvalFrameDefault() runs one Python frame, or several that called each other (CPython 3.11 and later).
The core tells which; `evaluation` counts from the innermost of these native frames.
"""

import re

import gdb
from gdb.FrameDecorator import FrameDecorator

from . import debugger
from .frames import Native
from .library import as_json, visible
from .session import session
from .settings import setting

EVALUATES = re.compile(r"_PyEval_EvalFrame(Default)?\b|_PyEval_EvalFrameDefault[.]")
NAME = "gpumem-python"


class Selected:
    """The Python frame that is selected: of a thread, until the program runs."""

    def __init__(self):
        self.thread, self.number = 0, 0
        gdb.events.cont.connect(self.forget)
        gdb.events.exited.connect(self.forget)

    def forget(self, _event=None):
        self.thread, self.number = 0, 0

    @staticmethod
    def current():
        thread = gdb.selected_thread()
        return thread.ptid[:2] if thread and thread.is_valid() else 0

    def get(self):
        return self.number if self.thread == self.current() else 0

    def set(self, number):
        self.thread, self.number = self.current(), number


_selected = None


def selected():
    global _selected
    if _selected is None:
        _selected = Selected()
    return _selected


def read():
    """The frames, innermost first, as the core has them."""
    return as_json("frames", *session().ask(["frames", "--json"]))["frames"]


class PythonFrame(FrameDecorator):
    """A Python frame, shown below the native frame that runs it: it has no number of gdb's."""

    def __init__(self, native, frame):
        super().__init__(native)
        self.frame = frame

    def function(self):
        return f"Python: {visible(self.frame['function'])}"

    def filename(self):
        return visible(self.frame["file"])

    def line(self):
        return self.frame["line"] or debugger.NONE

    def address(self):
        return debugger.NONE

    def frame_args(self):
        return debugger.NONE

    def frame_locals(self):
        return debugger.NONE

    def elided(self):
        return debugger.NONE


class Filter:
    """The frame filter `gpumem-python`. It comes after `gpumem-names`, which knows what the native frames are called."""

    name, priority, enabled = NAME, 80, True

    def __init__(self):
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        if setting("python-frames") != "on":
            return frames
        return self.between(frames)

    @staticmethod
    def between(frames):
        python, evaluation = None, 0
        for native in frames:
            if type(native) is FrameDecorator:  # gpumem-names is off
                native = Native(native, None)
            yield native
            try:
                if not EVALUATES.match(str(native.function() or "")):
                    continue
                if python is None:
                    python = by_evaluation()
            except Exception:  # the native frames are shown all the same
                python = python or {}
            for frame in python.get(evaluation, ()):
                yield PythonFrame(native.inferior_frame(), frame)
            evaluation += 1


def by_evaluation():
    """{evaluation: its frames}; of another thread than the selected one there are none to show."""
    answer = as_json("frames", *session().ask(["frames", "--json"]))
    found = {}
    if answer["thread"] == answer["selected_thread"]:
        for frame in answer["frames"]:
            found.setdefault(frame["evaluation"], []).append(frame)
    return found


def install():
    """From now on `bt` shows them."""
    if NAME not in gdb.frame_filters:
        Filter()
