"""Python frames of the selected thread: the one that `gpumem up` and `down` selected, and a frame filter that shows the frames in
`bt`, below the native frames that run them.

A native frame of _PyEval_EvalFrameDefault() runs one Python frame, or several that called each other (CPython 3.11 and later).
The core reports which; `evaluation` counts from the innermost of these native frames. From CPython 3.12 on, the core also reports
a stack address in that native frame, which identifies it in a stripped Python too. Before 3.12 its name identifies it.
"""

import re

import gdb
from gdb.FrameDecorator import FrameDecorator

from . import debugger
from .frames import Native
from .library import as_json, visible
from .session import session
from .settings import setting

# not _PyEval_EvalFrame(), which is inlined in its callers and calls this one
EVALUATES = re.compile(r"_PyEval_EvalFrameDefault\b")
NAME = "gpumem-python"


class Selected:
    """The selected Python frame of a thread, valid until the program runs."""

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
    """The core's frames, innermost first."""
    return as_json("frames", *session().ask(["frames", "--json"]))["frames"]


class PythonFrame(FrameDecorator):
    """A Python frame, shown below the native frame that runs it, without a frame number of gdb."""

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
    """The frame filter `gpumem-python`. It runs after `gpumem-names`, which gives the native frames their names."""

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
                if python is None:
                    python = by_evaluation()
                if not runs(native, python.get(evaluation)):
                    continue
            except Exception:  # the native frames are still shown
                python = python or {}
                continue
            for frame in python.get(evaluation, ()):
                yield PythonFrame(native.inferior_frame(), frame)
            evaluation += 1


def stack_pointer(frame):
    return int(frame.read_register("rsp")) & 0xFFFFFFFFFFFFFFFF


def runs(native, frames):
    """Whether a native frame runs the Python frames of one evaluation (None: no evaluation is left)."""
    place = frames and frames[0].get("evaluation_stack")
    if not place:
        return bool(EVALUATES.match(str(native.function() or "")))
    frame = native.inferior_frame()
    older = frame.older()
    # an inlined frame has the stack pointer of the frame that contains it
    return stack_pointer(frame) <= int(place, 16) and (not older or int(place, 16) < stack_pointer(older))


def by_evaluation():
    """{evaluation: its frames}; empty if the answer is for another thread than the selected one."""
    answer = as_json("frames", *session().ask(["frames", "--json"]))
    found = {}
    if answer["thread"] == answer["selected_thread"]:
        for frame in answer["frames"]:
            found.setdefault(frame["evaluation"], []).append(frame)
    return found


def install():
    """Makes `bt` show Python frames from now on."""
    if NAME not in gdb.frame_filters:
        Filter()
