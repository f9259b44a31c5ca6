"""NCCL on the simulated device: between real processes, for one rank of a thousand, and memory that processes share."""

import os
import sys
from pathlib import Path

import pytest
from test_sim_memory import build

PROGRAMS = Path(__file__).parent / "programs"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
GIB, MIB = 1 << 30, 1 << 20


def test_collectives_between_two_processes_give_the_right_values(run_gpumem):
    run = run_gpumem("run", "--sim=h100-80gbx2", "--", *TORCHRUN, PROGRAMS / "sim_nccl.py").check()
    ranks = sorted(run.json_lines(), key=lambda facts: facts["rank"])
    assert [facts.pop("rank") for facts in ranks] == [0, 1]
    for facts in ranks:
        assert facts.pop("wrong") == []
        assert facts and all(facts.values()), facts


def test_communicators_of_one_rank_leave_no_descriptor(run_gpumem, tmp_path):
    finished = run_gpumem("run", "--sim=1GiB", "--no-record", "--", build(tmp_path, PROGRAMS / "sim_nccl_one.c"))
    assert finished.check().out == "0 0\n"


def test_a_kernel_that_is_not_computed_waits_for_no_collective(run_gpumem):
    run = run_gpumem("run", "--sim=h100-80gbx2", "--", *TORCHRUN, PROGRAMS / "sim_nccl_late.py", timeout=120).check()
    ranks = sorted(run.json_lines(), key=lambda facts: facts["rank"])
    assert [facts["few"] for facts in ranks] == [[5.0] * 4] * 2
    assert run.err.count("never computed") == 2  # what the large kernel would have changed


@pytest.mark.long  # PyTorch takes a minute to say so
def test_a_rank_that_dies_is_an_error_of_the_others(run_gpumem):
    command = ["run", "--sim=h100-80gbx2", "--", *TORCHRUN, PROGRAMS / "sim_rank_dies.py"]
    run = run_gpumem(*command).check(1)
    assert "went on" not in run.out
    assert "ncclRemoteError" in run.err and "rank 0 of 2: rank 1 of 2: its process is gone" in run.err


@pytest.mark.parametrize("how", ["lazy", pytest.param("eager", marks=pytest.mark.long)])  # eager: groups are parts that ncclCommSplit makes
def test_one_rank_of_1024_runs_as_if_the_others_did_the_same(run_gpumem, how):
    program = [sys.executable, PROGRAMS / "sim_rank.py", how]
    run = run_gpumem("run", "--sim", "--rank", "3", "--world", "1024", "--", *program).check()
    assert run.json() == {
        "rank": 3,
        "world": 1024,
        "backend": "nccl",
        "sum": [0, 1024, 2048, 3072],
        "avg": [0, 1, 2, 3],
        "max": [0, 1, 2, 3],
        "gathered": True,
        "scattered": [1024, 1024],
        "objects": [1024, {"rank": 3}, {"rank": 3}],
        "mesh": [0, 3],
        "over_data": 128,
        "over_tensor": 8,
        "over_some": [3, 1, 1],
    }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--rank", "3"], "they go together"),
        (["--rank", "8", "--world", "8"], "not a rank of 8"),
        (["--rank", "0", "--world", "one"], "not a number of ranks"),
    ],
)
def test_a_wrong_rank_is_refused(run_gpumem, words, says):
    run = run_gpumem("run", "--sim", *words, "--", "/bin/true").check(2)
    assert says in run.err


@pytest.mark.long
def test_one_rank_of_1024_under_fsdp2_holds_its_share(run_gpumem):
    pytest.importorskip("transformers", reason="the model is transformers'")
    run = run_gpumem(
        *("run", "--sim", "--rank", "3", "--world", "1024", "--", sys.executable, PROGRAMS / "sim_fsdp2_qwen.py"),
        timeout=600,
    ).check()
    facts = run.json()
    assert (facts["rank"], facts["world"], facts["parameters"]) == (3, 1024, 7_615_616_512)
    # A shard of each parameter in single precision; rows do not divide evenly.
    share = facts["parameters"] * 4 / 1024
    assert share <= facts["sharded"] < share * 1.15
    # The whole of the largest unit, of its gradient, and of the logits must have been there for a while.
    assert 20 * GIB < facts["peak"] < 79 * GIB
    assert facts["stats"] == facts["reserved"]
    assert facts["host"] < 4 * GIB


