"""CUDA's memory calls on the simulated device, from a C program that knows no PyTorch."""

import os
import re
import sys
from pathlib import Path

import pytest
from conftest import BUILD, ROOT
from test_sim import SITE
from test_sim_bad_input import compile_c

PROGRAMS = Path(__file__).parent / "programs"
SOURCE = PROGRAMS / "sim_memory.c"


def build(folder, source=SOURCE):
    include = next((p for p in (SITE / "nvidia/cu13/include", Path("/usr/local/cuda/include")) if p.is_dir()), None)
    if not include:
        pytest.skip("CUDA 13's headers are not installed with this torch")
    headers = ("-I", PROGRAMS, "-isystem", include, "-isystem", ROOT / "core/sim/cuda/headers")
    return compile_c(folder, source.read_text(), *headers, BUILD / "lib/libgpumem-sim.so")


def test_memory_is_counted_for_who_holds_it(run_gpumem):
    environment = {**os.environ, "GPUMEM_SIM_CONTEXT": "100"}
    run = run_gpumem("run", "--sim=1GiB", "--no-record", "--", sys.executable, PROGRAMS / "sim_shares.py", env=environment)
    alone = 1024 - 100
    assert run.check().out.json() == {
        "no_room": True,
        "child": "0",
        "beside_child": alone - 600,
        "alone": alone,
        "bare": alone,
        "preloaded": alone,
        "beside_holder": alone - 400,
    }


def test_every_memory_call_does_what_the_documentation_says(run_gpumem, tmp_path):
    environment = {**os.environ, "GPUMEM_SIM_CONTEXT": "100"}
    finished = run_gpumem("run", "--sim=1GiBx2", "--", build(tmp_path), env=environment)
    assert re.fullmatch(r"\d{3} hold, 0 do not\n", finished.out)
    finished.check()
    assert "not simulated" not in finished.err.replace("not simulated: 0 calls", "")
