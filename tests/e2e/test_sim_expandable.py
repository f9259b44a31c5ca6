"""Expandable segments on the simulated device: the virtual-memory calls really map, and the counts agree."""

from pathlib import Path

import pytest
from conftest import BUILD, PYTHON

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def ran(run_gpumem):
    return run_gpumem("run", "--sim=1GiB", "--", PYTHON, PROGRAMS / "sim_expandable.py").check()


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("round_trip", True),
        ("part", True),
        ("device_to_device", True),
        ("copy_between_pieces", True),
        ("seen_at_the_address", True),
        ("named", True),
        ("expandable", [True]),
        ("one_large_segment", 1),
        ("segments_are_reserved", True),
        ("device_counts_reserved", True),
        ("after_empty_cache", True),
        ("mapped", 7),
        ("unmapped", 2),
        ("alloced_by_segment", 0),
        ("trace_adds_up", True),
        ("after_oom", 500 << 20),
        ("zero_on_reuse", 0),
        ("all_given_back", True),
    ],
)
def test_an_expandable_segment(ran, fact, expected):
    assert ran.out.json()[fact] == expected


def test_out_of_memory_is_pytorch_s_own_error(ran):
    assert "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 1024.00 MiB" in ran.out.json()["oom"]
    assert "out-of-memory errors 1" in ran.err


def test_functions_that_pytorch_only_looks_up_are_not_reported(ran):
    assert "lacks it" not in ran.err


CALLS = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
class Prop(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int), ("id", ctypes.c_int),
        ("win32", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]
class Access(ctypes.Structure):
    _fields_ = [("location", ctypes.c_int), ("id", ctypes.c_int), ("flags", ctypes.c_int)]
u64, P = ctypes.c_uint64, 2 << 20
prop, access = Prop(1, 0, 1, 0), Access(1, 0, 3)
def reserve(size):
    at = u64()
    return lib.cuMemAddressReserve(ctypes.byref(at), u64(size), u64(0), u64(0), u64(0)), at
def create(size, prop=prop):
    handle = u64()
    return lib.cuMemCreate(ctypes.byref(handle), u64(size), ctypes.byref(prop), u64(0)), handle
def map(at, size, handle, offset=0):
    return lib.cuMemMap(u64(at.value), u64(size), u64(offset), handle, u64(0))
def copy(at, size):
    return lib.cudaMemcpy(u64(at), ctypes.create_string_buffer(size), u64(size), 1)
def free():
    a, b = u64(), u64()
    lib.cudaMemGetInfo(ctypes.byref(a), ctypes.byref(b))
    return a.value
facts, start = {}, free()
code, at = reserve(8 * P)
facts["reserve"] = [code, at.value % P, reserve(100)[0], free() - start]
code, handle = create(2 * P)
facts["create"] = [code, free() - start == -2 * P, create(100)[0], create(1 << 40)[0], create(P, Prop(1, 8, 1, 0))[0],
    create(P, Prop(1, 0, 1, 7))[0]]
facts["copy_before_map"] = copy(at.value, 16)
facts["map"] = [map(at, 2 * P, handle), map(at, 2 * P, handle), map(u64(at.value + 7 * P), 2 * P, handle),
    map(at, P, u64(12345)), map(at, P, handle, 2 * P)]
facts["copy_before_access"] = copy(at.value, 16)
facts["access"] = [lib.cuMemSetAccess(at, u64(2 * P), ctypes.byref(access), u64(1)),
    lib.cuMemSetAccess(at, u64(3 * P), ctypes.byref(access), u64(1))]
facts["copy"] = [copy(at.value, 2 * P), copy(at.value + 2 * P - 8, 16)]
facts["free_of_it"] = lib.cudaFree(at)
facts["reservation_in_use"] = lib.cuMemAddressFree(at, u64(8 * P))
facts["release"] = [lib.cuMemRelease(handle), lib.cuMemRelease(handle), free() - start == -2 * P]
facts["unmap"] = [lib.cuMemUnmap(at, u64(P)), lib.cuMemUnmap(at, u64(2 * P)), lib.cuMemUnmap(at, u64(2 * P)),
    free() == start]
facts["copy_after_unmap"] = copy(at.value, 16)
facts["address_free"] = [lib.cuMemAddressFree(at, u64(P)), lib.cuMemAddressFree(at, u64(8 * P)),
    lib.cuMemAddressFree(at, u64(8 * P))]
fd = ctypes.c_int()
facts["export"] = lib.cuMemExportToShareableHandle(ctypes.byref(fd), handle, 1, u64(0))
json.dump(facts, sys.stdout)
"""


@pytest.fixture(scope="module")
def calls(run_gpumem):
    return run_gpumem("run", "--sim=1GiB", "--", PYTHON, "-c", CALLS, BUILD / "lib/libgpumem-sim.so").check()


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("reserve", [0, 0, 1, 0]),
        ("create", [0, True, 1, 2, 801, 101]),
        ("copy_before_map", 1),
        ("map", [0, 1, 1, 1, 1]),
        ("copy_before_access", 1),
        ("access", [0, 1]),
        ("copy", [0, 1]),
        ("free_of_it", 1),
        ("reservation_in_use", 1),
        ("release", [0, 1, True]),
        ("unmap", [1, 0, 1, True]),
        ("copy_after_unmap", 1),
        ("address_free", [1, 0, 1]),
        ("export", 1),  # of a handle that was released
    ],
)
def test_a_virtual_memory_call_answers(calls, fact, expected):
    assert calls.out.json()[fact] == expected