def test_a_program_that_replaces_itself_holds_its_own_memory_only(run_gpumem, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""if True:
        import os, sys, torch
        before = torch.cuda.device_memory_used(0)
        taken = torch.empty(50 << 30, dtype=torch.uint8, device="cuda")
        free, total = torch.cuda.mem_get_info()
        print(before >> 30, total - free >> 30, flush=True)
        if len(sys.argv) < 3:
            os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
    """)
    run = run_gpumem("run", "--sim", "--no-record", "--", sys.executable, program).check()
    assert run.out == "0 50\n" * 3


def test_a_process_for_whose_context_there_is_no_room_is_told_so_and_can_try_again(run_gpumem, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""if True:
        import subprocess, sys, torch
        if len(sys.argv) > 1:
            for _ in range(3):
                try:
                    torch.zeros(1, device="cuda")
                    print("runs", flush=True)
                except RuntimeError as error:
                    print(str(error).splitlines()[0], flush=True)
                input()
            sys.exit()
        held = [torch.empty(torch.cuda.mem_get_info()[0] - (64 << 20), dtype=torch.uint8, device="cuda")]
        other = subprocess.Popen([sys.executable, *sys.argv, "other"], stdin=-1, stdout=-1, text=True)
        for step in range(3):
            print(other.stdout.readline(), end="", flush=True)
            if step:
                held.clear()
                torch.cuda.empty_cache()
            other.stdin.write("\\n")
            other.stdin.flush()
        other.wait()
    """)
    run = run_gpumem("run", "--sim", "--no-record", "--", sys.executable, program).check()
    assert run.out == "CUDA error: out of memory\n" * 2 + "runs\n"
    assert run.err.count("gpumem sim: device 0: no room for the context: other processes of the run hold 79") == 1
    assert "ulimit" not in run.err


def test_a_fork_beside_a_pool_that_needs_managed_memory_s_room_does_not_hang(run_gpumem):
    program = """if True:
        import ctypes, os, threading, torch
        cuda = ctypes.CDLL("libcudart.so.13" if torch.version.cuda.startswith("13") else "libcudart.so.12")
        torch.zeros(1, device="cuda")
        ended = threading.Event()
        def refused():
            pointer, all_of_it = ctypes.c_void_p(), ctypes.c_size_t(79 << 30)
            while not ended.is_set():
                cuda.cudaMallocAsync(ctypes.byref(pointer), all_of_it, None)
        threads = [threading.Thread(target=refused) for _ in range(3)]
        [thread.start() for thread in threads]
        for _ in range(60):
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
        ended.set()
        [thread.join() for thread in threads]
        print("ended")
    """
    run = run_gpumem("run", "--sim", "--no-record", "--", sys.executable, "-W", "ignore", "-c", program, timeout=60)
    assert run.check().out == "ended\n"


@pytest.mark.parametrize("expandable", [False, pytest.param(True, marks=pytest.mark.long)])
def test_processes_share_tensors_and_the_device_s_memory(run_gpumem, expandable):
    # one of the two launches no kernel: with this, as much is outside PyTorch in both
    env = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": f"expandable_segments:{expandable}", "GPUMEM_SIM_CONTEXT": "529"}
    facts = run_gpumem("run", "--sim", "--", sys.executable, PROGRAMS / "sim_ipc.py", env=env).check().json()
    assert facts["values"] == [0, 1, 2, 3, 4] and facts["small"] == [0, 1, 2]
    assert facts["back"] == [0, 2, 4]
    # Both processes see what both hold: two contexts, and the child's gigabyte once.
    assert facts["both"] == facts["used_with_mine"]
    assert facts["used_with_mine"] - facts["used"] >= GIB
    context = facts["after"] - facts["reserved"]
    assert 100 * MIB < context < 700 * MIB
    assert facts["used"] == 2 * context + facts["reserved"]
    # What the dead child held is given back.
    assert facts["after"] == facts["reserved"] + context
