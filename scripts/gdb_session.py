"""A debugger that is typed to, one command at a time: what the demo and the documents' tests drive."""

import os
import signal
import subprocess

PROMPT = "\x1e"  # no program prints it
SETTINGS = ("confirm off", "pagination off", "width 0", "style enabled off", "print thread-events off", f"prompt {PROMPT}")


class GdbSession:
    """`type(command)` gives back what gdb, and the program in it, printed until the next prompt."""

    def __init__(self, command, cwd=None, env=None, timeout=300):
        # The arguments of `gpumem gdb` up to "--" are gdb's own.
        cut = command.index("--") if "--" in command else len(command)
        quiet = ["-q"]
        for setting in SETTINGS:
            quiet += ["-ex", f"set {setting}"]
        self.timeout = timeout
        self.process = subprocess.Popen(
            [*command[:cut], *quiet, *command[cut:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "TERM": "dumb", **(env or {})},
            start_new_session=True,
        )
        self.start = self._read()

    def _read(self):
        """Up to the prompt, or to the end of gdb. An alarm ends a gdb that does not come back."""
        import threading

        late = threading.Timer(self.timeout, self.kill)
        late.start()
        text = bytearray()
        try:
            while not text.endswith(PROMPT.encode()):
                byte = self.process.stdout.read(1)
                if not byte:
                    break
                text += byte
        finally:
            late.cancel()
        return text.decode(errors="replace").removesuffix(PROMPT)

    def type(self, command):
        try:
            self.process.stdin.write(f"{command}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            return "gdb has ended\n"
        return self._read()

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self):
        """Ends gdb, and the program with it. Gives back gdb's exit status."""
        try:
            self.process.stdin.close()
            return self.process.wait(timeout=30)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.kill()
            return self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        self.kill()
