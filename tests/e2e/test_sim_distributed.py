"""Programs of several processes or devices on the simulated device: values against gloo, memory against theory, failures."""

import json
import os
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
MIB = 1 << 20
# PyTorch's watchdog, told not to wait a minute for other ranks' flight records.
# From 2.15 on, TORCH_FR_DUMP_ON_TIMEOUT.
ENV = {**os.environ, "TORCH_NCCL_DUMP_ON_TIMEOUT": "0", "TORCH_FR_DUMP_ON_TIMEOUT": "0", "TORCH_NCCL_ENABLE_MONITORING": "0"}


def ranks_of(run):
    """What each rank printed; two may stand on one line."""
    found, at = [], run.out.find('{"rank"')
    while at >= 0:
        facts, at = json.JSONDecoder().raw_decode(run.out, at)
        found.append(facts)
        at = run.out.find('{"rank"', at)
    return sorted(found, key=lambda facts: facts["rank"])


@pytest.fixture
def two_ranks(run_gpumem):
    def start(program, *arguments, options=(), **keys):
        keys.setdefault("timeout", 600)
        keys.setdefault("env", ENV)
        return run_gpumem("run", "--sim=h100-80gbx2", *options, "--", *TORCHRUN, PROGRAMS / program, *arguments, **keys)

    return start


@pytest.mark.long
def test_ddp_averages_gradients_and_shares_weights_as_gloo_does_on_the_cpu(two_ranks):
    # Cast, scale and concatenation must be computed here, whatever their size.
    simulated = ranks_of(two_ranks("sim_ddp.py", "nccl", options=["--compute-below", "1GiB"]).check())
    real = ranks_of(two_ranks("sim_ddp.py", "gloo").check())
    assert len(simulated) == 2 and simulated == real


