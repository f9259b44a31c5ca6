"""Magics for IPython and Jupyter; `%load_ext gpumem` loads them. docs/notebooks.md is the user's page.

    %gpumem peak run.gpumem     a question, about a file or about this kernel
    %gpumem who out             what holds the variable `out`
    %gpumem forget              releases what IPython keeps: outputs and the last error
    %%gpumem                    records the cell and shows its peak

Questions are asked of the command `gpumem`, so that a notebook, a shell and gdb give the same answers.
"""

import argparse
import ast
import atexit
import contextlib
import importlib
import json
import os
import shlex
import shutil
import sys
import tempfile

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.display import display

from . import asking, notebook_holders
from .notebook_answers import TABLES, Answer, cell_names, of_json, visible, with_cells

# Without a file they are about the last recorded cell; all others about this kernel.
OF_RECORDINGS = {"peak", "steps", "phases", "leaks", "timeline", "events", "why", "advise", "assert", "view", "export", "replay"}
NEEDS = {"who-holds": 1, "why": 1}  # operands besides the file
ELSEWHERE = {
    "run": "record a cell with %%gpumem",
    "attach": "record a cell with %%gpumem",
    "detach": "%%gpumem ends by itself",
    "gdb": "start it in a terminal",
    "fit": "start it in a terminal",
    "top": "start it in a terminal",
    "mcp": "a client of the protocol starts it",
}
CELL = "cell"
TEXT_MOST = 100_000


def calls():
    """The functions of the module `gpumem`: this package."""
    return importlib.import_module(__package__)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(f"%%gpumem: {message}: see %gpumem?")

    def exit(self, status=0, message=None):
        raise UsageError(message or "see %gpumem?")


