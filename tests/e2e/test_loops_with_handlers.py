"""Iterations of loops, by their iterators, in programs whose other loops have handlers of exceptions: from CPython 3.12 on
those are at the end of the code, behind all that follows the loops. Each step allocates as much as the program says."""

import random
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "tools"))
import pythons  # noqa: E402

PROGRAM = """
import contextlib, ctypes
runtime = ctypes.CDLL(None)
runtime.cudaMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
null = contextlib.nullcontext()

def allocate(size):
    runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), size)

def main():
"""
# Bodies of loops that allocate nothing.
QUIET = [
    ["with null:", "    pass"],
    ["try:", "    int('x')", "except ValueError:", "    pass"],
    ["try:", "    int('x')", "except ValueError:", "    continue"],
    ["try:", "    int('x')", "except ValueError as error:", "    str(error)", "str(a)"],
    ["for b in range(2):", "    with null:", "        str(b)"],
    ["try:", "    str(a)", "finally:", "    str(a)"],
]
# What a step does: one line allocates all of it, so that only the iterator tells one step from the next.
WORK = "list(map(allocate, SIZES[step]))"
BODIES = [
    [WORK],
    ["try:", f"    {WORK}", "except MemoryError:", "    pass"],
    ["try:", "    int('x' if step % 2 else '1')", "except ValueError:", "    str(step)", WORK],
    ["with null:", f"    {WORK}"],
    ["try:", "    int('x')", "except ValueError:", f"    {WORK}", "str(step)"],
]


def interpreters():
    return [pytest.param(path, id="%d.%d" % version) for version, path in pythons.pythons() if version >= (3, 9)]


@pytest.mark.parametrize("seed", [1, 2, 3, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 40))])
@pytest.mark.parametrize("python", interpreters())
def test_steps_are_the_iterations_of_the_loop(run_gpumem, tmp_path, python, seed):
    some = random.Random(seed)
    sizes = [[some.randrange(1, 20) << 20 for _ in range(some.randrange(1, 4))] for _ in range(6)]
    lines = []
    for _ in range(some.randrange(2, 6)):
        lines += ["for a in range(2):", *("    " + line for line in some.choice(QUIET))]
    lines += ["for epoch in range(2):", f"    for step in range({len(sizes)}):"]
    at = len(PROGRAM.splitlines()) + len(lines)
    lines += ["        " + line for line in some.choice(BODIES)]
    for _ in range(some.randrange(3)):
        lines += ["for a in range(2):", *("    " + line for line in some.choice(QUIET))]
    lines += ["list(map(allocate, [1 << 20]))"]
    program = tmp_path / "program.py"
    program.write_text(f"SIZES = {sizes}{PROGRAM}" + "".join(f"    {line}\n" for line in lines) + "main()\n")
    recording = tmp_path / "program.gpumem"
    run_gpumem("run", "--sim", "-o", recording, "--", python, program).check()
    answer = run_gpumem("steps", recording, "--loop", f"program.py:{at}", "--json").check().json()
    assert [step["bytes"] for step in answer["steps"]] == [sum(step) for step in sizes] * 2, "\n".join(lines)
