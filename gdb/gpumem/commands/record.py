"""`gpumem record`."""

from ..command import Command, Parser, Usage
from ..debugger import say
from ..library import Failure
from ..recorder import waiting, where
from ..session import session
from ..settings import setting


class Record(Command):
    """Record every allocation and release of GPU memory.

    gpumem record [start] [--engine breakpoint|agent] [--devices cuda,cpu]
                          [--on-oom core|stop|none] [--core-file FILE]
    gpumem record stop
    gpumem record save FILE
    gpumem record status

    Without a process it waits for `run`; with a process it begins at once. Each run makes a new recording.
    The questions (`gpumem info`, `peak`, `why` …) answer from the latest recording, while the program runs
    and after it has ended.

    --engine breakpoint, the default, stops the program at each event. A stop takes about 0.3 ms.
    --engine agent loads a library into the program, which records at a thousandth of that cost. If the
    process is already running, the recording includes the blocks that were allocated before. The questions
    can read the recording while the program runs.

    --devices cuda,cpu records CPU tensors too, --devices cpu only those; the default is cuda.
    --on-oom stop stops the program when a device has run out of memory, before PyTorch raises its error,
    and prints the verdict. --on-oom core writes a core at that point (core.PID, or FILE), and the program
    continues. With --engine agent both act only on the first error.

    `set gpumem engine`, `set gpumem devices` and `set gpumem on-oom` set the defaults of these options.

    Example: gpumem record
             run
             gpumem info
    Example: gpumem record --engine agent"""

    name = "record"
    words = ("start", "stop", "save", "status", "--engine", "--devices", "breakpoint", "agent", "cuda", "cpu", "cuda,cpu", "--on-oom", "core")

    def run(self, arguments):
        parser = Parser(prog="gpumem record")
        parser.add_argument("action", nargs="?", default="start")
        parser.add_argument("file", nargs="?")
        parser.add_argument("--engine", default=setting("engine"))
        parser.add_argument("--devices", default=setting("devices"))
        parser.add_argument("--on-oom", default=setting("on-oom"))
        parser.add_argument("--core-file")
        options = parser.parse_args(arguments)
        actions = {"start": self.start, "stop": self.stop, "save": self.save, "status": self.status}
        if options.action not in actions:
            raise Usage(f"'{options.action}' is not an action: use start, stop, save or status")
        if options.file and options.action != "save":
            raise Usage(f"'{options.file}' is unexpected: `{options.action}` takes no further argument")
        actions[options.action](options)

    def complete(self, text, word):
        import gdb

        if text.split()[:1] == ["save"] and not text.rstrip().endswith("save") or text.endswith("save "):
            return gdb.COMPLETE_FILENAME
        return super().complete(text, word)

    def start(self, options):
        if options.engine not in ("breakpoint", "agent"):
            raise Usage(f"--engine {options.engine}: no such engine: use breakpoint or agent")
        for device in options.devices.split(","):
            if device not in ("cuda", "cpu"):
                raise Usage(f"--devices {options.devices}: no such device '{device}': use cuda, cpu or cuda,cpu")
        if options.on_oom not in ("core", "stop", "none"):
            raise Usage(f"--on-oom {options.on_oom}: use core, stop or none")
        if options.core_file and options.on_oom != "core":
            raise Usage("--core-file FILE: needs --on-oom core: add it, or leave --core-file out")
        by_agent = options.engine == "agent"
        say(waiting.start(options.devices, options.on_oom, options.core_file, by_agent))

    def stop(self, _options):
        if not waiting.on and session().recording is None:
            raise Failure("record stop: nothing is recorded: type `gpumem record` first", 2)
        summary = waiting.stop()
        say(f"recorded {summary}; {where(session().log)}" if summary else "recording is off")

    def save(self, options):
        if not options.file:
            raise Usage("save: FILE is missing: name one, as in `gpumem record save run.gpumem`")
        current = session()
        if current.log is None:
            raise Failure("record save: nothing was recorded: type `gpumem record`, then `run`", 2)
        if current.recording is not None:
            current.recording.recorder.flush()
        current.log.save(options.file)
        more = "; the rest is added when the recording ends" if current.recording is not None else ""
        say(f"saved as {current.log.saved_as}{more}")

    def status(self, _options):
        current = session()
        if current.recording is not None:
            recording = current.recording
            say(f"recording process {recording.pid}: {recording.recorder.summary()}; {where(recording.log)}")
        elif waiting.on:
            say("recording begins when the program runs")
        elif current.log is not None:
            say(f"not recording; the last recording: {where(current.log)}")
        else:
            say("not recording")
