"""Code that all commands share: argument parsing, preconditions, completion, and gate(), which turns every failure
into a `gpumem: …` line."""

import argparse
import functools
import re

import gdb

from .debugger import process_id, write
from .library import Failure, LibraryMissing, visible
from .recorder import waiting
from .session import session


class Usage(Exception):
    """Wrong arguments."""


class Parser(argparse.ArgumentParser):
    """argparse that never exits and never prints."""

    def __init__(self, **keys):
        super().__init__(add_help=False, allow_abbrev=False, **keys)

    def error(self, message):
        raise Usage(f"{message}: see `help {self.prog}`")


def split(text):
    """Splits a line into words. Quotes around a word are removed; quotes and spaces inside brackets stay, so
    that self.cache['kept one'] is one word."""
    words, word, depth, quote = [], "", 0, ""
    for character in text:
        if quote:
            word += character
            if character == quote:
                quote = ""
            continue
        if character.isspace() and depth <= 0:
            if word:
                words.append(word)
            word = ""
            continue
        if character in "\"'":
            quote = character
        elif character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        word += character
    if quote:
        raise Usage(f"the quote {quote} is not closed: close it")
    if word:
        words.append(word)
    return [unquote(word) for word in words]


def unquote(word):
    if len(word) >= 2 and word[0] in "\"'" and word[-1] == word[0] and word[0] not in word[1:-1]:
        return word[1:-1]
    return word


def needs_recorded_program(method):
    """Needs a stopped process that is recorded, or `gpumem record` without a process: then the program is started."""

    @functools.wraps(method)
    def checked(self, arguments):
        thread = gdb.selected_thread()
        if session().recording is None and (process_id() or not waiting.on):
            raise Failure(f"{self.short}: nothing is recorded: type `gpumem record` first", 2)
        if thread and thread.is_running():
            raise Failure(f"{self.short}: the program is running: interrupt it first (Ctrl-C or `interrupt`)", 4)
        return method(self, arguments)

    return checked


class Command(gdb.Command):
    """A command `gpumem NAME`. The class's docstring is gdb's help for it."""

    name = ""
    words = ()  # for completion
    file_argument = False  # whether completion offers files too
    takes_text = False  # whether run() gets the unsplit line: a condition has its own quotes and parentheses

    def __init__(self):
        self.short = self.name
        super().__init__(f"gpumem {self.name}", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        gate(self.name, lambda: self.run(argument.strip() if self.takes_text else split(argument)))

    def run(self, arguments):
        raise NotImplementedError

    def complete(self, text, word):
        # gdb also splits words at '-', so the typed word may begin before `word`
        typed = text.split(" ")[-1] if text else ""
        start = len(typed) - len(word or "")
        offered = [name[start:] for name in self.words if name.startswith(typed)]
        if offered or not self.file_argument:
            return offered
        return gdb.COMPLETE_FILENAME


def _what_helps(error):
    """Advice for errors of gdb itself that its message does not explain."""
    if "extended state status" in str(error):
        # i387_collect_xsave(): the buffer is too small if the kernel saves the registers of AMX (gdb before 14)
        return (
            ": this gdb cannot call functions of a program on this processor: use gdb 14 or newer "
            "(`gpumem gdb --gdb PATH`), or record with `gpumem attach PID` from a shell"
        )
    return ""


def gate(name, action):
    """Runs an action; every failure becomes one line."""
    try:
        action()
    except gdb.GdbError:
        raise
    except Usage as error:
        raise gdb.GdbError(f"gpumem: {name}: {visible(error)}") from None
    except (Failure, LibraryMissing) as error:
        raise gdb.GdbError(f"gpumem: {visible(error)}") from None
    except KeyboardInterrupt:
        raise
    except gdb.error as error:
        raise gdb.GdbError(f"gpumem: {name}: gdb: {visible(error)}{_what_helps(error)}") from None
    except Exception as error:
        raise gdb.GdbError(
            f"gpumem: {name}: an internal error ({type(error).__name__}: {visible(error)}): please report it"
        ) from None


def answer(arguments, otherwise=lambda _: None):
    """Asks the core and shows its answer. If it has none, `otherwise` may give other arguments."""
    status, out, err = session().ask(arguments)
    others = otherwise(arguments[1:]) if status >= 2 else None
    if others:
        status, out, err = session().ask([arguments[0], *others])
    write(out)
    if status >= 2:
        raise gdb.GdbError(err.rstrip("\n") or "gpumem: " + arguments[0] + ": failed")
    write(err, error=True)


NUMBER = re.compile(r"[0-9]+$")


def number(text, what):
    """A whole number, or a gdb expression with such a value."""
    if NUMBER.match(text):
        return int(text)
    try:
        return int(gdb.parse_and_eval(text))
    except (gdb.error, ValueError, TypeError):
        raise Usage(f"{what}: '{text}' is not a number: give one, as in 3") from None
