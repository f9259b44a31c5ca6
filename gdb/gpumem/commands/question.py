"""Questions: commands that the core answers. This module only forwards them."""

import json
import re

import gdb

from ..command import Command, Usage, answer
from ..library import Failure, Session, commands
from ..session import session
from .up_down import with_frame

# who-holds and why take a variable, the others a file
TAKES_NO_FILE = {"who-holds", "why", "retained", "amp", "zero", "doctor", "frames", "locals", "at"}

# these take an address, which gdb may know by a name: $rdi, $1
TAKES_BLOCK = {"who-holds", "why", "blocks", "segments"}


def address(word):
    """The address that a word beginning with $ evaluates to."""
    try:
        return f"{int(gdb.parse_and_eval(word)) & 0xFFFFFFFFFFFFFFFF:#x}"
    except (gdb.error, ValueError, TypeError) as error:
        raise Usage(f"'{word}' is not an address: {error}") from None


# a variable of C, C++ or CUDA: `to`, `batch->data`; evaluating it calls no function of the program
C_VARIABLE = re.compile(r"[A-Za-z_]\w*(?:(?:->|\.)[A-Za-z_]\w*|\[[0-9]+\])*$")


def pointer(word):
    """The address that a pointer of the selected C, C++ or CUDA frame holds; the word itself if it is none."""
    if not C_VARIABLE.match(word):
        return word
    try:
        value = gdb.parse_and_eval(word)
        held = value.type.name == "CUdeviceptr" or value.type.strip_typedefs().code == gdb.TYPE_CODE_PTR
        return f"{int(value) & 0xFFFFFFFFFFFFFFFF:#x}" if held else word
    except (gdb.error, ValueError, TypeError, OverflowError):
        return word


OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*=?")


def live_blocks():
    """The blocks that are allocated at the recording's end, as `#N`."""
    if session().log is None:
        return []
    status, out, _ = session().ask(["blocks", "--json"])
    blocks = json.loads(out).get("blocks", []) if status == 0 else []
    return [f"#{block['allocated']}" for block in blocks if block["allocated"] is not None]


class Question(Command):

    def __init__(self, name, text):
        self.name = name
        self.__doc__ = text
        self.file_argument = name not in TAKES_NO_FILE
        self.words = tuple(sorted({"--help", *OPTION.findall(text)}))
        super().__init__()

    def run(self, arguments):
        if self.name in TAKES_BLOCK:
            arguments = [address(word) if word.startswith("$") else word for word in arguments]
        if self.name == "locals":
            arguments = with_frame(arguments)
        answer([self.name, *arguments], self.with_pointers)

    def with_pointers(self, arguments):
        """What to ask if there is no Python variable of that name; None: the same."""
        replaced = [pointer(word) for word in arguments] if self.name in TAKES_BLOCK else arguments
        return replaced if replaced != arguments else None

    def complete(self, text, word):
        typed = text.split(" ")[-1]
        if self.name not in TAKES_BLOCK or not typed.startswith("#"):
            return super().complete(text, word)
        start = len(typed) - len(word or "")
        try:
            return [block[start:] for block in live_blocks() if block.startswith(typed)]
        except (Failure, ValueError):
            return []  # no completion


def install_questions(skip):
    library = Session()
    for name, summary in commands():
        if name in skip:
            continue
        status, text, _ = library.run(["help", name])
        if status or not text:
            text = f"{summary}\n\nExample: gpumem {name}"
        # gdb lists commands by the first line of their help, so the summary comes before the usage
        Question(name, f"{summary[:1].upper()}{summary[1:]}.\n\n{text.strip()}")
    library.close()
