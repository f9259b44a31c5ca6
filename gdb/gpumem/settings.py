"""`set gpumem NAME VALUE` and `show gpumem NAME`: the defaults of the options of `gpumem record`, and what `bt` shows."""

import gdb

from . import debugger


class SetPrefix(gdb.Command):
    """Settings of gpumem: the defaults of the options of `gpumem record`, and what `bt` shows."""

    def __init__(self):
        super().__init__("set gpumem", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

    def invoke(self, argument, from_tty):
        gdb.execute("help set gpumem")


class ShowPrefix(gdb.Command):
    """Shows the settings of gpumem."""

    def __init__(self):
        super().__init__("show gpumem", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

    def invoke(self, argument, from_tty):
        for name in SETTINGS:
            gdb.execute(f"show gpumem {name}")


class Setting(gdb.Parameter):
    """A setting with a fixed list of values. gdb shows the class's set_doc and show_doc as help."""

    def __init__(self, name, default, words, what, help_text):
        self.set_doc = f"Set {what}."
        self.show_doc = f"Show {what}."
        self.__doc__ = f"{help_text}\n\nExample: set gpumem {name} {words[-1]}"
        self.name = name
        super().__init__(f"gpumem {name}", gdb.COMMAND_DATA, gdb.PARAM_ENUM, words)
        self.value = default

    def get_set_string(self):
        return ""

    def get_show_string(self, value):
        return f"gpumem {self.name} is {value}"


SETTINGS = {
    "engine": (
        "breakpoint",
        ["breakpoint", "agent"],
        "how `gpumem record` records",
        "breakpoint stops the program at each event. agent loads a library into the program, which records a thousand times faster.",
    ),
    "devices": (
        "cuda",
        ["cuda", "cpu", "cuda,cpu"],
        "which tensors `gpumem record` records",
        "cuda: those on CUDA devices. cpu: those in host memory.",
    ),
    "on-oom": (
        "none",
        ["none", "stop", "core"],
        "what happens when a device has run out of memory",
        "stop: gdb stops the program before PyTorch raises its error, and prints the verdict. core: a core is written, and the program continues.",
    ),
    "python-frames": (
        "on",
        ["on", "off"],
        "whether `bt` shows Python frames",
        "on: below each native frame that runs Python code, `bt` shows the Python frames. `disable frame-filter global gpumem-python` has the same effect as off.",
    ),
}
_settings = {}


def setting(name):
    """The value, from gdb itself: in cuda-gdb 11.8 the parameter's `value` keeps its first value."""
    return gdb.parameter(f"gpumem {name}") if name in _settings else SETTINGS[name][0]


def install():
    if _settings:
        return
    try:
        SetPrefix()
        ShowPrefix()
        for name, parts in SETTINGS.items():
            _settings[name] = Setting(name, *parts)
    except RuntimeError as error:  # another plugin has taken the name
        debugger.warn(f"settings: {error}")
