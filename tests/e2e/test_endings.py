"""What the tests' own environment does where a program ends (programs/environment)."""

import sys

from conftest import PYTHON, run_process

# A thread with the name of the engine's, still at work when the program's last line is over.
PROGRAM = """
import ctypes, sys, threading, time

def work():
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)  # PR_SET_NAME
    named.set()
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    print("at rest", flush=True)
    time.sleep(60)

name = sys.argv[1].encode()
if sys.argv[2] == "torch":
    sys.modules["torch"] = sys
named = threading.Event()
threading.Thread(target=work, daemon=True).start()
named.wait()
"""


def end(*words):
    return run_process([sys.executable, "-c", PROGRAM, *words]).check().out


def test_a_program_ends_when_the_autograd_engines_threads_are_idle():
    assert end("pt_autograd_0", "torch") == "at rest\n"


def test_another_thread_or_a_program_without_pytorch_is_not_waited_for():
    assert end("other", "torch") == end("pt_autograd_0", "none") == ""


def test_the_collector_waits_for_pytorchs_import_alone():
    """It is as the program left it, before and after."""
    program = """
import gc
ran = []
gc.callbacks.append(lambda phase, about: ran.append(phase))
import torch
import torch._dynamo
during = len(ran)
print(during, gc.isenabled())
gc.collect()
print(len(ran) - during)
"""
    during, enabled, after = run_process([PYTHON, "-c", program]).check().out.split()
    assert int(during) < 30 and (enabled, after) == ("True", "2")  # what is between the two; hundreds without this
    again = "import gc; gc.disable(); import torch; print(gc.isenabled())"
    assert run_process([PYTHON, "-c", again]).check().out == "False\n"
