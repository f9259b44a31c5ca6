"""Kernels that decide control flow are computed on the host: their results equal PyTorch's own on the CPU."""

import json
import re
from pathlib import Path

import pytest
from conftest import PYTHON

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def compared(run_gpumem):
    return run_gpumem("run", "--sim", "--", PYTHON, PROGRAMS / "sim_kernels.py").check()


def test_small_operations_give_what_the_cpu_gives(compared):
    found = compared.out.json()
    assert len(found) > 230
    assert {line: how for line, how in found.items() if how != "same"} == {}


@pytest.mark.parametrize("profile", ["a100-80gb", "t4-16gb"])
def test_other_devices_have_other_kernels_for_sums_by_index(run_gpumem, profile):
    run = run_gpumem("run", "--sim=" + profile, "--no-record", "--", PYTHON, PROGRAMS / "sim_kernels.py", "(0, ")
    found = run.check().out.json()
    assert len(found) >= 10
    assert {line: how for line, how in found.items() if how != "same"} == {}


def test_special_values_at_random_give_what_they_give_elsewhere(run_gpumem):
    """Not a number, zeros of both signs, what overflows or vanishes in the accumulator's type, integers that no double holds."""
    finished = run_gpumem("run", "--sim", "--", PYTHON, PROGRAMS / "sim_values.py").check()
    found = finished.out.json()
    assert len(found) > 50
    assert {line: how for line, how in found.items() if how != "same"} == {}
    assert "never computed" not in finished.err and not re.search("not computed: [1-9]", finished.err)


# What the device does not compute, and knows of its result that it did not.
NOT_COMPUTED = {"x.take(", "x.logcumsumexp(", "x.median(", "x.prod("}


@pytest.mark.parametrize(("first", "count"), [(0, 400), *(pytest.param(1000 * at, 1000, marks=pytest.mark.long) for at in range(1, 9))])
def test_random_operations_give_what_the_cpu_gives_and_in_a_graph_what_they_give_without(run_gpumem, first, count):
    finished = run_gpumem("run", "--sim", "--no-record", "--", PYTHON, PROGRAMS / "sim_random.py", str(first), str(count), timeout=600).check()
    found = finished.out.json()
    assert found["wrong"] == {}
    assert {line.partition("(")[0] + "(" for line in found["not_computed"]} <= NOT_COMPUTED
    assert found["compared"] > 4 * count and found["graphs"] > count / 2


SCALER = """
import torch
p = torch.nn.Parameter(torch.ones(4, device="cuda"))
optimizer = torch.optim.SGD([p], lr=0.5, foreach=False)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, growth_interval=2)
seen = []
for step in range(4):
    optimizer.zero_grad()
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    seen.append([scaler.get_scale(), p.detach().tolist()[0]])
import json; print(json.dumps(dict(seen=seen)))
"""


def scaler(run_gpumem, *options):
    return run_gpumem("run", "--sim", *options, "--", PYTHON, "-c", SCALER).check()


def test_a_scaler_grows_and_its_steps_are_taken(run_gpumem):
    finished = scaler(run_gpumem)
    assert finished.out.json()["seen"] == [[1024, 0.5], [2048, 0.0], [2048, -0.5], [4096, -1.0]]
    assert "never computed" not in finished.err


def test_a_scaler_s_list_that_ends_where_the_stack_ends_is_read_no_further(run, sim_env):
    """Without many variables of the environment little lies behind the arguments of a kernel that a short program launches."""
    needed = {name: value for name, value in sim_env().items() if name.startswith(("GPUMEM", "LD_"))}
    finished = run([PYTHON, "-c", SCALER], env=needed).check()
    assert finished.out.json()["seen"][0] == [1024, 0.5]


def test_a_scripted_overflow_halves_the_scale_and_skips_the_step(run_gpumem):
    seen = scaler(run_gpumem, "--overflow-at", "2").out.json()["seen"]
    assert seen == [[1024, 0.5], [512, 0.5], [512, 0.0], [1024, -0.5]]


