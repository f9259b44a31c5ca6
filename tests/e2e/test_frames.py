"""Native frames in gdb where it has not read the symbols of PyTorch's libraries: as if it had."""

import functools
import re
import subprocess

import pytest

PROGRAM = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.LayerNorm(96), torch.nn.Linear(96, 8)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(4):
    optimizer.zero_grad()
    x = torch.randn(32, 64).cuda()
    with torch.autocast("cuda"):
        loss = model(x).softmax(1).square().sum()
    loss.backward()
    optimizer.step()
big = torch.empty(64 << 20, device="cuda")
del big
torch.cuda.empty_cache()
try:
    torch.empty(1 << 40, device="cuda")
except torch.OutOfMemoryError:
    print("caught")
print("done")
"""
FIRST = "gpumem step 3"
# Odd numbers, so that allocations and releases come up, of the forward pass, of backward's thread and of the optimizer.
STOPS = [f"gpumem step {count}" for count in (1, 1, 2, 3, 5, 7, 7, 7, 7, 7, 7, 5, 11)]
STOPS += ["gpumem until step=3", "gpumem until phase=backward", "gpumem until phase=optimizer and action=alloc"]
STOPS += ["gpumem until size>100MiB and action=segment_alloc", "gpumem next-event", "gpumem until action=segment_free", "gpumem until action=oom"]
# The function at the top, if it is another one than that of blocks. A new segment is seen with its first block.
TOP = {"segment_free": "cudaFree", "oom": "c10::reportOutOfMemoryToProfiler"}
BY_GDB = ["set auto-solib-add on", "sharedlibrary", "disable frame-filter global gpumem-names", "disable unwinder global gpumem"]
BY_GDB += ["disable frame-filter global gpumem-python"]


def frames(text):
    """The frames of a `bt`, without the values of arguments: a filter has a library's name after "at", gdb itself after "from"."""
    lines = [line for line in text.splitlines() if re.match(r"#\d+ +(0x|cuda)", line)]
    return [re.sub(r" (?:from|at) (/\S+)$", r" in \1", re.sub(r" \([^()]*=.*\)", " ()", line)) for line in lines]


REGISTERS = (
    "python for name in 'rbx rbp r12 r13 r14 r15 rsp rip rax'.split():"
    " print(name, hex(int(gdb.selected_frame().read_register(name)) & (1 << 64) - 1))"
)
WALK = [command for stop in STOPS for command in (stop, "bt")]


@pytest.fixture(scope="module")
def with_symbols(run_gdb, tmp_path_factory):
    """(the program, gdb's run with an engine): the registers of two callers as gpumem finds them, then with all symbols read, which
    takes gdb seconds; and the stops with all symbols."""
    path = tmp_path_factory.mktemp("with_symbols") / "program.py"
    path.write_text(PROGRAM)
    shown = ["frame 4", REGISTERS, "frame 16", REGISTERS]

    @functools.cache
    def of(engine, walk=()):
        return run_gdb([f"gpumem record --engine {engine}", FIRST, *shown, *BY_GDB, *shown, "bt", *walk], path)

    return path, of


@pytest.mark.long
@pytest.mark.parametrize("engine", ["breakpoint", "agent"])
def test_bt_at_20_stops_is_as_with_all_symbols(run_gdb, with_symbols, engine):
    program, of = with_symbols
    runs = run_gdb([f"gpumem record --engine {engine}", FIRST, *WALK], program), of(engine, tuple(WALK))
    (ours, gdbs), compared = (run.sections[-len(WALK) :] for run in runs), 0
    for index in range(1, len(WALK), 2):
        own, other = frames(ours[index]), frames(gdbs[index])
        action = re.search(r"^#\d+ +(\w+)", ours[index - 1], re.M)[1]
        top = TOP.get(action, "c10::reportMemoryUsageToProfiler") if engine == "breakpoint" else None
        assert top is None or all(re.search(rf" {top} ?\(", frame[0]) for frame in (own, other))
        if top == "cudaFree":  # of our own device gdb knows the lines too
            own, other = own[1:], other[1:]
        assert own == other, f"at stop {index // 2}"
        assert len(own) >= 8
        compared += 1
    assert compared == 20
    stops = "\n".join(ours[::2])
    assert {"alloc", "free_requested", "segment_alloc", *TOP} <= set(re.findall(r"^#\d+ +(\w+)", stops, re.M)), stops
    assert {"forward", "backward", "optimizer"} <= set(stops.split()), stops


