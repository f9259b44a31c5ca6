"""Whose memory of a device counts, on one of 1 GiB with contexts of 100 MiB: after exec(), and in a child of a process that found no room."""

import ctypes
import json
import os
import subprocess
import sys

cuda = ctypes.CDLL(None)
MIB = 1 << 20


def take(mib):
    return cuda.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(mib * MIB))


def free():
    left, total = ctypes.c_size_t(), ctypes.c_size_t()
    code = cuda.cudaMemGetInfo(ctypes.byref(left), ctypes.byref(total))
    return left.value // MIB if code == 0 else -code


def other(*words):
    """This program, in another part, when it has done its work."""
    child = subprocess.Popen([sys.executable, __file__, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "taken\n"
    return child


def end(child):
    child.stdin.close()
    child.wait()


def held():
    """Until the input ends; the words before it say that it has begun."""
    print("taken", flush=True)
    sys.stdin.read()


part = sys.argv[1] if len(sys.argv) > 1 else "all"
if part == "holds":
    assert take(int(sys.argv[2])) == 0
    held()
elif part == "becomes":  # a program without CUDA, of the same process
    assert take(int(sys.argv[2])) == 0
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} if sys.argv[3] == "bare" else os.environ
    os.execve("/bin/sh", ["sh", "-c", "echo taken; read line"], environment)
else:
    facts = {}
    hog = other("holds", "850")
    facts["no_room"] = take(1) != 0
    end(hog)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.write(ready[1], b"%d" % take(500))
        os.read(go[0], 1)
        os._exit(0)
    facts["child"] = os.read(ready[0], 10).decode()
    facts["beside_child"] = free()
    os.write(go[1], b"1")
    os.waitpid(child, 0)
    facts["alone"] = free()
    for how in ("bare", "preloaded"):
        became = other("becomes", "500", how)
        facts[how] = free()
        end(became)
    holder = other("holds", "300")
    facts["beside_holder"] = free()
    end(holder)
    print(json.dumps(facts))
