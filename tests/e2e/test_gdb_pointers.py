"""In a frame of C, C++ or CUDA a pointer names the block that it points to."""

import subprocess

LIBRARY = """
struct batch { float *data; unsigned long n; };
float *function(void) { return (float *)1; }
void scale(float *to, struct batch *whole, unsigned long n) { (void)to; (void)whole; (void)n; }
"""
PROGRAM = """
import ctypes, sys, torch
library = ctypes.CDLL(sys.argv[1])
class Batch(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("n", ctypes.c_ulong)]
class Cache:
    def __init__(self):
        self.kept = torch.zeros(300_000, device="cuda")
cache, given = Cache(), torch.ones(1000, device="cuda")
whole = Batch(given.data_ptr(), 1000)
library.scale(ctypes.c_void_p(cache.kept.data_ptr()), ctypes.byref(whole), ctypes.c_ulong(5))
"""


def test_a_pointer_of_the_selected_frame_names_its_block(run_gdb, tmp_path):
    (tmp_path / "scale.c").write_text(LIBRARY)
    library, program = tmp_path / "libscale.so", tmp_path / "program.py"
    subprocess.run(["cc", "-g", "-O0", "-shared", "-fPIC", "-o", library, tmp_path / "scale.c"], check=True)
    program.write_text(PROGRAM)
    asked = ["gpumem who-holds to", "gpumem who-holds whole->data", "gpumem who-holds n", "gpumem who-holds function", "gpumem who-holds whole.data[0]", "gpumem why to"]
    gdb = run_gdb(["set breakpoint pending on", "break scale", "gpumem record", "run", *asked], program, args=[library])
    assert "attribute 'kept' of Cache: global 'cache' of module __main__ (program.py)" in gdb["gpumem who-holds to"]
    assert "global 'given' of module __main__ (program.py)" in gdb["gpumem who-holds whole->data"]  # not the Python variable's own
    for word in ("n", "function", "whole.data[0]"):
        assert gdb[f"gpumem who-holds {word}"].startswith(f"gpumem: {word}: no ")
    assert "1,200,128 bytes" in gdb["gpumem why to"]