LISTS = """
import random, torch
chosen = random.Random(7)
for _ in range(80):
    count = chosen.choice([1, 1, 1, 2, 3, 109, 110, 111, 320, 321, 769, 770, 771, 1600])
    gradients = [torch.full((chosen.choice([1, 2, 7, 100]),), float(i % 97 + 1), device="cuda") for i in range(count)]
    found, inverse = torch.zeros(1, device="cuda"), torch.full((1,), 0.5, device="cuda")
    overflow = chosen.random() < 0.3
    if overflow:
        gradients[chosen.randrange(count)][0] = float("inf")
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)
    assert bool(found.item()) == overflow, count
    assert overflow or all(gradient[0].item() == (i % 97 + 1) / 2 for i, gradient in enumerate(gradients)), count
    [torch.randn(3, chosen.randrange(1, 50), device="cuda").sum().item() for _ in range(3)]  # other words on the stack
print("all")
"""


def test_a_scaler_checks_lists_of_any_length(run_gpumem):
    assert run_gpumem("run", "--sim", "--", PYTHON, "-c", LISTS).check().out == "all\n"


def test_with_compute_below_0_nothing_is_computed_and_that_is_flagged(run_gpumem, tmp_path):
    account = tmp_path / "account.json"
    program = "import torch; print(torch.full((3,), 7, device='cuda').sum().item())"
    words = ["--", PYTHON, "-c", program]
    assert run_gpumem("run", "--sim", *words).check().out == "21\n"
    none = run_gpumem("run", "--sim", "--compute-below=0", "--json", account, *words).check()
    assert none.out == "0\n"
    assert none.err.count("never computed: they are zero, or depend on such") == 1
    counted = json.loads(account.read_text())
    assert counted["computed"] == {} and counted["launches"] == counted["kernels_not_computed"] == 2


def test_results_that_depend_on_values_never_computed_are_flagged(run_gpumem):
    # A matrix product is not computed; the comparison of its elements is.
    program = "import torch; a = torch.ones(4, 4, device='cuda'); print(((a @ a) > 3).any().item())"
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", program).check()
    assert "depend on such" in finished.err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--compute-below=lots", "--compute-below lots: not a size"),
        ("--overflow-at=0", "--overflow-at 0: not steps"),
        ("--overflow-at=2,", "--overflow-at 2,: not steps"),
    ],
)
def test_a_wrong_setting_is_a_usage_error(run_gpumem, option, message):
    finished = run_gpumem("run", "--sim", option, "--", "true").check(2)
    assert message in finished.err


RANDOM = """
import json, torch
def seeded(f):
    torch.manual_seed(0)
    return [round(x, 4) for x in f().tolist()]
device = dict(device="cuda")
normal = torch.randn(10000, **device)
print(json.dumps({
    "rand": seeded(lambda: torch.rand(3, **device)),
    "randn": seeded(lambda: torch.randn(4, **device)),
    "moments": [round(normal.mean().item(), 1), round(normal.std().item(), 1)],
    "randint": sorted(set(torch.randint(2, 7, (500,), **device).tolist())),
    "randperm": sorted(torch.randperm(50, **device).tolist()) == list(range(50)),
    "multinomial": torch.multinomial(torch.tensor([0.0, 3.0, 0.0], **device), 1).tolist(),
    "again": torch.rand(3, **device).tolist() == torch.rand(3, **device).tolist(),
}))
"""


def test_a_seed_gives_what_it_gives_on_a_gpu(run_gpumem):
    # PyTorch's first numbers of seed 0 on a CUDA device.
    made = run_gpumem("run", "--sim", "--", PYTHON, "-c", RANDOM).check().out.json()
    assert made["rand"] == [0.399, 0.5167, 0.0249]
    assert made["randn"] == [-0.9247, -0.4253, -2.6438, 0.1452]
    assert made["moments"] == [0.0, 1.0]
    assert made["randint"] == [2, 3, 4, 5, 6]
    assert made["randperm"] and made["multinomial"] == [1] and not made["again"]


