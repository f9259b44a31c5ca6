"""Breakpoints that wait for a function of a library whose symbols gdb does not read while gpumem records."""

import re

import pytest

PROGRAM = """
import torch
x = torch.empty(10, device="cuda")
torch.cuda.synchronize()
print("done")
"""
PENDING = "set breakpoint pending on"


@pytest.mark.parametrize("engine", ["breakpoint", "agent"])
def test_a_breakpoint_in_a_library_that_is_loaded_later_is_hit(run_gdb, program, engine):
    """libc10_cuda.so comes with `import torch`; only its symbols are read, and a name that no library has waits on."""
    gdb = run_gdb(
        [PENDING, f"gpumem record --engine {engine}", "break c10::cuda::device_synchronize", "break never_defined", "run", "bt 1", "info breakpoints",
         "info sharedlibrary", "continue", "gpumem info"],
        program,
    )  # fmt: skip
    assert gdb["run"].count("reading the symbols of") == 1, gdb["run"]
    assert "gpumem: reading the symbols of libc10_cuda.so, for breakpoint 1\n" in gdb["run"]
    assert re.search(r"hit Breakpoint 1\b.*c10::cuda::device_synchronize\(\)", gdb["run"]), gdb["run"]
    assert "c10::cuda::device_synchronize()" in gdb["bt 1"]
    assert re.search(r"^2 .*<PENDING> +never_defined", gdb["info breakpoints"], re.M)
    read = {name for status, name in re.findall(r"(Yes|No)\b.* (\S+\.so\S*)$", gdb["info sharedlibrary"], re.M) if status == "Yes"}
    assert any("libc10_cuda" in name for name in read) and not any("libtorch_" in name for name in read)
    assert "done" in gdb["continue"] and "exited normally" in gdb["continue"]
    assert "0 B" not in gdb["gpumem info"].splitlines()[0]


@pytest.mark.parametrize("engine", ["breakpoint", pytest.param("agent", marks=pytest.mark.long)])
def test_a_breakpoint_made_at_a_stop_is_hit_in_this_run_and_the_next(run_gdb, program, engine):
    gdb = run_gdb(
        [PENDING, f"gpumem record --engine {engine}", "gpumem next-event", "tbreak nonsense", "tbreak device_synchronize", "continue",
         "break c10::cuda::device_synchronize", "run", "delete", "continue", "gpumem info"],
        program,
    )  # fmt: skip
    assert "gpumem: reading the symbols of libc10_cuda.so, for breakpoint 2\n" in gdb["tbreak device_synchronize"]
    assert re.search(r"hit Temporary breakpoint 2\b", gdb.sections[5]), gdb.out
    assert re.search(r"hit Breakpoint 3\b", gdb["run"]), gdb.out
    assert "exited normally" in gdb.sections[9], gdb.out

