"""Collectives in a recording: each call of NCCL that a program makes, with its bytes, place and order, as the program logs it."""

import json
import os

import pytest
from conftest import BUILD, PYTHON, ROOT, run_process

GPUMEM = BUILD / "bin" / "gpumem"
PROGRAM = ROOT / "tests" / "e2e" / "programs" / "collectives.py"
COMMON = ("kind", "dtype", "peer", "ranks", "send_bytes", "receive_bytes", "step")


def record(folder, seed, options, launcher=()):
    out, told = folder / "run.%r.gpumem", folder / "told.%r.json"
    command = [GPUMEM, "run", *options, "-o", out, "--", PYTHON, *launcher, PROGRAM, told, seed]
    run = run_process(list(map(str, command)), env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=900)
    assert run.status == 0, run.err
    return out, told


def ask(*arguments):
    run = run_process([str(GPUMEM), *map(str, arguments)])
    assert run.status == 0, run.err
    return run.out


def calls(recording):
    return [json.loads(line) for line in ask("events", recording, "--collectives", "--json").splitlines()]


def own(recorded):
    """Those that the program makes itself: not those of DistributedDataParallel's constructor, and of its buckets' sizes."""
    return [call for call in recorded if call["place"] and call["place"]["function"] in ("call", "reduce") and call["place"]["file"].endswith("collectives.py")]


def wrong_in(recorded, told):
    wrong = []
    if len(recorded) != len(told):
        wrong.append((len(recorded), len(told)))
    for call, true in zip(recorded, told):
        if any(call[key] != true[key] for key in COMMON):
            wrong.append((call, true))
        # a buffer of the program is at the address that the program logs
        for side in ("send", "receive"):
            if true[side] and true[side + "_bytes"] and int(call[side], 16) != true[side]:
                wrong.append((side, call, true))
        if true["phase"] and call["phase"] != true["phase"]:
            wrong.append(("phase", call, true))
    return wrong


@pytest.fixture(scope="module", params=[pytest.param((0, 2, 3), id="rank 0 of 2", marks=pytest.mark.long), pytest.param((3, 5, 8), id="rank 3 of 5")])
def one_rank(request, tmp_path_factory):
    rank, world, seed = request.param
    options = [f"--sim=h100-80gbx{world}", "--rank", str(rank), "--world", str(world)]
    out, told = record(tmp_path_factory.mktemp("one"), seed, options)
    name = out.with_name(out.name.replace("%r", str(rank)))
    return name, json.loads(told.with_name(told.name.replace("%r", str(rank))).read_text())


def test_each_call_is_recorded_as_the_program_made_it(one_rank):
    recording, told = one_rank
    assert len(told) > 10 and {true["phase"] for true in told} == {"forward", "backward", "optimizer", None}
    assert wrong_in(own(calls(recording)), told) == []


def test_a_call_is_between_the_events_that_its_time_implies(one_rank):
    recording, _ = one_rank
    times = [json.loads(line)["time_us"] for line in ask("events", recording, "--json").splitlines()]
    for call in calls(recording):
        assert times[call["after_event"]] <= call["time_us"]
        assert call["after_event"] + 1 == len(times) or call["time_us"] <= times[call["after_event"] + 1]


def test_a_buffer_is_the_block_at_its_address(one_rank):
    recording, _ = one_rank
    events = [json.loads(line) for line in ask("events", recording, "--json").splitlines()]
    found = 0
    for call in own(calls(recording)):
        for side in ("send", "receive"):
            if call[side + "_block"] is not None:
                event = events[call[side + "_block"]]
                assert (event["action"], event["address"]) == ("alloc", call[side])
                assert event["size"] >= call[side + "_bytes"]
                found += 1
    assert found > 10


def test_zero_and_timeline_of_a_recording_sum_the_calls_up(one_rank):
    recording, _ = one_rank
    each, sums = calls(recording), json.loads(ask("zero", recording, "--json"))
    assert sums["calls"] == len(each) == sum(group["calls"] for group in sums["collectives"])
    for key in ("send_bytes", "receive_bytes"):
        assert sum(call[key] for call in each) == sum(group[key] for group in sums["collectives"])
    assert json.loads(ask("timeline", recording, "--json"))["collectives"] == sums["collectives"]
    text, step = ask("zero", recording), next(group for group in sums["collectives"] if group["step"])
    assert f"{len(each)} calls of NCCL" in text and f"{step['phase']}  " in text
    assert "step 2 calls NCCL: " in ask("timeline", recording)


def test_ranks_of_one_job_record_the_same_calls_each_for_itself(tmp_path):
    out, told = record(tmp_path, 11, ["--sim=h100-80gbx2"], ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"])
    ranks = []
    for rank in ("0", "1"):
        recorded = own(calls(tmp_path / out.name.replace("%r", rank)))
        assert wrong_in(recorded, json.loads((tmp_path / told.name.replace("%r", rank)).read_text())) == []
        assert {call["rank"] for call in recorded} == {int(rank)}
        ranks.append([(call["kind"], call["count"], call["dtype"], call["group"]) for call in recorded])
    assert ranks[0] == ranks[1] and len(ranks[0]) > 10


def test_a_recording_without_collectives_says_so(tmp_path):
    out = tmp_path / "run.gpumem"
    run = run_process([str(GPUMEM), "run", "--sim", "-o", str(out), "--", str(PYTHON), "-c", "import torch; torch.ones(9, device='cuda')"])
    assert run.status == 0, run.err
    assert "The recording has no collectives" in ask("zero", out) and ask("events", out, "--collectives", "--json") == ""
    assert json.loads(ask("zero", out, "--json")) == {"calls": 0, "collectives": []}


ENGINE = '''
import torch.distributed as dist


class Engine:
    def backward(self, loss, gradient):
        loss.backward()
        dist.all_reduce(gradient)

    def step(self, parameter):
        dist.all_reduce(parameter)

    def save(self, parameter):
        dist.all_reduce(parameter)
'''

DRIVEN = '''
import os
import torch
import torch.distributed as dist
from deepspeed.runtime.engine import Engine
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
weight = torch.ones(64, device="cuda", requires_grad=True)
engine = Engine()
for _ in range(3):
    engine.backward((weight * 2).sum(), torch.ones(64, device="cuda"))
    engine.step(weight.detach())
engine.save(weight.detach())
'''


def test_what_deepspeeds_engine_moves_around_backward_and_step_belongs_to_them(tmp_path):
    """A stand-in for DeepSpeed, which reduces in its own backward(), after PyTorch's, and gathers in its step()."""
    runtime = tmp_path / "deepspeed" / "runtime"
    runtime.mkdir(parents=True)
    (runtime / "engine.py").write_text(ENGINE)
    for folder in (runtime, runtime.parent):  # else an installed DeepSpeed is imported
        (folder / "__init__.py").touch()
    (tmp_path / "driven.py").write_text(DRIVEN)
    out = tmp_path / "run.gpumem"
    ask("run", "--sim=h100-80gbx2", "--rank=0", "--world=2", "-o", out, "--", PYTHON, tmp_path / "driven.py")
    assert [call["phase"] for call in calls(out)][-7:] == ["backward", "optimizer"] * 3 + ["other"]
