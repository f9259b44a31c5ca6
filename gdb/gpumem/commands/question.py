"""Questions: commands that the core answers. This module only forwards them."""

from ..command import Command, answer
from ..library import Session, commands

# who-holds and why take a variable, the others a file
TAKES_NO_FILE = {"who-holds", "why", "retained", "amp", "zero", "doctor"}


class Question(Command):
    words = ("--json", "--help")

    def __init__(self, name, text):
        self.name = name
        self.__doc__ = text
        self.file_argument = name not in TAKES_NO_FILE
        super().__init__()

    def run(self, arguments):
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
