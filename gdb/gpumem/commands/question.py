"""Questions: commands that the core answers. This module only forwards them."""

import gdb

from ..command import Command, Usage, answer
from ..library import Session, commands

# who-holds and why take a variable, the others a file
TAKES_NO_FILE = {"who-holds", "why", "retained", "amp", "zero", "doctor"}

# these take an address, which gdb may know by a name: $rdi, $1
TAKES_BLOCK = {"who-holds", "why", "blocks", "segments"}


def address(word):
    """The address that a word which begins with $ stands for."""
    try:
        return f"{int(gdb.parse_and_eval(word)) & 0xFFFFFFFFFFFFFFFF:#x}"
    except (gdb.error, ValueError, TypeError) as error:
        raise Usage(f"'{word}' is not an address: {error}") from None


class Question(Command):
    words = ("--json", "--help")

    def __init__(self, name, text):
        self.name = name
        self.__doc__ = text
        self.file_argument = name not in TAKES_NO_FILE
        super().__init__()

    def run(self, arguments):
        if self.name in TAKES_BLOCK:
            arguments = [address(word) if word.startswith("$") else word for word in arguments]
        answer([self.name, *arguments])


def install_questions(skip):
    session = Session()
    for name, summary in commands():
        if name in skip:
            continue
        status, text, _ = session.run(["help", name])
        if status or not text:
            text = f"{summary}\n\nExample: gpumem {name}"
        # gdb lists commands by the first line of their help, so the summary comes before the usage
        Question(name, f"{summary[:1].upper()}{summary[1:]}.\n\n{text.strip()}")
    session.close()
