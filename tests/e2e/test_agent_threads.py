"""Threads that end, are cancelled or fork while the agent is at work: the program runs as without it, and is recorded."""

import subprocess

import pytest

from conftest import PYTHON, ROOT, events_of, info_of

# In place of the CUDA runtime: addresses, without memory.
RUNTIME = """
static _Atomic unsigned long next = 1ul << 40;
int cudaMalloc(void **pointer, unsigned long size) { *pointer = (void *)(next += size); return 0; }
int cudaFree(void *pointer) { return 0; }
int cudaGetDevice(int *device) { return *device = 0; }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("threads")
    (folder / "runtime.c").write_text(RUNTIME)
    compiled = ["cc", "-std=gnu17", "-O1", "-fno-optimize-sibling-calls"]
    subprocess.run([*compiled, "-shared", "-fPIC", "-o", folder / "libruntime.so", folder / "runtime.c"], check=True)
    source = ROOT / "tests" / "e2e" / "programs" / "agent_threads.c"
    linked = ["-rdynamic", f"-L{folder}", "-lruntime", f"-Wl,-rpath,{folder}", "-ldl", "-lpthread"]
    subprocess.run([*compiled, "-D_GNU_SOURCE", "-o", folder / "program", source, *linked], check=True)
    return folder / "program"


@pytest.fixture
def logs_of(run_gpumem, program, tmp_path):
    """logs_of(what it does, *options) -> the recordings of its processes, the first one's first."""

    def call(what, *options):
        finished = run_gpumem("run", "-o", tmp_path / "run.gpumem", *options, "--", program, what).check()
        assert finished.out == "right\n"
        return sorted(tmp_path.glob("run.gpumem*"))

    return call


def allocations(run_gpumem, log):
    return [e for e in events_of(run_gpumem, log) if e["action"] == "alloc"]


def test_a_thread_ends_in_a_forked_child_that_has_not_allocated(logs_of):
    assert len(logs_of("thread ends in child")) == 1


@pytest.mark.parametrize("when, count", [("cancelled at the first event", 60_001), ("cancelled later", 120_001)])
def test_a_cancelled_thread_ends_at_its_own_cancellation_point_and_all_is_recorded(logs_of, run_gpumem, when, count):
    (log,) = logs_of(when, "--stacks", "none")
    assert len(allocations(run_gpumem, log)) == count


def test_a_child_forked_while_another_thread_opens_the_file_has_its_own(logs_of, run_gpumem):
    logs = logs_of("fork while opening")
    assert [len(allocations(run_gpumem, log)) for log in logs] == [1, 1]


def test_a_signals_handler_may_allocate_while_its_thread_ends(logs_of):
    logs_of("interrupted at its end", "--stacks", "none")


def test_children_forked_after_the_recording_was_stopped_are_not_recorded(logs_of):
    assert len(logs_of("fork after stop")) == 1


def test_such_a_child_is_recorded_from_when_it_is_attached_to(logs_of, run_gpumem):
    logs = logs_of("start after stop")
    assert [len(allocations(run_gpumem, log)) for log in logs] == [1, 2]


def test_a_process_without_address_space_is_not_said_to_have_a_full_disk(logs_of, run_gpumem):
    (log,) = logs_of("no addresses", "--stacks", "none")
    (gap,) = [gap for gap in info_of(run_gpumem, log)["gaps"] if "unrecorded" in gap]
    assert "disk" not in gap and "could not be mapped" in gap


def test_a_child_forked_by_a_thread_has_native_stacks(logs_of, run_gpumem):
    (log,) = logs_of("thread forks first")
    (event,) = allocations(run_gpumem, log)
    assert [frame["function"] for frame in event["native"][:2]] == ["allocate", "fork_and_allocate"], event["native"]


def test_the_thread_that_forked_keeps_its_own_cache_when_another_begins(logs_of, run_gpumem):
    _, log = logs_of("thread of the child")
    events = allocations(run_gpumem, log)
    assert [event["native"][1]["function"] for event in events] == ["allocate_once", "allocate_in_childs_thread"]
    process = int(log.name.removeprefix("run.gpumem."))
    assert [event["thread"] == process for event in events] == [False, True]


FORKS_AND_STEPS = """
import os
import torch
weight = torch.ones(10, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1, foreach=False)
weight.sum().backward()
torch.ones(10, device="cuda")
child = os.fork()
if not child:
    optimizer.step()
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_a_forked_child_that_only_steps_an_optimizer_ends_as_usual(run_gpumem, tmp_path):
    finished = run_gpumem("run", "--sim", "-o", tmp_path / "run.gpumem", "--", PYTHON, "-c", FORKS_AND_STEPS).check()
    assert finished.out == "0\n"
