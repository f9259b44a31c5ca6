"""Commands in a terminal of their own: what they write to it, and what is typed."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time


class Terminal:
    """A command in a terminal; `shown` is all that it got so far, without escape sequences."""

    def __init__(self, command, rows=24, columns=80, timeout=600, **variables):
        self.shown, self.end = "", time.monotonic() + timeout
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            # the size is there before the command asks for it
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            # where LINES and COLUMNS are set, curses believes them
            inherited = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
            os.execvpe(str(command[0]), [str(word) for word in command], {**inherited, "TERM": "xterm", **variables})

    def read(self):
        """More of what is shown. False: its end."""
        while time.monotonic() < self.end:
            if select.select([self.terminal], [], [], 0.2)[0]:
                try:
                    got = os.read(self.terminal, 65536)
                except OSError:
                    return False
                colourless = re.sub(r"\x1b\[[0-9;]*m", "", got.decode(errors="replace"))
                self.shown += re.sub(r"\x1b[^a-zA-Z]*[a-zA-Z]", " ", colourless)  # what moves the cursor
                return bool(got)
        raise AssertionError(f"nothing more came in time: {self.shown}")

    def until(self, text):
        while text not in self.shown:
            assert self.read(), f"{text!r} was not shown: {self.shown}"
        return self.shown

    def type(self, text):
        os.write(self.terminal, text.encode())

    def finish(self):
        """The exit status, once the command has ended."""
        while self.read():
            pass
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
