"""The demo's session: types the commands a user would, prints what they answer, and checks it.

scripts/demo sets up and calls this. Ends with status 1 if an answer is not what it should be.
"""

import ctypes
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gdb_session import GdbSession  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = "examples/linear_loop.py"
wrong = []


def has_gpu():
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


def say(text=""):
    print(text, flush=True)


def expect(text, pattern, what):
    """The first group of a match; notes what is missing where there is none."""
    found = re.search(pattern, text, re.S)
    if not found:
        wrong.append(what)
        say(f"!! expected: {what}")
        return None
    return found.group(1) if found.groups() else found.group(0)


class Session:
    def __init__(self, arguments):
        say(f"$ build/bin/gpumem gdb {' '.join(arguments)}")
        self.gdb = GdbSession(["build/bin/gpumem", "gdb", *arguments], cwd=ROOT)
        # Where libc has debug information, gdb would complain at the stop that write.c is not on this machine.
        self.gdb.type("set print frame-info location")

    def ask(self, why, command):
        say(f"\n# {why}")
        say(f"(gdb) {command}")
        text = self.gdb.type(command)
        print(text, end="" if text.endswith("\n") or not text else "\n", flush=True)
        return text

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gdb.__exit__()


def line_of(text):
    """The number of the program's line that holds this text."""
    for number, line in enumerate((ROOT / PROGRAM).read_text().splitlines(), 1):
        if text in line:
            return number
    raise LookupError(text)


def first_allocation(events, line):
    """The number of the first block that this line of the program made."""
    return expect(events, rf"(#\d+) +alloc [^\n]*linear_loop\.py:{line}\b", f"an allocation at line {line}")


def number(text):
    return int(text.replace(",", "")) if text else None


def with_gradients(device):
    line = line_of("outputs = model(inputs)")
    with Session([*device, "--", ".venv/bin/python", PROGRAM]) as gdb:
        gdb.ask("Record every allocation and free of GPU memory, from the program's start.", "gpumem record")
        gdb.ask("Stop where step 1 prints: by then its output is there. (A catchpoint, gdb's own.)", "tcatch syscall write")
        gdb.ask("Go.", "run")

        text = gdb.ask("We are inside step 1. Who holds the memory of `outputs`?", "gpumem who-holds outputs")
        expect(text, r"'outputs' of module __main__ \(linear_loop\.py\)", "the variable, its module and the file")
        expect(text, r"complete: every reference was found \(([1-9]\d*) of \1\)", "all references found")

        text = gdb.ask("Go on to the first event of the loop's second iteration.", "gpumem until step=2")
        expect(text, r"step 2\b", "a stop in step 2")
        text = gdb.ask("And to the program's end.", "continue")
        peak = number(expect(text, r"allocated_bytes\.all\.peak: ([\d,]+)", "PyTorch's own figure of the peak"))

        text = gdb.ask("What happened, in order.", "gpumem events")
        expect(text, r"linear_loop\.py", "events with the program's lines")
        first_input = first_allocation(text, line_of("inputs = torch.randn"))
        output = first_allocation(text, line)

        text = gdb.ask("The first output: why was it still there when the second was made?", f"gpumem why {output}")
        expect(text, rf"rebinding of `outputs` at linear_loop\.py:{line} in step 2", "the rebinding, its line and step")
        expect(text, r"both were alive at the same time", "that two outputs were live together")

        text = gdb.ask("The first input: its variable was rebound before. What kept it?", f"gpumem why {first_input}")
        expect(text, r"graph", "that the graph kept the input")

        text = gdb.ask("What made the peak?", "gpumem peak")
        ours = number(expect(text, r"([\d,]{9,}) bytes", "the bytes of the peak"))
        if ours != peak:
            wrong.append(f"a peak of {peak} bytes, as PyTorch says, not {ours}")


def without_gradients(device):
    line = line_of("inputs = torch.randn")
    with Session([*device, "--", ".venv/bin/python", PROGRAM, "--no-grad"]) as gdb:
        gdb.ask("Record again.", "gpumem record")
        gdb.ask("This time to the end.", "run")
        block = first_allocation(gdb.gdb.type("gpumem events"), line)
        text = gdb.ask("The first input again: now nothing but its own variable kept it.", f"gpumem why {block}")
        expect(text, rf"rebinding of `inputs` at linear_loop\.py:{line}", f"that its own variable kept it until line {line}")


def main():
    device = [] if has_gpu() else ["--sim"]
    say("== A linear layer fed three times, in gdb " + ("(on this machine's GPU)" if not device else "(simulated GPU)"))
    with_gradients(device)
    say("\n== The same under torch.no_grad()")
    without_gradients(device)
    if wrong:
        say("\nThe demo found answers that are not as they should be:")
        for line in wrong:
            say(f"  expected {line}")
        return 1
    say(
        "\nEvery answer was checked. Now yours:\n"
        "  build/bin/gpumem gdb --sim -- .venv/bin/python examples/train_mlp.py\n"
        "  (gdb) gpumem record\n"
        "  (gdb) run\n"
        "  (gdb) gpumem peak\n"
        "`build/bin/gpumem --help` lists the commands; docs/tutorial-linear-loop.md explains what you saw."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
