"""The TUI window `gpumem-timeline`, and the layout `gpumem`, which shows it next to the source: `layout gpumem`.

The window shows the answer of `gpumem timeline`, updated when gdb shows its prompt and the recording has grown. A gdb without
the TUI, or without windows from Python, lacks both. So does gdb 10 (in cuda-gdb 11.8), whose windows show only the first line of a
text and no multi-byte characters.
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
    """The lines of the timeline, or of the reason why there is none."""
    if session().log is None:
        return [NOTHING]
    status, out, err = session().ask(["timeline"], columns)
    return (out if status == 0 else err).splitlines()


def shown(lines, first, width, height):
    """The lines from `first` on that fit, each cut to the width. The last character of a window would scroll it."""
    return "\n".join(line[: max(width - 1, 0)] for line in lines[first : first + height])


class Window:
    """gdb calls these methods. Their errors are shown in the window, so that no command fails."""

    def __init__(self, window):
        self.window = window
        self.lines, self.first = [], 0
        self.seen = None  # the state from which the lines were made
        window.title = "gpumem timeline"
        gdb.events.before_prompt.connect(self.refresh)

    def close(self):
        gdb.events.before_prompt.disconnect(self.refresh)

    def state(self):
        """Marks the answer as changed."""
        recording, log = session().recording, session().log
        events = recording.recorder.event_count() if recording is not None else None
        return events, log.path if log is not None else None, self.window.width

    def refresh(self):
        """Called when gdb shows its prompt."""
        if self.window.is_valid() and self.update():
            self.draw()

    def render(self):
        """Called when gdb wants the window drawn: it is new, or its size has changed."""
        self.update()
        self.draw()

    def update(self):
        """Asks again if the answer has changed. Returns whether the lines are others."""
        before = self.lines
        try:
            state = self.state()
            if state != self.seen:
                self.lines = answer(self.window.width)
                self.seen = state
        except KeyboardInterrupt:
            raise
        except Exception as error:
            self.lines = [f"gpumem: timeline: {visible(error)}"]
            self.seen = None
        return self.lines != before

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
