"""Makes docs/ways-to-hold.md from the table: `python3 tests/e2e/ways/page.py > docs/ways-to-hold.md`."""

import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import table  # noqa: E402

HEAD = """# Ways to hold a tensor

Each of these programs keeps a tensor alive. Below it is the answer of `gpumem who-holds` about that tensor: one line
for each holder. The tests run every program, in a live process and in a core dump of it, and
compare: exactly these holders, and "complete", as the reference counts confirm. `big()` makes the tensor in question;
`other()` makes another one. The result of a program is kept by the global variable that has its name.
`stay()` is where a thread waits. From Python 3.11 on, a function inside another one is called `outer.<locals>.inner`; this page
leaves that prefix out. This page is made from the table of the tests (`tests/e2e/ways/`).
"""

TITLES = {
    "containers": "Containers",
    "views": "Views and shared memory",
    "objects": "Objects, classes and functions",
    "flow": "Frames, generators, exceptions, threads",
    "autograd": "The autograd graph",
    "training": "Modules, optimizers, data",
    "native": "C++ and libraries",
}


def body(way):
    lines = way.source.splitlines()
    return textwrap.dedent("\n".join(line.replace("  # fmt: skip", "") for line in lines))


def page():
    pieces = [HEAD]
    for module in table.MODULES:
        ways = [way for way in table.rows([module]) if not way.waits]
        waiting = [way for way in table.rows([module]) if way.waits]
        pieces.append(f"\n## {TITLES[module]}\n")
        for way in ways:
            pieces.append(f"### {way.title}\n\n```python\n{body(way)}\n```\n\n```text")
            pieces += sorted(table.plain(text) for text in way.expected)
            if not way.complete:
                pieces.append("... and unattributed words that point to it, each (plausible)")
            pieces.append("```\n")
        if waiting:
            pieces.append("These answers are not complete yet, and gpumem says so:\n")
            pieces += [f"- {way.title}: {way.waits}" for way in waiting]
    return "\n".join(pieces).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
