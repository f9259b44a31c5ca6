"""`gpumem zero`: of random models under DistributedDataParallel and ZeroRedundancyOptimizer (programs/zero_models.py) on several ranks,
what each rank owns and each byte of it, as PyTorch tells it in the program: its storages' nbytes() and the optimizer's partition."""

import json
import os
import random
import struct
import subprocess

import pytest

from conftest import PYTHON, ROOT, run_process, spawning, wait_until
from schemas import problems

PROGRAM = ROOT / "tests" / "e2e" / "programs" / "zero_models.py"
DEEPSPEED = PROGRAM.with_name("zero_deepspeed.py")
DEEPSPEED3 = PROGRAM.with_name("zero_deepspeed3.py")
DEEPSPEED_BF16 = PROGRAM.with_name("zero_deepspeed_bf16.py")
FSDP1 = PROGRAM.with_name("zero_fsdp1.py")
FSDP2 = PROGRAM.with_name("zero_fsdp2.py")
KINDS = ("gradients", "parameters", "offload", "gathered", "persistent", "low_precision")
TERMS = ("parameters", "gradients", "masters", "optimizer_state", "buffers")


def needs_deepspeed():
    run = run_process([PYTHON, "-c", "import deepspeed"], timeout=600)
    if run.status:
        pytest.skip("the tests' Python has no deepspeed (PyPI has it, without dependencies: hjson, py-cpuinfo, msgpack, einops, ninja)")


def start_ranks(spawn, sim_env, folder, world, first, count, program=PROGRAM):
    """The truth of each rank, while all ranks are stopped."""
    command = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world), program, folder, str(first), str(count)]
    env = {**os.environ, **sim_env(f"h100-80gbx{world}"), "OMP_NUM_THREADS": "1"}
    process = spawn(list(map(str, command)), env=env)
    files = [folder / f"{rank}.json" for rank in range(world)]

    def all_there():
        assert process.poll() is None, f"the ranks ended with {process.returncode}"
        return all(file.exists() for file in files)

    wait_until(all_there, timeout=1800)
    return [json.loads(file.read_text()) for file in files]


@pytest.fixture
def ranks(spawn, sim_env, tmp_path):
    yield lambda *arguments: start_ranks(spawn, sim_env, tmp_path, *arguments)
    (tmp_path / "done").touch()


@pytest.fixture(scope="module")
def shared_ranks(sim_env, tmp_path_factory):
    """As ranks(), for tests that change nothing: all of them share the same stopped ranks."""
    known, folders = {}, []
    with spawning() as spawn:

        def shared(*arguments):
            if arguments not in known:
                folders.append(tmp_path_factory.mktemp("ranks"))
                known[arguments] = start_ranks(spawn, sim_env, folders[-1], *arguments)
            return known[arguments]

        yield shared
        for folder in folders:
            (folder / "done").touch()


def comparison(given):
    """What is wrong, and what finds it."""
    wrong = []

    def compare(what, told, true):
        if told != true:
            wrong.append((given, what, told, true))

    return wrong, compare


