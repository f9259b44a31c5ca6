"""The TUI window `gpumem-timeline`, and the layout `gpumem` that has it beside the source: `layout gpumem`.

What it shows is the answer of `gpumem timeline`, asked again when gdb prompts and the recording has got further. A gdb without a
TUI, or without windows of Python's, has neither; nothing else changes. Nor has gdb 10, which is in cuda-gdb 11.8: its windows show
the first line of a text only, and no character of several bytes.
"""

import gdb

from . import debugger
from .library import visible
from .session import session

NAME, LAYOUT = "gpumem-timeline", "gpumem"
# {source | timeline} over status and commands; the numbers are weights
WINDOWS = f"{{-horizontal src 1 {NAME} 1}} 2 status 0 cmd 1"
NOTHING = "Nothing is recorded yet: type `gpumem record`, then `run`."
# for a terminal that has no such characters
PLAIN = str.maketrans({**dict(zip("▁▂▃▄▅▆▇█", ".:-=+*%#")), "·": "'", "…": "~"})


def answer(columns):
    """Lines of the timeline, or of why there is none."""
    if session().log is None:
        return [NOTHING]
    status, out, err = session().ask(["timeline"], columns)
    return (out if status == 0 else err).splitlines()


def shown(lines, first, width, height):
    """The lines from `first` on that fit, each cut to the width. The last character of a window would scroll it."""
    return "\n".join(line[: max(width - 1, 0)] for line in lines[first : first + height])


class Window:
    """gdb calls these methods. What goes wrong in them is shown in the window, so that no command fails for it."""

    def __init__(self, window):
        self.window = window
        self.lines, self.first = [], 0
        self.seen = None  # what the lines were made of
        window.title = "gpumem timeline"
        gdb.events.before_prompt.connect(self.refresh)

    def close(self):
        gdb.events.before_prompt.disconnect(self.refresh)

    def state(self):
        """Another one: the answer has changed."""
        recording, log = session().recording, session().log
        events = recording.recorder.event_count() if recording is not None else None
        return events, log.path if log is not None else None, self.window.width

    def refresh(self):
        """gdb prompts."""
        if self.window.is_valid() and (self.seen is None or self.seen != self.state()):
            self.render()

    def render(self):
        """gdb wants it drawn: it is new, or its size has changed."""
        try:
            state = self.state()
            if state != self.seen:
                self.lines = answer(self.window.width)
                self.seen = state
        except KeyboardInterrupt:
            raise
        except Exception as error:
            self.lines = [f"gpumem: timeline: {visible(error)}"]
        self.draw()

    def vscroll(self, count):
        self.first = min(max(self.first + count, 0), max(len(self.lines) - 1, 0))
        self.draw()

    def draw(self):
        text = shown(self.lines, self.first, self.window.width, self.window.height)
        plain = text.translate(PLAIN).encode("ascii", "replace").decode()
        self.window.erase()
        try:
            self.window.write(text)
        except (UnicodeError, gdb.error):
            self.window.write(plain)


def install():
    if debugger.version() < (11, 0):
        return
    try:
        gdb.register_window_type(NAME, Window)
        gdb.execute(f"tui new-layout {LAYOUT} {WINDOWS}", False, True)
    except (AttributeError, RuntimeError):  # gdb.error is one
        pass
