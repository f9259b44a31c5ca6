"""Makes docs/ways-to-hold.md from the table: `python3 tests/e2e/ways/page.py > docs/ways-to-hold.md`."""

import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import table  # noqa: E402

HEAD = """# Ways to hold a tensor

Each of these programs keeps a tensor alive, and below it stands what `gpumem who-holds` says of that tensor: one line
for each holder. The tests run every one of them, in a live process and in a core dump of it, and
compare: these holders and no others, and "complete", as the reference counts say. `big()` makes the tensor that is asked
about; `other()` makes another one; what a program returns is kept by the global variable that has its name;
`stay()` is where a thread stands. A function within another one is called `outer.<locals>.inner` from Python 3.11 on, which
is left out here. This page is made from the table of the tests (`tests/e2e/ways/`).
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
                pieces.append("... and other words that point to it, each (plausible)")
            pieces.append("```\n")
        if waiting:
            pieces.append("Not complete yet; gpumem says so when asked:\n")
            pieces += [f"- {way.title}: {way.waits}" for way in waiting]
    return "\n".join(pieces).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