@pytest.mark.long
def test_fsdp2_shards_and_gathers(two_ranks):
    ranks = ranks_of(two_ranks("sim_fsdp2.py", options=["--compute-below", "1GiB"]).check())
    assert len(ranks) == 2
    for facts in ranks:
        whole = facts["parameters"] * 4
        assert facts["gathered"] is True
        assert facts["sharded"] == whole // 2
        assert facts["states"] == 2 * (whole // 2)
        assert facts["peak"] >= whole // 2 * 4
        # A context and NCCL's own share in this process, a context and a share on the other's device.
        assert 500 * MIB < facts["outside"] < 900 * MIB


@pytest.mark.long
@pytest.mark.parametrize(("kind", "share"), [("ddp", 1.0), ("fsdp1", 0.5), ("fsdp2", 0.5)])
def test_trainer_holds_parameters_gradients_and_states(two_ranks, tmp_path, kind, share):
    pytest.importorskip("transformers", reason="the script is transformers'")
    pytest.importorskip("accelerate", reason="Trainer needs it")
    found = ranks_of(two_ranks("sim_trainer.py", kind, env={**ENV, "TMPDIR": str(tmp_path)}).check())
    assert len(found) == 2
    for facts in found:
        assert facts["steps"] == 3
        states = 2 * 4 * facts["parameters"] * share
        weights = 4 * facts["parameters"] * share
        assert facts["allocated"] >= states + weights
        # Beside them at most the gradients, whole, and what is gathered.
        assert facts["allocated"] < states + weights + 2.2 * 4 * facts["parameters"]
        assert facts["reserved"] < facts["used"] < facts["reserved"] + 900 * MIB


@pytest.mark.long
@pytest.mark.parametrize(("kind", "share"), [("ddp", 1.0), ("fsdp1", 1 / 1024), ("fsdp2", 1 / 1024)])
def test_trainer_runs_as_one_rank_of_1024(run_gpumem, tmp_path, kind, share):
    pytest.importorskip("transformers", reason="the script is transformers'")
    pytest.importorskip("accelerate", reason="Trainer needs it")
    command = ["run", "--sim", "--rank", "3", "--world", "1024", "--", sys.executable, PROGRAMS / "sim_trainer.py", kind]
    (facts,) = ranks_of(run_gpumem(*command, env={**ENV, "TMPDIR": str(tmp_path)}).check())
    assert facts["rank"] == 3 and facts["steps"] == 3
    kept = 12 * facts["parameters"] * share  # a weight and two states in fp32
    assert kept <= facts["allocated"] < kept + 2.2 * 4 * facts["parameters"]


@pytest.mark.parametrize(("rank", "world"), [(1, 2), (3, 1024), *(pytest.param(*more, marks=pytest.mark.long) for more in ((0, 2), (2, 5)))])
def test_a_gather_of_one_rank_alone_has_its_data_in_every_place(run_gpumem, rank, world):
    command = ["run", "--sim", "--no-record", f"--rank={rank}", f"--world={world}", "--", sys.executable, PROGRAMS / "sim_alone_gathers.py"]
    (facts,) = ranks_of(run_gpumem(*command, env=ENV).check())
    assert facts["listed"] == facts["whole"] == [[5, 6, 7]] * world
    assert facts["uneven"][rank] == [5, 6, 7] and all(len(part) == 2 for other, part in enumerate(facts["uneven"]) if other != rank)
    assert facts["owned"] == [[10 + other] * 3 for other in range(world)]
    assert facts["gradients"] == 2


@pytest.mark.long
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_trainer_under_deepspeed_runs_to_its_end(two_ranks, tmp_path, stage):
    pytest.importorskip("transformers", reason="the script is transformers'")
    pytest.importorskip("deepspeed", reason="ZeRO is DeepSpeed's; pip install deepspeed")
    found = ranks_of(two_ranks("sim_trainer.py", f"zero{stage}", env={**ENV, "TMPDIR": str(tmp_path)}).check())
    assert [facts["steps"] for facts in found] == [3, 3]
    for facts in found:
        # bf16 weights, 2 bytes a parameter, of which stage 3 keeps half; a copy in fp32 and two states, 12 bytes, halved.
        share = (1 if stage == 3 else 2) + 12 / 2
        assert facts["allocated"] >= share * facts["parameters"]
        # One rank without ZeRO would have 16 with its gradients. Gradients and buckets here stay below that.
        assert facts["allocated"] < 16 * facts["parameters"]
        assert facts["reserved"] < facts["used"] < facts["reserved"] + 900 * MIB


@pytest.mark.long
def test_two_ranks_on_one_device_are_refused(two_ranks):
    run = two_ranks("sim_nccl_wrong.py", "duplicate")
    assert run.status != 0
    assert "Duplicate GPU detected" in run.err


@pytest.mark.long
def test_collectives_that_do_not_match_are_distinguished(two_ranks):
    run = two_ranks("sim_nccl_wrong.py", "mismatch")
    assert run.status != 0
    assert "rank 1 called ncclAllReduce of 5 elements" in run.err
    # until 2.14, and from 2.15 on
    assert "NCCL error: invalid usage" in run.err or "nccl hit async error: invalid usage" in run.err


@pytest.mark.long
def test_a_rank_that_comes_too_late_is_pytorch_s_timeout(two_ranks):
    run = two_ranks("sim_nccl_wrong.py", "late")
    assert run.status != 0
    # until 2.14, and from 2.15 on
    assert "Watchdog caught collective operation timeout" in run.err or "watchdog detected operation timeout" in run.err


def test_two_devices_in_one_process_and_their_counts(run_gpumem):
    run = run_gpumem("run", "--sim=a100-40gbx2", "--", sys.executable, PROGRAMS / "sim_two.py").check()
    facts = run.json()
    assert facts["count"] == 2 and facts["peaks"] == [True, True]
    assert facts["out"] == ["cuda:0", [64, 512]]
    assert facts["moved"] is True
    # What the device counts beyond PyTorch: the context, and NCCL's share once DataParallel has a communicator.
    outside = [beyond for beyond, _ in facts["agree"]]
    assert outside[0] == outside[1] < outside[2]
    assert len(set(outside[2:])) == 1
