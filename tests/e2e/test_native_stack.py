"""Native stacks of a real Python and PyTorch program, read from outside by core/image and core/symbols."""

import re
import shutil
import subprocess

import pytest

PROGRAM = """
import ctypes, sys, time
import torch

CALLBACK = ctypes.CFUNCTYPE(None)
library = ctypes.CDLL(sys.argv[1]) if len(sys.argv) > 1 else None


class Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        if library:
            library.wait_through(CALLBACK(wait))
        else:
            wait()
        return gradient


def wait():
    print("ready", flush=True)
    time.sleep(600)


Wait.apply(torch.ones(3, requires_grad=True)).sum().backward()
"""

EXTENSION = """
typedef void (*callback)();
template <class T> __attribute__((noinline)) int call_it(T f)
{
	f();
	return 1;
}
extern "C" int wait_through(callback f)
{
	return call_it(f) + 1;
}
"""


@pytest.fixture
def stacks(build_dir, gdb_works, python, spawn, tmp_path):
    """stacks(*args) -> {thread: [(function, module, file, line)]} of the program above, standing in backward()."""

    def read(*args):
        program = tmp_path / "program.py"
        program.write_text(PROGRAM)
        process = spawn([python, program, *args], stdout=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"
        tool = build_dir / "tests" / "native_stack"
        done = subprocess.run([tool, str(process.pid)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        threads = {}
        for line in done.stdout.splitlines():
            thread, function, module, source = line.split(" ", 3)
            file, number = source.rsplit(":", 1)
            threads.setdefault(int(thread), []).append((function, module, file, int(number)))
        return process.pid, threads

    return read


def test_a_backward_stack_goes_through_torch_down_to_start(stacks):
    pid, threads = stacks()
    functions = [frame[0] for frame in threads[pid]]
    modules = [frame[1] for frame in threads[pid]]
    assert functions[-1] == "_start", functions
    assert "libtorch_cpu.so" in modules and "libtorch_python.so" in modules
    assert any(re.search("torch8autograd6Engine17evaluate_function", function) for function in functions), functions
    assert "_PyEval_EvalFrameDefault" in functions


def test_every_threads_stack_ends_where_threads_begin(stacks):
    pid, threads = stacks()
    assert pid in threads and len(threads) > 1
    for thread, frames in threads.items():
        assert frames[-1][0] == "_start" if thread == pid else frames[-1][1] == "libc.so.6", frames


def test_a_users_extension_built_with_g_has_names_and_lines(stacks, tmp_path):
    if not shutil.which("c++"):
        pytest.skip("no C++ compiler on this machine")
    source = tmp_path / "extension.cpp"
    source.write_text(EXTENSION)
    library = tmp_path / "libextension.so"
    subprocess.run(["c++", "-g", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    pid, threads = stacks(library)
    frames = {frame[0]: frame for frame in threads[pid]}
    lines = EXTENSION.splitlines()
    assert frames["_Z7call_itIPFvvEEiT_"][1:3] == ("libextension.so", str(source))
    assert lines[frames["_Z7call_itIPFvvEEiT_"][3] - 1] == "\tf();"
    assert lines[frames["wait_through"][3] - 1] == "\treturn call_it(f) + 1;"
    assert threads[pid][-1][0] == "_start"
