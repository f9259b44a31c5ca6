"""The simulated devices there are: each profile's figures as CUDA tells them, and several in one process."""

from pathlib import Path

import pytest
from conftest import BUILD, PYTHON

PROGRAMS = Path(__file__).parent / "programs"

ASK = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
value, total, free = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
def attribute(n):
    return [lib.cudaDeviceGetAttribute(ctypes.byref(value), n, 0), value.value][1]
lib.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
can = [lib.cudaDeviceCanAccessPeer(ctypes.byref(value), 0, 1), value.value][1]
facts = {"total": total.value, "used": total.value - free.value, "capability": [attribute(75), attribute(76)],
    "sms": attribute(16), "threads": attribute(39), "l2": attribute(38), "shared": attribute(97), "peer": can,
    "atomics": [lib.cudaDeviceGetP2PAttribute(ctypes.byref(value), 3, 0, 1), value.value][1],
    "enable": [lib.cudaDeviceEnablePeerAccess(1, 0), lib.cudaDeviceEnablePeerAccess(1, 0)]}
json.dump(facts, sys.stdout)
"""
MIB, GIB = 1 << 20, 1 << 30


# As NVIDIA's documents have them: the architectures' tuning guides and the boards' data sheets.
@pytest.mark.parametrize(
    ("profile", "gib", "capability", "sms", "threads", "l2", "shared", "peer", "atomics"),
    [
        ("h100-80gb", 79, [9, 0], 132, 2048, 50 * MIB, 227, 1, 1),
        ("h200-141gb", 139, [9, 0], 132, 2048, 60 * MIB, 227, 1, 1),
        ("a100-80gb", 79, [8, 0], 108, 2048, 40 * MIB, 163, 1, 1),
        ("a100-40gb", 39, [8, 0], 108, 2048, 40 * MIB, 163, 1, 1),
        ("l4-24gb", 21, [8, 9], 58, 1536, 48 * MIB, 99, 1, 0),
        ("rtx4090-24gb", 23, [8, 9], 128, 1536, 72 * MIB, 99, 0, 0),
        ("t4-16gb", 14, [7, 5], 40, 1024, 4 * MIB, 64, 1, 0),
    ],
)
def test_a_profile_s_figures(run_gpumem, profile, gib, capability, sms, threads, l2, shared, peer, atomics):
    library = BUILD / "lib/libgpumem-sim.so"
    facts = run_gpumem("run", f"--sim={profile}x2", "--", PYTHON, "-c", ASK, library).check().out.json()
    assert facts["total"] // GIB == gib
    assert 100 * MIB <= facts["used"] < 600 * MIB
    assert facts["capability"] == capability
    assert (facts["sms"], facts["threads"], facts["l2"]) == (sms, threads, l2)
    assert facts["shared"] == shared * 1024
    assert (facts["peer"], facts["atomics"]) == (peer, atomics)
    # Enabled once, refused the second time; a GeForce refuses at all.
    assert facts["enable"] == ([0, 704] if peer else [217, 217])


@pytest.mark.parametrize(("profile", "peer"), [("a100-40gb", True), ("rtx4090-24gb", False)])
def test_two_devices_have_memory_of_their_own_and_copy_to_each_other(run_gpumem, profile, peer):
    facts = run_gpumem("run", f"--sim={profile}x2", "--", PYTHON, PROGRAMS / "sim_two_devices.py").check().out.json()
    assert facts["count"] == 2 and facts["names"][0] == facts["names"][1]
    assert facts["peers"] == [peer, peer]
    assert facts["copied"] and facts["back"]
    assert facts["part"] == list(range(1000, 1010))
    assert facts["where"] == "cuda:1"
    assert facts["reserved"] == [22 * MIB, 20 * MIB]
    assert facts["free"][0] - facts["free"][1] >= GIB - 40 * MIB


SORTED = """
import json, torch
w = torch.zeros(1000, 8, device="cuda", requires_grad=True)
ids = torch.tensor([[3, 1], [3, 999]], device="cuda")
w[ids, :].sum().backward()  # by a sort of CUB's
print(json.dumps({"grad": list(w.grad.shape), "unique": torch.tensor([3, 1, 3], device="cuda").unique().tolist()}))
"""


# An L4 and an RTX 4090 (8.9) run what was compiled for 8.6: PyTorch's wheels have nothing of their own for them.
@pytest.mark.parametrize(
    "profile",
    ["l4-24gb", *(pytest.param(name, marks=pytest.mark.long) for name in ("t4-16gb", "a100-40gb", "rtx4090-24gb"))],
)
def test_code_for_another_architecture_is_found_as_on_a_gpu(run_gpumem, profile):
    run = run_gpumem("run", f"--sim={profile}", "--", PYTHON, "-c", SORTED).check()
    assert run.out.json() == {"grad": [1000, 8], "unique": [1, 3]}
