"""NCCL on the simulated device: collectives between real processes that torchrun starts, and what goes wrong in them."""

import sys
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def test_collectives_between_two_processes_give_the_right_values(run_gpumem):
    run = run_gpumem(
        *("run", "--sim=h100-80gbx2", "--", *TORCHRUN, "--standalone", "--nproc-per-node", "2"),
        PROGRAMS / "sim_nccl.py",
        timeout=180,
    ).check()
    ranks = sorted(run.json_lines(), key=lambda facts: facts["rank"])
    assert [facts.pop("rank") for facts in ranks] == [0, 1]
    for facts in ranks:
        assert facts.pop("wrong") == []
        assert facts and all(facts.values()), facts