def wrong_in(truth, told):
    """Of one sharding of one rank."""
    given = truth["given"]
    wrong, compare = comparison(given)
    compare("scheme", (told["scheme"], told["stage"], told["class"]), ("zero_redundancy_optimizer", 1, "ZeroRedundancyOptimizer"))
    compare("ranks", (told["rank"], told["world_size"], told["optimizer"]), (truth["rank"], truth["world_size"], truth["class"]))
    by_address = {parameter["address"]: parameter for parameter in told["parameters"]}
    compare("parameters", sorted(by_address), sorted(hex(parameter["address"]) for parameter in truth["parameters"]))
    for parameter in truth["parameters"]:
        found = by_address[hex(parameter["address"])]
        for name in ("name", "shape", "dtype", "elements", "owner", "trainable"):
            compare(f"{name} of {parameter['name']}", found[name], parameter[name])
        owned = parameter["owner"] == truth["rank"]
        compare(f"owned of {parameter['name']}", found["owned_elements"], parameter["elements"] if owned else 0)
        compare(f"gradient of {parameter['name']}", found["gradient_bytes"], parameter["gradient"])
        compare(f"state of {parameter['name']}", found["state_bytes"], parameter["state"])
    trained = [parameter for parameter in truth["parameters"] if parameter["trainable"]]
    owned = [parameter for parameter in trained if parameter["owner"] == truth["rank"]]
    compare("elements", told["elements"], sum(parameter["elements"] for parameter in truth["parameters"]))
    compare("trainable", told["trainable_elements"], sum(parameter["elements"] for parameter in trained))
    compare("owned", (told["owned_parameters"], told["owned_elements"]), (len(owned), sum(parameter["elements"] for parameter in owned)))

    terms = {term["term"]: term for term in told["terms"]}
    compare("terms", tuple(terms), TERMS)
    for name, term in terms.items():
        compare(f"bytes of {name}", term["bytes"], truth["bytes"].get(name, 0))
        if term["ideal"] is not None:
            compare(f"sum of {name}", term["ideal"] + sum(term["differences"].values()), truth["bytes"].get(name, 0))
            compare(f"unexplained {name}", term["unexplained"], 0)
    # the ZeRO paper's 2 Psi + 2 Psi + K Psi over N, of the dtype that there is
    per_element = truth["state_per_element"]
    all_bytes = sum(parameter["bytes"] for parameter in truth["parameters"])
    trained_bytes = sum(parameter["bytes"] for parameter in trained)
    compare("ideal parameters", terms["parameters"]["ideal"], all_bytes)
    compare("ideal gradients", terms["gradients"]["ideal"], trained_bytes)
    compare("ideal buffers", terms["buffers"]["ideal"], 0)
    state = terms["optimizer_state"]
    seen = any(parameter["state"] is not None for parameter in owned) or given["optimizer"] == "sgd" and trained
    whole = per_element * told["trainable_elements"]
    compare("state known", told["state_bytes_per_element"], per_element if seen else None)
    compare("ideal state", (state["ideal"], state["unsharded"]), (whole // truth["world_size"], whole) if seen else (None, None))
    compare("divided", [term["partitioned"] for term in told["terms"]], [False, False, False, True, False])
    # each difference by itself
    missing = sum(parameter["bytes"] for parameter in trained if parameter["gradient"] is None)
    compare("gradients not made", terms["gradients"]["differences"].get("not_made", 0), -missing)
    compare("second copies", terms["buffers"]["differences"].get("duplicate", 0), truth["bytes"]["buffers"])
    compare("per tensor", state["differences"].get("per_tensor", 0), truth["steps_bytes"])
    if seen:
        unequal = per_element * told["owned_elements"] - whole // truth["world_size"]
        unmade = sum(parameter["elements"] for parameter in owned if parameter["state"] is None) if given["optimizer"] != "sgd" else 0
        compare("imbalance", state["differences"].get("imbalance", 0), unequal)
        compare("state not made", state["differences"].get("not_made", 0), -unmade * per_element)
    return wrong


def wrong_in_deepspeed(truth, told):
    """Of one engine of one rank: the paper's 2 Psi + 2 Psi + 12 Psi over N, of which 4 are the copy in float32."""
    given = truth["given"]
    wrong, compare = comparison(given)
    world, padding, parameters = truth["world_size"], truth["padding"], truth["parameters"]
    compare("kind", (told["scheme"], told["stage"], told["optimizer"]), ("deepspeed", given["stage"], truth["class"]))
    compare("world", told["world_size"], world)
    by_address = {parameter["address"]: parameter for parameter in told["parameters"]}
    compare("parameters", sorted(by_address), sorted(hex(parameter["address"]) for parameter in parameters))
    elements, owned = (sum(parameter[name] for parameter in parameters) for name in ("elements", "owned"))
    terms = {term["term"]: term for term in told["terms"]}
    for name, term in terms.items():
        compare(f"bytes of {name}", term["bytes"], truth["bytes"][name])
    if told["rank"] is None:
        # its part is only padding: the rank cannot be known
        compare("owned", owned, 0)
        return wrong
    compare("rank", told["rank"], truth["rank"])
    for parameter in parameters:
        found = by_address[hex(parameter["address"])]
        for name in ("name", "elements", "owner"):
            compare(f"{name} of {parameter['name']}", found[name], parameter[name])
        compare(f"owned of {parameter['name']}", found["owned_elements"], parameter["owned"])
    for name, term in terms.items():
        if term["ideal"] is not None:
            compare(f"sum of {name}", term["ideal"] + sum(term["differences"].values()), truth["bytes"][name])
            compare(f"unexplained {name}", (term["unexplained"], term["differences"].get("shared", 0)), (0, 0))
    whole = sum(parameter["bytes"] for parameter in parameters)
    compare("ideal parameters", terms["parameters"]["ideal"], whole)
    compare("padding of parameters", terms["parameters"]["differences"].get("padding", 0), truth["bytes"]["parameters"] - whole)
    compare("ideal gradients", terms["gradients"]["ideal"], whole // (world if given["stage"] == 2 else 1))
    state = truth["state_per_element"] if truth["has_state"] else None
    for name, size in (("masters", truth["master_size"]), ("optimizer_state", state)):
        term = terms[name]
        compare(f"ideal {name}", (term["unsharded"], term["ideal"]), (size * elements, size * elements // world) if size else (None, None))
        if size:
            compare(f"padding of {name}", term["differences"].get("padding", 0), size * padding)
            compare(f"imbalance of {name}", term["differences"].get("imbalance", 0), size * owned - size * elements // world)
    compare("per tensor", terms["optimizer_state"]["differences"].get("per_tensor", 0), truth["steps_bytes"])
    compare("second copies", terms["buffers"]["differences"].get("duplicate", 0), truth["bytes"]["buffers"])
    return wrong


def wrong_in_deepspeed_bf16(truth, told):
    """The same of a BF16_Optimizer: the accumulated gradients take four bytes an element instead of two, and .grad is a second copy."""
    wrong, compare = comparison(truth["given"])
    compare("class", told["class"], "BF16_Optimizer")
    elements = sum(parameter["elements"] for parameter in truth["parameters"])
    (term,) = [term for term in told["terms"] if term["term"] == "gradients"]
    compare("dtype of gradients", term["differences"].get("other_dtype", 0), 2 * elements)
    compare("second gradients", term["differences"].get("duplicate", 0), truth["second_gradients"])
    compare("padding of gradients", term["differences"].get("padding", 0), truth["bytes"]["gradients"] - 4 * elements - truth["second_gradients"])
    compare("rank", told["rank"], truth["rank"])
    return wrong + wrong_in_deepspeed(truth, told)


def wrong_in_deepspeed3(truth, told):
    """Of one engine of one rank: stage 3, all over N; each parameter's parts are equal by padding."""
    given = truth["given"]
    wrong, compare = comparison(given)
    world, parameters = truth["world_size"], truth["parameters"]
    compare("kind", (told["scheme"], told["stage"], told["class"], told["optimizer"]), ("deepspeed", 3, "DeepSpeedZeroOptimizer_Stage3", truth["class"]))
    compare("ranks", (told["rank"], told["world_size"]), (truth["rank"], world))
    by_address = {parameter["address"]: parameter for parameter in told["parameters"]}
    compare("parameters", sorted(by_address), sorted(hex(parameter["address"]) for parameter in parameters))
    for parameter in parameters:
        found = by_address[hex(parameter["address"])]
        for told_name, name in (("name", "name"), ("elements", "elements"), ("shape", "shape"), ("owned_elements", "owned"), ("trainable", "trainable")):
            compare(f"{name} of {parameter['name']}", found[told_name], parameter[name])
        compare(f"owner of {parameter['name']}", found["owner"], 0 if parameter["elements"] <= parameter["part"] else None)
    trained = [parameter for parameter in parameters if parameter["trainable"]]
    size, terms = parameters[0]["element_size"], {term["term"]: term for term in told["terms"]}
    for name, term in terms.items():
        compare(f"bytes of {name}", term["bytes"], truth["bytes"][name])
        if term["ideal"] is not None:
            compare(f"sum of {name}", term["ideal"] + sum(term["differences"].values()), truth["bytes"][name])
            compare(f"unexplained {name}", (term["unexplained"], term["differences"].get("shared", 0)), (0, 0))
    state = truth["state_per_element"] if truth["has_state"] else None
    units = (("parameters", size, parameters, size), ("gradients", size, trained, truth["gradient_size"]))
    units += (("masters", truth["master_size"], trained, truth["master_size"]), ("optimizer_state", state, trained, state))
    for name, unit, those, padding in units:
        term, all_elements, owned = terms[name], sum(one["elements"] for one in those), sum(one["owned"] for one in those)
        known = (unit * all_elements, unit * all_elements // world) if unit is not None else (None, None)
        compare(f"ideal {name}", (term["unsharded"], term["ideal"]), known)
        if unit is not None:
            compare(f"padding of {name}", term["differences"].get("padding", 0), padding * sum(one["part"] - one["owned"] for one in those))
            compare(f"imbalance of {name}", term["differences"].get("imbalance", 0), unit * owned - known[1])
    owned = sum(one["owned"] for one in trained)
    compare("dtype of gradients", terms["gradients"]["differences"].get("other_dtype", 0), (truth["gradient_size"] - size) * owned)
    compare("per tensor", terms["optimizer_state"]["differences"].get("per_tensor", 0), truth["steps_bytes"])
    for kind in ("gathered", "persistent"):
        whole = sum(bucket["bytes"] for bucket in told["buckets"] if bucket["kind"] == kind)
        compare(kind, whole, truth["whole"][kind])
    return wrong


def wrong_in_fsdp2(truth, told):
    """Of one model of one rank: the paper's stage 3, all over N."""
    given = truth["given"]
    wrong, compare = comparison(given)
    world, parameters = truth["world_size"], truth["parameters"]
    compare("kind", (told["scheme"], told["stage"], told["optimizer"]), ("fsdp2", 3, truth["class"]))
    compare("ranks", (told["rank"], told["world_size"]), (truth["rank"], world))
    by_address = {parameter["address"]: parameter for parameter in told["parameters"]}
    compare("parameters", sorted(by_address), sorted(hex(parameter["address"]) for parameter in parameters))
    for parameter in parameters:
        found = by_address[hex(parameter["address"])]
        for told_name, name in (("name", "name"), ("elements", "elements"), ("owned_elements", "owned")):
            compare(f"{name} of {parameter['name']}", found[told_name], parameter[name])
    whole, elements, owned = (sum(parameter[name] for parameter in parameters) for name in ("bytes", "elements", "owned"))
    size = whole // elements
    terms = {term["term"]: term for term in told["terms"]}
    for name, term in terms.items():
        compare(f"bytes of {name}", term["bytes"], truth["bytes"].get(name, 0))
        if term["ideal"] is not None:
            compare(f"sum of {name}", term["ideal"] + sum(term["differences"].values()), truth["bytes"].get(name, 0))
            compare(f"unexplained {name}", (term["unexplained"], term["differences"].get("shared", 0)), (0, 0))
    state = truth["state_per_element"] if truth["has_state"] else None
    for name, unit in (("parameters", size), ("gradients", size), ("optimizer_state", state)):
        term = terms[name]
        known = (unit * elements, unit * elements // world) if unit is not None else (None, None)
        compare(f"ideal {name}", (term["unsharded"], term["ideal"]), known)
        if unit is not None:
            compare(f"imbalance of {name}", term["differences"].get("imbalance", 0), unit * owned - unit * elements // world)
    compare("padding", terms["parameters"]["differences"].get("padding", 0), truth["bytes"]["parameters"] - size * owned)
    compare("per tensor", terms["optimizer_state"]["differences"].get("per_tensor", 0), truth["steps_bytes"])
    compare("gathered", sum(bucket["bytes"] for bucket in told["buckets"] if bucket["kind"] == "gathered"), truth["bytes"]["buffers"])
    return wrong


STAGES = {"FULL_SHARD": 3, "HYBRID_SHARD": 3, "SHARD_GRAD_OP": 2, "_HYBRID_SHARD_ZERO2": 2, "NO_SHARD": 0}


def wrong_in_fsdp1(truth, told):
    """Of one model of one rank: parameters, gradients and state over N, or with NO_SHARD nothing."""
    given = truth["given"]
    wrong, compare = comparison(given)
    stage = STAGES[truth["strategy"]]
    parts, parameters = truth["world_size"] if stage else 1, truth["parameters"]
    compare("kind", (told["scheme"], told["stage"], told["optimizer"]), ("fsdp1", stage, truth["class"]))
    compare("ranks", (told["rank"], told["world_size"]), (truth["rank"], truth["world_size"]))
    compare("divided", [term["partitioned"] for term in told["terms"]], [stage != 0] * 4 + [False])
    by_address = {parameter["address"]: parameter for parameter in told["parameters"]}
    compare("parameters, in the optimizer's order", list(by_address), [hex(parameter["address"]) for parameter in parameters])
    for parameter in parameters:
        found = by_address[hex(parameter["address"])]
        for told_name, name in (("name", "name"), ("elements", "elements"), ("shape", "shape"), ("owned_elements", "owned"), ("owner", "owner"), ("trainable", "trainable")):
            compare(f"{name} of {parameter['name']}", found[told_name], parameter[name])
    terms = {term["term"]: term for term in told["terms"]}
    for name, term in terms.items():
        compare(f"bytes of {name}", term["bytes"], truth["bytes"].get(name, 0))
        if term["ideal"] is not None:
            compare(f"sum of {name}", term["ideal"] + sum(term["differences"].values()), truth["bytes"].get(name, 0))
            compare(f"unexplained {name}", (term["unexplained"], term["differences"].get("shared", 0)), (0, 0))
    trained = [parameter for parameter in parameters if parameter["trainable"]]
    state = truth["state_per_element"] if truth["has_state"] else None
    for name, unit, those in (("parameters", truth["size"], parameters), ("gradients", truth["size"], trained), ("optimizer_state", state, trained)):
        term, all_elements, owned = terms[name], sum(one["elements"] for one in those), sum(one["owned"] for one in those)
        known = (unit * all_elements, unit * all_elements // parts) if unit is not None else (None, None)
        compare(f"ideal {name}", (term["unsharded"], term["ideal"]), known)
        if unit is not None:
            compare(f"imbalance of {name}", term["differences"].get("imbalance", 0), unit * owned - known[1])
    owned = sum(one["owned"] for one in parameters)
    compare("padding", terms["parameters"]["differences"].get("padding", 0), truth["size"] * (truth["part"] - owned))
    compare("per tensor", terms["optimizer_state"]["differences"].get("per_tensor", 0), truth["steps_bytes"])
    compare("second copies", terms["buffers"]["differences"].get("duplicate", 0), truth["bytes"]["buffers"])
    compare("buffers", sum(bucket["bytes"] for bucket in told["buckets"]), truth["bytes"]["buffers"])
    return wrong


def wrong_of_rank(truth, answer, wrong_in=wrong_in):
    wrong = []
    told = {sharding["address"]: sharding for sharding in answer["shardings"]}
    if sorted(told) != sorted(hex(sharding["address"]) for sharding in truth["shardings"]):
        return [("shardings", sorted(told))]
    for sharding in truth["shardings"]:
        wrong += wrong_in(sharding, told[hex(sharding["address"])])
    if "device" not in truth:
        return wrong
    (device,) = [device for device in answer["devices"] if device["device"] == truth["device"]]
    on_device = sum(term["bytes"] - term["host_bytes"] for sharding in answer["shardings"] for term in sharding["terms"])
    if (device["allocated"], device["named"]) != (truth["allocated"], on_device):
        wrong.append(("device", device, truth["allocated"], on_device))
    if device["named"] + device["rounding"] + device["other"] != device["allocated"]:
        wrong.append(("sum of the device", device))
    return wrong


def wrong_of(run_gpumem, truths, wrong_in=wrong_in):
    wrong = []
    for truth in truths:
        answer = run_gpumem("zero", f"--pid={truth['pid']}", "--json").check().json()
        wrong += [(truth["rank"], *one) for one in wrong_of_rank(truth, answer, wrong_in)]
    return wrong


@pytest.mark.parametrize("world", [pytest.param(2, marks=pytest.mark.long), 3])
def test_each_byte_of_random_models_is_the_ideal_and_what_is_named(run_gpumem, shared_ranks, world):
    wrong = wrong_of(run_gpumem, shared_ranks(world, 0, 8, PROGRAM))
    assert not wrong, wrong


def test_fsdp2_with_tensor_parallelism_has_no_ideal_and_with_copies_it_has(run_gpumem, gpumem, spawn, tmp_path):
    program = PROGRAM.with_name("zero_fsdp2_mesh.py")
    run = spawn([gpumem, "run", "--no-record", "--sim", "--rank", "0", "--world", "4", "--", PYTHON, "-W", "ignore", program, tmp_path])
    try:
        wait_until(lambda: (tmp_path / "0.json").exists() or run.poll() is not None, timeout=300)
        truth = json.loads((tmp_path / "0.json").read_text())
        told = run_gpumem("zero", f"--pid={truth['pid']}", "--json").check().json()
        text = run_gpumem("zero", f"--pid={truth['pid']}").check().out
    finally:
        (tmp_path / "done").touch()
    assert problems("zero", told) == []
    by_address = {one["address"]: one for one in told["shardings"]}
    split, hybrid = (by_address[hex(truth[name]["address"])] for name in ("split", "hybrid"))
    for name, one in (("split", split), ("hybrid", hybrid)):
        assert sum(parameter["elements"] for parameter in one["parameters"]) == truth[name]["elements"]
        assert sum(parameter["owned_elements"] for parameter in one["parameters"]) == truth[name]["owned"]
    assert (split["split_further"], hybrid["split_further"]) == (2, 0)
    divided = [term for term in split["terms"] if term["partitioned"]]
    assert len(divided) >= 3 and {term["ideal"] for term in divided} == {None}
    assert not any("imbalance" in term["differences"] for term in split["terms"])
    assert [term["ideal"] for term in hybrid["terms"] if term["term"] == "parameters"] == [truth["hybrid"]["elements"] * 4 // 2]
    assert text.count("the ideal is unknown") == 1 and "2 parameters are split along another dimension of the mesh too, " in text
    assert {parameter["name"] for parameter in hybrid["parameters"]} == {"0.weight", "0.bias", "1.weight", "1.bias"}


@pytest.mark.parametrize(("world", "first"), [(2, 0), pytest.param(4, 100, marks=pytest.mark.long)])
def test_each_byte_of_fsdp2s_random_models_is_the_ideal_and_what_is_named(run_gpumem, ranks, world, first):
    wrong = wrong_of(run_gpumem, ranks(world, first, 8, FSDP2), wrong_in_fsdp2)
    assert not wrong, wrong


@pytest.mark.parametrize(("world", "first"), [(2, 0), pytest.param(4, 100, marks=pytest.mark.long)])
def test_each_byte_of_deepspeeds_random_engines_is_the_ideal_and_what_is_named(run_gpumem, ranks, world, first):
    needs_deepspeed()
    truths = ranks(world, first, 6, DEEPSPEED)
    wrong = wrong_of(run_gpumem, truths, wrong_in_deepspeed)
    assert not wrong, wrong


@pytest.mark.parametrize(("world", "first", "count"), [(2, 0, 8), pytest.param(3, 100, 50, marks=pytest.mark.long), pytest.param(4, 200, 50, marks=pytest.mark.long)])
def test_each_byte_of_deepspeeds_bf16_optimizer_is_the_ideal_and_what_is_named(run_gpumem, ranks, world, first, count):
    needs_deepspeed()
    wrong = wrong_of(run_gpumem, ranks(world, first, count, DEEPSPEED_BF16), wrong_in_deepspeed_bf16)
    assert not wrong, wrong


@pytest.mark.parametrize(("world", "first"), [(2, 0), pytest.param(4, 100, marks=pytest.mark.long)])
def test_each_byte_of_deepspeeds_stage_3_is_the_ideal_and_what_is_named(run_gpumem, shared_ranks, world, first, tmp_path):
    needs_deepspeed()
    truths = shared_ranks(world, first, 8, DEEPSPEED3)
    wrong = wrong_of(run_gpumem, truths, wrong_in_deepspeed3)
    assert not wrong, wrong
    run_gpumem("core", truths[-1]["pid"], "-o", tmp_path / "core").check()
    wrong = wrong_of_rank(truths[-1], run_gpumem("zero", tmp_path / "core", "--json").check().json(), wrong_in_deepspeed3)
    assert not wrong, wrong


@pytest.mark.parametrize("world", [2, pytest.param(3, marks=pytest.mark.long)])
def test_each_byte_of_fsdp1s_random_models_is_the_ideal_and_what_is_named(run_gpumem, shared_ranks, world, tmp_path):
    truths = shared_ranks(world, 0, 8, FSDP1)
    wrong = wrong_of(run_gpumem, truths, wrong_in_fsdp1)
    assert not wrong, wrong
    run_gpumem("core", truths[-1]["pid"], "-o", tmp_path / "core").check()
    wrong = wrong_of_rank(truths[-1], run_gpumem("zero", tmp_path / "core", "--json").check().json(), wrong_in_fsdp1)
    assert not wrong, wrong


def test_a_core_and_gdb_give_the_answer_of_the_process(run_gpumem, run_gdb, shared_ranks, tmp_path):
    truth = shared_ranks(3, 0, 8, PROGRAM)[1]
    live = run_gpumem("zero", f"--pid={truth['pid']}", "--json").check().json()
    core = tmp_path / "core"
    run_gpumem("core", truth["pid"], "-o", core).check()
    stored = run_gpumem("zero", core, "--json").check().json()
    in_gdb = run_gdb(["gpumem zero --json", "gpumem zero"], pid=truth["pid"], symbols=False)
    assert live["shardings"] == stored["shardings"] == in_gdb[0].json()["shardings"]
    assert live["devices"] == stored["devices"] and wrong_of_rank(truth, stored) == []
    assert "ZeRO stage 1, rank 1 of 3" in in_gdb[1]
    text = run_gpumem("zero", f"--pid={truth['pid']}").check().out
    assert text.splitlines()[1:] == run_gpumem("zero", core).check().out.splitlines()[1:]


def offsets_of(core):
    """address -> its offset in the core file, for the loadable segments"""
    with core.open("rb") as file:
        head = file.read(64)
        table, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        file.seek(table)
        parts = [struct.unpack_from("<IIQQQQ", file.read(size)) for _ in range(count)]

    def place(address):
        return next((offset + address - start for kind, _, offset, start, _, length in parts if kind == 1 and start <= address < start + length), None)

    return place


@pytest.mark.parametrize("words", [16, pytest.param(400, marks=pytest.mark.long)])
@pytest.mark.parametrize("program", [PROGRAM, DEEPSPEED3, FSDP1], ids=lambda program: program.stem)
def test_damaged_objects_give_an_answer_or_an_error(run_gpumem, shared_ranks, tmp_path, program, words):
    """Words of the optimizers, parameters and buckets, and those that they point to, are overwritten in a core."""
    if program is DEEPSPEED3:
        needs_deepspeed()
    truth, core, some = shared_ranks(3 if program is PROGRAM else 2, 0, 8, program)[0], tmp_path / "core", random.Random(0)
    run_gpumem("core", truth["pid"], "-o", core).check()
    answer = run_gpumem("zero", core, "--json").check().json()
    objects = [sharding["address"] for sharding in answer["shardings"]]
    objects += [one["address"] for sharding in answer["shardings"] for name in ("parameters", "buckets") for one in sharding[name]]
    place, told = offsets_of(core), set()
    with core.open("r+b", buffering=0) as file:

        def word_at(address):
            offset = place(address)
            return (offset, int.from_bytes(os.pread(file.fileno(), 8, offset), "little")) if offset is not None else (None, 0)

        for _ in range(words):
            address = int(some.choice(objects), 16) + 8 * some.randrange(4)
            for _ in range(some.randrange(3)):  # on the way of a pointer
                at = word_at(address)[1]
                address = at + 8 * some.randrange(16) if place(at) is not None else address
            offset, old = word_at(address)
            new = some.choice((0, 1, 1 << 63, (1 << 64) - 1, some.getrandbits(64), old + 8, int(some.choice(objects), 16)))
            os.pwrite(file.fileno(), (new & (1 << 64) - 1).to_bytes(8, "little"), offset)
            run = run_gpumem("zero", core, "--json")
            os.pwrite(file.fileno(), old.to_bytes(8, "little"), offset)
            assert run.status in (0, 3, 4), (hex(address), hex(new), run.status, run.err)
            assert run.status == 0 or run.err.startswith("gpumem: "), run.err
            told.add(run.out)
    assert len(told) > 1  # some words matter
    assert run_gpumem("zero", core, "--json").check().out.split('"pause"')[0] == json.dumps(answer, indent=2).split('"pause"')[0]


PLAIN = """
import sys, torch

class DeepSpeedZeroOptimizer:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)

class DeepSpeedZeroOptimizer_Stage3:
    __init__ = DeepSpeedZeroOptimizer.__init__

class FlatParamHandle:
    __init__ = DeepSpeedZeroOptimizer.__init__

kept = torch.optim.Adam(torch.nn.Linear(4, 4).parameters())
weight = kept.param_groups[0]["params"][0]
others = [kind(**attributes) for attributes in eval(sys.argv[1]) for kind in (DeepSpeedZeroOptimizer, DeepSpeedZeroOptimizer_Stage3)]
for attributes in eval(sys.argv[1]):
    if "_shapes" in attributes:
        others.append(torch.optim.Adam(torch.nn.Linear(4, 4).parameters()))
        weight = others[-1].param_groups[0]["params"][0]
        weight.__dict__.update(attributes)
        others.append(FlatParamHandle(flat_param=weight, **attributes))
print(1, flush=True)
sys.stdin.read()
"""


def start_plain(spawn, sim_env, attributes):
    process = spawn([PYTHON, "-c", PLAIN, repr(attributes)], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    return f"--pid={process.pid}"


@pytest.fixture
def plain(sim_env, spawn):
    return lambda attributes: start_plain(spawn, sim_env, attributes)


@pytest.fixture(scope="module")
def nothing_sharded(sim_env):
    """A process with an optimizer that is not sharded."""
    with spawning() as spawn:
        yield start_plain(spawn, sim_env, [])


def of_each(answer, ranks, figure):
    """What the shardings of a model have, by the processes' own answers."""
    at = [{one["address"]: one for one in process["shardings"]} for process in answer["processes"]]
    return [figure(found[rank["address"]]) for found, rank in zip(at, ranks)]


def wrong_in_ranks(truths, answer):
    """Of several ranks side by side: the models are those of the same seed, and differ in what the single answers differ in."""
    truth = {hex(sharding["address"]): (truth["rank"], sharding["given"]["seed"]) for truth in truths for sharding in truth["shardings"]}
    seeds = []
    for model in answer["models"]:
        ranks, seen = model["ranks"], [truth[rank["address"]] for rank in model["ranks"]]
        seeds.append(seen[0][1])
        assert [rank for rank, _ in seen] == [one["rank"] for one in truths] and len({seed for _, seed in seen}) == 1, seen
        own = of_each(answer, ranks, lambda one: one["rank"])
        assert own == [rank["rank"] for rank in ranks] and model["ranks_present"] == len(set(own))
        assert model["complete"] == (model["ranks_present"] == model["world_size"])
        assert not model["complete"] or not model["stage"] or model["owned_elements"] == model["elements"]
        told = {(one["term"], one["cause"]): one["bytes"] for one in model["differences"]}
        true = {}
        for number, term in enumerate(TERMS):
            terms = of_each(answer, ranks, lambda one, number=number: one["terms"][number])
            assert model["terms"][number] == {"term": term, "bytes": [one["bytes"] for one in terms]}
            values = {cause: [one["differences"].get(cause, 0) for one in terms] for cause in set().union(*(one["differences"] for one in terms))}
            values["host"] = [one["host_bytes"] for one in terms]
            true |= {(term, cause): bytes for cause, bytes in values.items() if len(set(bytes)) > 1}
        assert told == true
        counts = {kind: of_each(answer, ranks, lambda one, kind=kind: sum(bucket["kind"] == kind for bucket in one["buckets"])) for kind in KINDS}
        assert {one["kind"]: one["counts"] for one in model["buckets"]} == {kind: each for kind, each in counts.items() if len(set(each)) > 1}
    return sorted(seeds) != sorted(sharding["given"]["seed"] for sharding in truths[0]["shardings"])


@pytest.mark.parametrize("program", [pytest.param(PROGRAM, id=PROGRAM.stem), pytest.param(FSDP1, id=FSDP1.stem, marks=pytest.mark.long)])
def test_ranks_side_by_side_show_how_they_differ(run_gpumem, shared_ranks, program, tmp_path):
    truths = shared_ranks(3, 0, 8, program)
    pids = [f"--pid={truth['pid']}" for truth in truths]
    answer = run_gpumem("zero", *pids, "--json").check().json()
    assert not wrong_in_ranks(truths, answer)
    assert [one["shardings"] for one in answer["processes"]] == [run_gpumem("zero", pid, "--json").check().json()["shardings"] for pid in pids]
    assert any(model["differences"] for model in answer["models"]) and all(model["world_size"] in (1, 3) for model in answer["models"])
    text = run_gpumem("zero", *pids).check().out
    assert text.count(" 3 of 3 ranks") == len(answer["models"]) and "why they differ" in text
    # two cores, in another order, and not all ranks
    cores = [tmp_path / "core.2", tmp_path / "core.0"]
    for core, truth in zip(cores, (truths[2], truths[0])):
        run_gpumem("core", truth["pid"], "-o", core).check()
    stored = run_gpumem("zero", *cores, "--json").check().json()
    assert not wrong_in_ranks([truths[2], truths[0]], stored)
    assert [one["shardings"] for one in stored["processes"]] == [answer["processes"][rank]["shardings"] for rank in (2, 0)]
    assert "some ranks are missing" in run_gpumem("zero", "--core", cores[0], "--core", cores[1]).check().out


def test_processes_that_cannot_be_side_by_side_are_refused(run_gpumem, run_gdb, nothing_sharded):
    pid = nothing_sharded
    assert run_gpumem("zero", pid, pid).check(2).err == f"gpumem: zero: process {pid.removeprefix('--pid=')} is named twice\n"
    assert "core '/nowhere' is named twice" in run_gpumem("zero", "/nowhere", "/nowhere").check(2).err
    for words in (("--core=/nowhere", pid), ("/nowhere", pid), (pid, "/nowhere")):
        assert "both a core and a process were given" in run_gpumem("zero", *words).check(2).err
    assert run_gpumem("zero", pid, "--pid=1").status in (3, 4)
    assert "/nowhere" in run_gpumem("zero", "/nowhere", "/nowhere2").err
    told = run_gdb([f"gpumem zero {pid} --pid=1"], pid=int(pid.removeprefix("--pid=")), symbols=False)[0]
    assert "not possible in gdb" in told


def test_a_process_without_a_sharded_optimizer_says_so(run_gpumem, nothing_sharded):
    pid = nothing_sharded
    assert run_gpumem("zero", pid, "--json").check().json()["shardings"] == []
    assert "No sharded optimizer is in the process" in run_gpumem("zero", pid).check().out


def test_attributes_of_another_version_are_said_to_be_unknown(run_gpumem, plain):
    odd = {"bit16_groups": [[1]], "bit16_groups_flat": [None, "flat"], "params_in_partition": 7, "first_offset": [2**70], "averaged_gradients": {0: [3]}}
    odd.update({"fp16_groups": [[1, None], 2], "fp32_partitioned_groups_flat": {}, "grad_partitions_flat_buffer": 7, "ipg_buckets": [1]})
    pid = plain([{}, {"fp16_groups_flat": [1]}, odd])
    told = run_gpumem("zero", pid, "--json").check().json()["shardings"]
    answers = [(one["stage"], one["layout_known"], one["parameters"], one["rank"]) for one in told]
    assert answers == [(stage, known, [], None) for stage in (1, 3) for known in (False, False, True)]
    assert told[2]["unread"] > 0 and told[5]["unread"] > 0
    assert run_gpumem("zero", pid).check().out.count("it cannot be analysed") == 4


def test_odd_attributes_of_fsdp1_give_an_answer(run_gpumem, plain):
    odd = {"_shard_param_infos": ((True, 0, 2**50), 3, (0,)), "_params": None, "_fqns": (1, "a"), "rank": 5, "world_size": 2}
    odd |= {"_sharding_strategy": 9, "_is_padding_mask": (2**70, True), "_numels_with_padding": (1e300, -1, "x"), "_cpu_grad": []}
    pid = plain([{**odd, "_shapes": shapes} for shapes in ((), (7,), ((2**40, 2**40), "x", None), ((4, 4), (2.5,), (-1,)))])
    told = [one for one in run_gpumem("zero", pid, "--json").check().json()["shardings"] if one["scheme"] == "fsdp1"]
    read = {(one["rank"], one["stage"], len(one["parameters"]), bool(one["unread"])) for one in told}
    assert len(told) == 4 and read == {(None, 0, 2, True), (None, 3, 2, False)}
    assert sum(one["stage"] == 0 for one in told) == 1
    run_gpumem("zero", pid).check()


def test_a_file_that_is_neither_a_recording_nor_a_core_is_refused(run_gpumem):
    run = run_gpumem("zero", PROGRAM).check(3)
    assert run.err.startswith(f"gpumem: {PROGRAM}: not a gpumem recording: ")
    run = run_gpumem("zero", PROGRAM, __file__).check(3)  # several FILEs must be cores
    assert run.err.startswith(f"gpumem: {PROGRAM}: offset 0x0: it is not an ELF file")


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("world", "first"), [(2, 1000), (3, 2000), (4, 3000), (8, 4000)])
def test_each_byte_of_a_hundred_models(run_gpumem, ranks, world, first):
    wrong = wrong_of(run_gpumem, ranks(world, first, 100))
    assert not wrong, wrong


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("world", "first"), [(2, 1000), (4, 2000), (8, 3000)])
def test_each_byte_of_fifty_engines_of_deepspeed(run_gpumem, ranks, world, first):
    needs_deepspeed()
    wrong = wrong_of(run_gpumem, ranks(world, first, 50, DEEPSPEED), wrong_in_deepspeed)
    assert not wrong, wrong


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("world", "first"), [(2, 1000), (3, 2000), (4, 3000)])
def test_each_byte_of_fifty_engines_of_deepspeeds_stage_3(run_gpumem, ranks, world, first):
    needs_deepspeed()
    wrong = wrong_of(run_gpumem, ranks(world, first, 50, DEEPSPEED3), wrong_in_deepspeed3)
    assert not wrong, wrong


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("world", "first"), [(2, 1000), (3, 2000), (4, 3000), (8, 4000)])
def test_each_byte_of_a_hundred_models_of_fsdp2(run_gpumem, ranks, world, first):
    wrong = wrong_of(run_gpumem, ranks(world, first, 100, FSDP2), wrong_in_fsdp2)
    assert not wrong, wrong


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("world", "first"), [(2, 1000), (3, 2000), (4, 3000), (8, 4000)])
def test_each_byte_of_a_hundred_models_of_fsdp1(run_gpumem, ranks, world, first):
    wrong = wrong_of(run_gpumem, ranks(world, first, 100, FSDP1), wrong_in_fsdp1)
    assert not wrong, wrong