def test_an_index_out_of_bounds_is_reported(run_gpumem):
    program = "import torch; a = torch.arange(4, device='cuda'); print(a[torch.tensor([1, 9], device='cuda')].shape)"
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", program).check()
    assert "an index is out of bounds: 9, of 4 elements" in finished.err


def test_what_a_large_kernel_would_have_written_is_not_taken_for_its_result(run_gpumem):
    program = """if True:
        import ctypes, torch
        computed = ctypes.CDLL(None).gpumem_sim_computed
        computed.argtypes, computed.restype = (ctypes.c_void_p, ctypes.c_uint64), ctypes.c_bool
        y, order = torch.zeros(1 << 22).cuda(), torch.arange(1 << 22).cuda()
        for change in ("x.index_copy_(0, order, y)", "x.sort(0)[0]", "x.cumsum_(0)", "x.mul_(2)", "x.index_add_(0, order, y)", "x.roll(3)"):
            x = torch.ones(1 << 22).cuda()
            before, made = computed(x.data_ptr(), x.nbytes), eval(change)
            print(before, computed(made.data_ptr(), made.nbytes), change)
    """
    finished = run_gpumem("run", "--sim", "--no-record", "--", PYTHON, "-c", program).check()
    assert [line.split()[:2] for line in finished.out.splitlines()] == [["True", "False"]] * 6, finished.out


def test_a_word_is_sampled_from_a_large_vocabulary_that_nothing_computed(run_gpumem):
    program = """if True:
        import torch
        logits = torch.ones(4, 8, device="cuda") @ torch.ones(8, 151936, device="cuda")
        word = torch.multinomial(torch.softmax(logits.float(), -1), 1)
        print(word.shape[0], 0 <= word.min().item() <= word.max().item() < 151936)
    """
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", program).check()
    assert finished.out == "4 True\n"
    assert "depend on such" in finished.err


def test_the_positions_of_a_large_batch_are_computed(run_gpumem):
    """transformers' find_packed_sequence_indices(): on an H200 Qwen2 with a batch of 16 times 256 had no mask for it."""
    program = """if True:
        import torch
        for shape in ((2, 16), (16, 256), (64, 2048)):
            positions = torch.arange(shape[1], device="cuda")[None].expand(shape)
            differences = torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1)
            packed = (differences != 1).cumsum(-1)
            print((packed[:, -1] == 0).all().item())
    """
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-c", program).check()
    assert finished.out == "True\n" * 3
    assert "never computed" not in finished.err


def test_checks_of_what_was_never_computed_pass_and_few_values_are_computed(run_gpumem):
    """torch.distributions checks its parameters by default and ends a program whose network's outputs are not as they must be. A loop
    that generates text asks by the same kernel whether each sequence has ended, and does not end at once."""
    program = """if True:
        import torch
        from torch.distributions import Categorical, Normal
        for rows, columns in ((32, 8), (256, 64), (4096, 8), (20000, 8), (1 << 20, 4)):
            net = torch.nn.Linear(16, columns).cuda()
            x = torch.randn(rows, 16, device="cuda")
            made = Categorical(logits=net(x)), Categorical(probs=net(x).softmax(-1)), Normal(net(x), net(x).exp())
            made += (Normal(net(x), torch.nn.functional.softplus(net(x)) + 1e-3),)
            print(rows, [len(one.log_prob(one.sample())) == rows for one in made])
        known = torch.zeros(1000, dtype=torch.bool, device="cuda")
        print(known.all().item(), (~known).all().item())
        ended = torch.zeros(8, dtype=torch.bool, device="cuda")
        for step in range(5):
            word = (torch.ones(8, 32, device="cuda") @ torch.ones(32, 1000, device="cuda")).argmax(-1)
            ended |= word == 2
            if ended.all():
                break
        print(step)
    """
    finished = run_gpumem("run", "--sim", "--", PYTHON, "-W", "ignore", "-c", program).check()
    *made, known, steps = finished.out.splitlines()
    assert made == [f"{rows} [True, True, True, True]" for rows in (32, 256, 4096, 20000, 1 << 20)]
    assert (known, steps) == ("False True", "4")
    assert "never computed" in finished.err