def cell_options():
    parser = Parser(prog="%%gpumem", add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--output")
    parser.add_argument("--devices", default="cuda")
    parser.add_argument("--stacks", default="python,native")
    return parser


def shows_pictures(shell):
    return type(shell).__name__ != "TerminalInteractiveShell"


@magics_class
class Gpumem(Magics):
    def __init__(self, shell):
        super().__init__(shell)
        self.recording = None  # the file of the last recorded cell
        self.folder = None
        self.helps = {}

    @line_cell_magic
    def gpumem(self, line, cell=None):
        """Questions about GPU memory.

        %gpumem QUESTION [FILE] [OPTIONS]   as `gpumem QUESTION` in a shell (%gpumem --help lists them). Without FILE it is about
                                            this kernel, or, for peak, steps, leaks and the like, about the last recorded cell.
                                            FILE may be `cell`: the recording of that cell.
        %gpumem who NAME                    what holds the tensor NAME (any expression): variables, Out[…], the last error
        %gpumem forget [outputs|errors]     releases what IPython itself keeps
        %%gpumem [-o FILE] [--devices cuda,cpu] [--stacks python,native]
                                            records the cell, and shows its peak
        """
        __tracebackhide__ = True  # the traceback of an error begins in the cell
        if cell is not None:
            return self.record(line, cell)
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"%gpumem: {error}: put quotes around words with blanks") from None
        if any("\0" in word for word in words):
            raise UsageError("%gpumem: a word has a NUL character")
        if not words:
            raise UsageError("%gpumem: no question: %gpumem --help lists them")
        question, *rest = words
        if question in ("who", "who-holds"):
            return self.who(line.split(None, 1)[1] if rest else "", rest)
        if question == "forget":
            return self.forget(rest)
        if question in ELSEWHERE:
            raise UsageError(f"%gpumem {question}: not possible in a notebook: {ELSEWHERE[question]}")
        return self.ask(question, rest)

    # ---- questions ----

    def command(self, words):
        if not asking.program():
            raise UsageError("%gpumem: no command gpumem belongs to this module: install it again")
        with asking.readable_by_children():
            return asking.run(words)

    def answered(self, words, good=(0, 1)):
        """(stdout, stderr) of a command; its error is the magic's."""
        status, out, err = self.command(words)
        if status not in good:
            raise UsageError(visible(err.strip().removeprefix("gpumem: ")))
        return out, err

    def help_of(self, question):
        """The command's table of options; {} where it has none."""
        if question not in self.helps:
            status, out, _ = self.command([question, "--help", "--json"])
            self.helps[question] = json.loads(out) if status == 0 and out.startswith("{") else {}
        return self.helps[question]

    def operands(self, question, words):
        """The places of the operands among the words, and whether a process or a core is named."""
        options = self.help_of(question).get("options", [])
        takes = {f"--{one['name']}" for one in options if one["value"] and not one["value_optional"]}
        takes |= {f"-{one['letter']}" for one in options if one["value"] and one["letter"]}
        places, named, value_follows = [], False, False
        for place, word in enumerate(words):
            if value_follows:
                value_follows = False
            elif word.startswith("-") and word != "-":
                named |= word.split("=")[0] in ("--pid", "--core", "-p", "-c")
                value_follows = word in takes
            else:
                places.append(place)
        return places, named

    def ask(self, question, words):
        words = self.complete(question, words)
        as_json = "--json" in words
        if question == "timeline" and not as_json and shows_pictures(self.shell):
            picture = self.picture(words)
            if picture:
                display({"image/svg+xml": picture, "text/plain": "<the timeline>"}, raw=True)
                return None
        if question == "view" and not as_json:
            return self.view(words)
        if question in TABLES and not as_json and not {"--help", "-h", "--tree", "--explain", "--by", "--diff"} & {word.split("=")[0] for word in words}:
            found = self.json_of([question, *words])
            shown = of_json(question, with_cells(found, cell_names(self.shell)))
            if shown:
                display(shown)
                return None
        out, err = self.answered([question, *words])
        if as_json:
            return [json.loads(line) for line in out.splitlines()] if question == "events" else json.loads(out)
        out = without_shell(with_cells(out, cell_names(self.shell)))
        cut = [f"… {len(out) - TEXT_MOST:,} more characters: ask for less, or in a terminal"] if len(out) > TEXT_MOST else []
        notes = [line.removeprefix("gpumem: ") for line in err.splitlines()]
        display(Answer(("pre", out[:TEXT_MOST]), *cut, *notes))
        return None

    def complete(self, question, words):
        """With the file, or the process, that is asked about where none is named."""
        if {"--help", "-h"} & set(words):
            return words
        places, named = self.operands(question, words)
        if places and words[places[0]] == CELL:
            words = [*words]
            words[places[0]] = self.last_cell()
            return words
        if named or len(places) > NEEDS.get(question, 0):
            return words
        if question in OF_RECORDINGS:
            return [self.last_cell(), *words]
        options = {one["name"] for one in self.help_of(question).get("options", [])}
        return [*words, f"--pid={os.getpid()}"] if "pid" in options else words

    def last_cell(self):
        if not self.recording or not os.path.exists(self.recording):
            of_kernel = calls().recording()  # by `gpumem run`
            if of_kernel:
                return of_kernel
            raise UsageError("%gpumem: no cell was recorded: begin one with %%gpumem, or name a file")
        return self.recording

    def json_of(self, words):
        return json.loads(self.answered([*words, "--json"])[0])

    def picture(self, words):
        """The timeline of a recording as SVG; None: it has none, as it is no recording or has no events."""
        with tempfile.TemporaryDirectory(prefix="gpumem-notebook-") as folder:
            path = os.path.join(folder, "timeline.svg")
            places, named = self.operands("timeline", words)
            if named or len(places) != 1 or any(word.startswith("-") for word in words):
                return None
            status, _, _ = self.command(["view", words[places[0]], f"--svg={path}"])
            if status != 0:
                return None
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()

    def view(self, words):
        out, _ = self.answered(["view", *words], good=(0,))
        display(Answer(("pre", out)))

    # ---- holders ----

    def who(self, expression, words):
        if not words:
            raise UsageError("%gpumem who: of what? name a tensor, as in %gpumem who out")
        if words[0].startswith(("-", "#")) or any(word.startswith(("--pid", "--core")) for word in words):
            return self.ask("who-holds", words)
        address, more = (words[0], []) if words[0].startswith("0x") else self.address_of(expression.strip())
        found = self.json_of(["who-holds", address, f"--pid={os.getpid()}"])
        display(notebook_holders.answer(expression.strip(), with_cells(found, cell_names(self.shell)), more))
        return None

    def address_of(self, expression):
        """(the address of the tensor's storage, what is told beside). No value is kept here: it would be one more holder."""
        torch = sys.modules.get("torch")
        if torch is None:
            raise UsageError("%gpumem who: PyTorch is not imported in this kernel: nothing is on a device")
        try:
            found = tensors_in(torch, self.shell.ev(expression))
        except Exception as error:
            raise UsageError(f"%gpumem who: {visible(expression)}: {type(error).__name__}: {visible(error)}") from None
        if not found:
            raise UsageError(f"%gpumem who: {visible(expression)} has no tensor on a CUDA device")
        size, address = max(found)
        if len(found) == 1:
            return hex(address), []
        all_of = sum(one for one, _ in found)
        return hex(address), [f"It has {len(found)} tensors, {asking.size_text(all_of)} in all; this is about the largest."]

    def forget(self, words):
        if not set(words) <= {"outputs", "errors"}:
            raise UsageError("%gpumem forget: what? outputs, errors, or nothing for both")
        display(notebook_holders.forget(self.shell, "outputs" in words or not words, "errors" in words or not words))

    # ---- cells ----

    def record(self, line, cell):
        __tracebackhide__ = True
        try:
            options = cell_options().parse_args(shlex.split(line))
        except ValueError as error:
            raise UsageError(f"%%gpumem: {error}") from None
        path = os.path.abspath(os.path.expanduser(options.output)) if options.output else self.fresh_file()
        code = self.compiled(cell)
        try:
            began = calls().start(path, options.devices, options.stacks)
        except (RuntimeError, ValueError, OSError) as error:
            raise UsageError(f"%%gpumem: {visible(error)}") from None
        if not began:
            raise UsageError(f"%%gpumem: this kernel is recorded already, to {visible(calls().recording())}: ask that file")
        try:
            self.execute(code)
        finally:
            calls().stop()
            self.recording = path
            # An error of the cell stays what the cell answers.
            with contextlib.suppress(UsageError) if sys.exc_info()[0] else contextlib.nullcontext():
                self.show_cell(path, named=bool(options.output))

    def fresh_file(self):
        """The one before is removed: only the last cell can be asked about without a name."""
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="gpumem-notebook-")
            atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        if self.recording and os.path.dirname(self.recording) == self.folder:
            with contextlib.suppress(OSError):
                os.unlink(self.recording)
        return os.path.join(self.folder, f"cell-{self.shell.execution_count}.gpumem")

    def compiled(self, cell):
        """[code]: all but the last expression, which is displayed as in a cell."""
        shell = self.shell
        cell = f"\n{shell.transform_cell(cell)}"  # the line of the magic, so that lines have the numbers that the notebook shows
        name = shell.compile.cache(cell, self.cell_number())
        try:
            tree = shell.transform_ast(shell.compile.ast_parse(cell, filename=name))
            last = [tree.body.pop()] if tree.body and isinstance(tree.body[-1], ast.Expr) else []
            whole = [(tree, "exec")] if tree.body else []
            whole += [(ast.Interactive(last), "single")] if last else []
            return [shell.compile(one, name, mode) for one, mode in whole]
        except SyntaxError:
            shell.showsyntaxerror()
            raise UsageError("%%gpumem: the cell was not run") from None

    def cell_number(self):
        """Of the cell that runs: execution_count may be the next one already."""
        known, frame = getattr(self.shell.compile, "_filename_map", {}), sys._getframe()
        while frame:
            if frame.f_code.co_filename in known:
                return known[frame.f_code.co_filename]
            frame = frame.f_back
        return self.shell.execution_count

    def execute(self, code):
        __tracebackhide__ = True
        for one in code:
            exec(one, self.shell.user_global_ns, self.shell.user_ns)

    def show_cell(self, path, named):
        found = self.json_of(["peak", path])
        if found.get("device") is None or not found.get("allocated"):
            display(Answer("The cell allocated no device memory."))
            return
        shown = of_json("peak", with_cells(found, cell_names(self.shell)))
        where = f"The recording is {path}." if named else "More about it: %gpumem blocks cell --at-peak, %gpumem steps, %gpumem why '#1'."
        picture = self.picture([path]) if shows_pictures(self.shell) else None
        if picture:
            display({"image/svg+xml": picture, "text/plain": "<the timeline>"}, raw=True)
        if shown:
            display(Answer(*shown.parts, where))


def without_shell(text):
    """Without the frames of IPython below a cell that was recorded."""
    kept, within = [], None
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if within is not None and line.strip() and indent == within:
            continue
        within = indent if "/gpumem/notebook.py:" in line and " in Gpumem.execute" in line else None
        if within is None:
            kept.append(line)
    return "\n".join(kept)


def tensors_in(torch, value):
    """{(bytes, address)} of the device memory of a tensor, a module, an optimizer, or a container of these."""
    found, waiting, seen = set(), [value], set()
    while waiting and len(seen) < 100_000:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, torch.Tensor):
            with contextlib.suppress(RuntimeError, NotImplementedError):
                storage = one.untyped_storage()
                if one.is_cuda and storage.nbytes():
                    found.add((storage.nbytes(), storage.data_ptr()))
        elif isinstance(one, torch.nn.Module):
            waiting += [*one.parameters(), *one.buffers()]
        elif isinstance(one, torch.optim.Optimizer):
            waiting.append(one.state)
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, (list, tuple, set)):
            waiting += one
    return found


def load(shell):
    shell.register_magics(Gpumem)