def test_callers_have_the_registers_and_names_that_gdb_finds_with_symbols(run_gdb, with_symbols):
    program, of = with_symbols
    gdb = of("breakpoint")
    own = frames(run_gdb(["gpumem record", FIRST, "bt"], program)["bt"])
    assert own == frames(gdb["bt"]) and len(own) >= 8
    printed = [gdb.sections[index] for index, command in enumerate(gdb.commands) if command == REGISTERS]
    registers = [re.findall(r"^(r\w+) (0x[0-9a-f]+)$", text, re.M) for text in printed]
    assert len(registers) == 4 and registers[0] != registers[1]
    assert registers[:2] == registers[2:] and len(registers[0]) == 9, gdb.out
    assert "?? () from" in gdb.sections[2]  # nothing was loaded for it


@pytest.mark.every_debugger
def test_up_and_finish_work_without_symbols(run_gdb, program):
    gdb = run_gdb(["gpumem record", FIRST, "bt 6", "up 1", "finish", "bt 4", "up", "finish", "bt 3", "continue"], program)
    at_first = [line.split(maxsplit=1)[1] for line in frames(gdb["bt 6"])]
    assert [line.split(maxsplit=1)[1] for line in frames(gdb["bt 4"])] == at_first[2:6], gdb.out
    assert [line.split(maxsplit=1)[1] for line in frames(gdb["bt 3"])][:2] == at_first[4:6], gdb.out
    assert "exited normally" in gdb["continue"]


def test_filters_and_unwinder_are_gdbs_own_to_switch_off(run_gdb, program):
    gdb = run_gdb(
        ["gpumem record", FIRST, "bt -no-filters", "info frame-filter", "info unwinder", "disable unwinder global gpumem", "bt"], program
    )
    assert "?? () from" in gdb["bt -no-filters"].splitlines()[0]
    assert len(frames(gdb["bt -no-filters"])) > 20  # still the right frames
    assert "gpumem-names" in gdb["info frame-filter"] and "gpumem" in gdb["info unwinder"]
    assert len(frames(gdb["bt"])) < 5  # what gdb finds by itself


LIBRARY = """
int deep(int (*stop)(void)) { volatile char room[4000]; room[0] = 0; return stop() + room[0]; }
int shallow(int (*stop)(void)) { volatile char room[400]; room[0] = 0; return stop() + room[0]; }
"""
CALLS = """
#include <signal.h>
int deep(int (*stop)(void)), shallow(int (*stop)(void));
int stop(void) { return raise(SIGTRAP); }
int main(int argc, char **argv) { return argc > 1 ? deep(stop) : shallow(stop); }
"""


def test_bt_is_of_the_process_that_inferior_selects(run_gdb, tmp_path):
    (tmp_path / "library.c").write_text(LIBRARY)
    (tmp_path / "calls.c").write_text(CALLS)
    library, program = tmp_path / "library.so", tmp_path / "calls"
    subprocess.run(["cc", "-O1", "-fomit-frame-pointer", "-shared", "-fPIC", "-o", library, tmp_path / "library.c"], check=True)
    subprocess.run(["cc", "-g", "-O0", "-o", program, tmp_path / "calls.c", library], check=True)
    switches = ["inferior 1", "bt", "inferior 2", "bt"]
    gdb = run_gdb(
        ["python import gpumem.frames; gpumem.frames.install()", "run", "bt", f"add-inferior -exec {program}", "inferior 2", "run deep", "bt", *switches],
        program, sim=False, symbols=False,
    )  # fmt: skip
    walks = [re.findall(r"^#\d+ .*?(stop|deep|shallow|main)\b", section, re.M) for command, section in zip(gdb.commands, gdb.sections) if command == "bt"]
    assert walks == [["stop", "shallow", "main"], ["stop", "deep", "main"]] * 2, gdb.out
