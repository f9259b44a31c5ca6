"""`gpumem retained`: what each variable alone keeps, compared with PyTorch's own figure and with the bytes that are freed
when the program deletes the variable."""

import json
import re
import resource
import subprocess
from pathlib import Path

import pytest

from conftest import KEEP_WORKSPACES, PYTHON, Started

PROGRAM = Path(__file__).with_name("data") / "retained.py"


class Program:
    """The program under test: it deletes the variables that the test names."""

    def __init__(self, env, program=PROGRAM):
        self.process = Started(
            [PYTHON, "-W", "ignore", program], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        line = self.process.stdout.readline()
        assert line.startswith("{"), f"the program said {line!r}"
        said = json.loads(line)
        self.pid, self.allocated = said["pid"], said["allocated"]

    def release(self, *names):
        """Returns by how much torch.cuda.memory_allocated() fell."""
        self.process.stdin.write(" ".join(names) + "\n")
        self.process.stdin.flush()
        before, self.allocated = self.allocated, int(self.process.stdout.readline())
        return before - self.allocated

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def program(sim_env):
    """A program in which nothing changes."""
    program = Program({**sim_env(), **KEEP_WORKSPACES})
    yield program
    program.end()


@pytest.fixture(scope="module")
def changing(sim_env):
    """A program in which each test deletes different variables, and asks before it does."""
    program = Program({**sim_env(), **KEEP_WORKSPACES})
    yield program
    program.end()


@pytest.fixture(scope="module")
def ask(run_gpumem):
    def call(program, *options):
        return run_gpumem("retained", "--pid", program.pid, "--json", *options).check().json()

    return call


@pytest.fixture(scope="module")
def first(program, ask):
    return ask(program)


def root(answer, variable):
    found = [node for node in answer["roots"] if node.get("variable") == variable]
    assert len(found) < 2
    return found[0] if found else {"bytes": 0, "blocks": 0, "children": []}


def shared(answer, *by):
    return sum(group["bytes"] for group in answer["shared_groups"] if sorted(group["by"]) == sorted(by))


def part(node, *texts):
    for text in texts:
        node = next(child for child in node["children"] if child["text"] == text)
    return node


def check_sums(node):
    if node["children"]:
        assert sum(child["bytes"] for child in node["children"]) == node["bytes"], node["text"]
        assert sum(child["blocks"] for child in node["children"]) == node["blocks"], node["text"]
    for child in node["children"]:
        check_sums(child)


def test_the_sum_is_what_pytorch_calls_allocated(first, program):
    assert first["allocated"] == first["allocator"] == program.allocated
    assert sum(node["bytes"] for node in first["roots"]) + first["shared"] + first["unknown"] == program.allocated


def test_parts_add_up_on_every_level(first):
    groups = first["roots"] + first["shared_groups"] + first["unknown_groups"]
    for node in groups:
        check_sums(node)
    assert sum(node["bytes"] for node in first["shared_groups"]) == first["shared"]
    assert sum(node["bytes"] for node in first["unknown_groups"]) == first["unknown"]


def test_all_references_are_found_but_the_hidden_one(first):
    assert first["storages"] - first["storages_complete"] == 1
    assert first["complete"] is False
    hidden = [node for node in first["unknown_groups"] if node["variable"] == "references that were not found"]
    assert [(node["bytes"], node["text"]) for node in hidden] == [
        (2 << 20, "references that were not found: float32 [2, 262144]")
    ]


def test_an_optimizers_state_is_recognized_by_its_names_and_by_parameter(first, program):
    state = root(first, "global 'optimizer'")
    assert state["text"] == "global 'optimizer' .state"
    assert [child["text"] for child in state["children"]] == ["exp_avg", "exp_avg_sq"]
    assert state["children"][0]["bytes"] == state["children"][1]["bytes"]
    assert part(state, "exp_avg", "embedding.weight")["bytes"] == 1000 * 256 * 4
    layers = part(state, "exp_avg", "layers")
    assert sorted(child["text"] for child in layers["children"]) == ["layers.0", "layers.1", "layers.2"]


def test_parameters_and_gradients_are_shared_by_model_and_optimizer(first):
    group = next(g for g in first["shared_groups"] if g["by"] == ["global 'model'", "global 'optimizer'"])
    assert {child["text"] for child in group["children"]} == {"parameters", ".grad"}
    assert part(group, "parameters")["bytes"] == part(group, ".grad")["bytes"]
    weights = 1000 * 256 + 3 * 2 * (256 * 256 + 256)
    assert part(group, "parameters")["bytes"] == weights * 4


def test_a_model_is_recognized_by_parameters_and_buffers(first):
    ema = root(first, "global 'ema'")
    assert {child["text"] for child in ema["children"]} == {"parameters", "buffers: layers"}
    assert part(ema, "buffers: layers")["bytes"] == 3 * 256 * 256 * 4
    assert part(ema, "parameters", "layers", "layers.1", "layers.1.first")["blocks"] == 2


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 20))])
def test_a_module_is_known_by_any_of_its_bases(sim_env, run_gpumem, spawn, seed):
    program = Path(__file__).with_name("programs") / "class_lattices.py"
    process = spawn([PYTHON, program, str(seed), "40"], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    truth = json.loads(process.stdout.readline())["names"]
    roots = run_gpumem("retained", "--pid", process.pid, "--json").check().json()["roots"]
    told = {root["variable"]: root["text"] for root in roots}
    assert told == {f"global '{name}'": f"global '{name}': parameters: layer" for name in truth}
    assert sum(order.index("Module") > 3 for order in truth.values()) > 5


def test_models_that_share_an_embedding_share_its_bytes(first):
    assert shared(first, "global 'left'", "global 'right'") == 5000 * 256 * 4


def test_saved_activations_belong_to_the_loss(first):
    loss = root(first, "global 'loss'")
    assert "saved for backward" in loss["text"] or any("saved for backward" in c["text"] for c in loss["children"])


def test_items_of_one_list_are_one_line(first):
    assert root(first, "global 'leak'")["text"] == "global 'leak': 20 items['output']"
    assert root(first, "global 'leak'")["blocks"] == 20
    assert root(first, "local 'history' of serve()")["text"] == "local 'history' of serve(): 10 items"
    assert root(first, "local 'history' of serve()")["at"].startswith("retained.py:")


def test_names_of_one_object_are_one_variable(first):
    same = root(first, "global 'same'")
    assert same["bytes"] == 5 << 20 and same["also"] == ["global 'also_same'"]


def test_one_tensor_in_two_lists_is_shared(first):
    assert shared(first, "global 'two_lists_a'", "global 'two_lists_b'") == 7 << 20


def test_workspaces_and_autocasts_cache_are_named(first):
    assert root(first, "cuBLAS workspaces")["kind"] == "library"
    assert root(first, "cuBLAS workspaces")["bytes"] > 0
    # the cast weight itself; its bias is below a block's grain
    assert root(first, "autocast's cache of cast weights")["bytes"] == 1024 * 1024 * 2 + 2048


def test_levels_and_least_bytes_bound_the_answer(ask, program):
    flat = ask(program, "--depth", "1")
    assert flat["roots"] and all(node["children"] == [] for node in flat["roots"])
    large = ask(program, "--min", "1000000")
    nodes = [*large["roots"]]
    while nodes:
        node = nodes.pop()
        assert all(child["bytes"] >= 1000000 for child in node["children"])
        nodes += node["children"]


def test_text_gives_the_same_answer(run_gpumem, program, first):
    text = run_gpumem("retained", "--pid", program.pid).check().out
    assert f"({first['allocated']:,} bytes)" in text
    assert "global 'leak': 20 items['output']" in text
    assert "shared by global 'two_lists_a' and global 'two_lists_b'" in text
    assert f"all references found for {first['storages_complete']} of {first['storages']} storages" in text


def test_a_core_gives_the_same_answer(program, first, run_gpumem, tmp_path):
    core = tmp_path / "core"
    try:
        run_gpumem("core", program.pid, "-o", core).check()
        answer = run_gpumem("retained", "--core", core, "--json").check().json()
    finally:
        core.unlink(missing_ok=True)
    assert without_scan(answer) == without_scan(first)


def test_gdb_gives_the_same_answer(program, first, run_gdb):
    done = run_gdb(["gpumem retained --json", "gpumem retained --depth 1"], pid=program.pid, symbols=False)
    assert without_scan(done[0].json()) == without_scan(first)
    assert "global 'leak': 20 items['output']" in done[1]


def test_two_stops_in_gdb_are_compared(run_gdb, tmp_path):
    saved = tmp_path / "step2"
    done = run_gdb(
        ["gpumem record", "gpumem until step=2", f"gpumem retained --save {saved}", "gpumem until step=4",
         f"gpumem retained --diff {saved}"],
        PROGRAM.parents[1] / "programs" / "grows.py",
    )  # fmt: skip
    assert "global 'kept': 1 item" in done[2]
    assert re.search(r"\+2\.00 MiB +1\.00 MiB +3\.00 MiB +\+2 +global 'kept': 3 items", done[4])


def without_scan(answer):
    return {key: value for key, value in answer.items() if key not in ("scan", "pause")}


@pytest.fixture(scope="module")
def saved(run_gpumem, program, tmp_path_factory):
    """The first answer in a file."""
    path = tmp_path_factory.mktemp("retained") / "before.json"
    run_gpumem("retained", "--pid", program.pid, "--save", path).check()
    return path


def test_an_answer_that_cannot_be_saved_leaves_no_file(run_gpumem, program, tmp_path):
    small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    done = run_gpumem("retained", "--pid", program.pid, "--save", tmp_path / "before.json", preexec_fn=small).check(4)
    assert "before.json: cannot be written: File too large" in done.err and not list(tmp_path.iterdir())


def test_an_unchanged_process_is_reported_as_such(run_gpumem, program, saved):
    assert "nothing changed" in run_gpumem("retained", "--pid", program.pid, "--diff", saved).check().out
    assert "nothing changed" in run_gpumem("retained", "--diff", saved, saved).check().out


def test_a_file_that_is_not_a_saved_answer_is_refused(run_gpumem, program, saved, tmp_path):
    whole = saved.read_bytes()
    damaged = tmp_path / "damaged.json"
    for cut in (0, 1, 100, len(whole) // 2, len(whole) - 3):
        damaged.write_bytes(whole[:cut])
        done = run_gpumem("retained", "--diff", damaged, saved).check(3)
        assert done.err.startswith(f"gpumem: {damaged}: not a saved answer of `gpumem retained`")
    for text in (b"[]", b"{}", b'{"format": "gpumem-retained-1"}', whole.replace(b'"bytes"', b'"size"')):
        damaged.write_bytes(text)
        run_gpumem("retained", "--diff", damaged, saved).check(3)
    deep = b'{"text": "x", "bytes": 1, "blocks": 1, "children": [' * 1000 + b"]}" * 1000
    damaged.write_bytes(
        b'{"format": "gpumem-retained-1", "device": 0, "allocated": 1, "allocated_blocks": 1, "shared_groups": [],'
        b' "unknown_groups": [], "roots": [' + deep + b"]}"
    )
    run_gpumem("retained", "--diff", damaged, saved).check(3)
    run_gpumem("retained", "--diff", tmp_path / "none", saved).check(3)
    run_gpumem("retained", saved).check(2)


# --- what is really freed, by a second program ------------------------------------------------------------------


def test_garbage_is_what_the_collector_frees(ask, changing):
    changing.release("make", "a", "cycle")
    garbage = root(ask(changing), "garbage cycles")
    assert garbage["kind"] == "garbage" and garbage["bytes"] >= 3 << 20
    assert changing.release() == garbage["bytes"]
    assert root(ask(changing), "garbage cycles")["bytes"] == 0


# No two of these share anything.
APART = [
    "local 'history' of serve()",
    "local 'argument' of serve()",
    "local 'boxed' of serve()",
    "local 'generator' of serve()",
    "global 'views'",
    "global 'lone_view'",
    "global 'closure'",
    "global 'cache'",
    "global 'untyped'",
    "global 'ema'",
]


def test_releasing_a_variable_frees_its_retained_bytes(ask, changing):
    answer = ask(changing)
    changing.release()
    for variable in APART:
        told = root(answer, variable)
        # until CPython 3.10 a call's arguments stay with its caller, which is told: the memory stays with one of the names
        stays = any(name.startswith("an operand of ") for name in told.get("also", []))
        freed = changing.release(variable.split("'")[1])
        assert told["bytes"] > 0 and freed == (0 if stays else told["bytes"]), variable


def test_released_memory_is_shown_by_a_comparison(run_gpumem, ask, changing, tmp_path):
    saved = tmp_path / "before.json"
    changing.release()
    before, leak = changing.allocated, root(ask(changing), "global 'leak'")["bytes"]
    run_gpumem("retained", "--pid", changing.pid, "--save", saved).check()
    assert changing.release("leak") == leak > 0
    done = run_gpumem("retained", "--pid", changing.pid, "--diff", saved, "--json").check().json()
    (device,) = done["devices"]
    assert device["change"] == changing.allocated - before
    changes = {change["text"]: change for change in device["changes"]}
    assert set(changes) == {"global 'leak': 20 items['output']"}
    told = changes["global 'leak': 20 items['output']"]
    assert (told["before"], told["after"], told["blocks_change"]) == (leak, 0, -20)
    text = run_gpumem("retained", "--pid", changing.pid, "--diff", saved).check().out
    assert "global 'leak': 20 items['output'] (gone)" in text


# Deleting the first of each pair frees only its own bytes; then the shared bytes belong to the second.
PAIRS = [
    ("global 'two_lists_a'", "global 'two_lists_b'"),
    ("global 'left'", "global 'right'"),
    ("global 'optimizer'", "global 'model'"),
]


@pytest.mark.parametrize("pair", [*(pytest.param(pair, marks=pytest.mark.long) for pair in PAIRS[:2]), PAIRS[2]])
def test_shared_bytes_are_freed_with_the_second_variable(ask, changing, pair):
    loss = root(ask(changing), "global 'loss'")["bytes"]
    assert changing.release("loss") >= loss  # its graph has the model's parameters too
    before = ask(changing)
    assert before["allocated"] == changing.allocated
    both = shared(before, *pair)
    assert both > 0
    assert changing.release(pair[0].split("'")[1]) == root(before, pair[0])["bytes"]
    after = ask(changing)
    assert root(after, pair[1])["bytes"] == root(before, pair[1])["bytes"] + both
    assert changing.release(pair[1].split("'")[1]) == root(after, pair[1])["bytes"]


def test_releasing_all_names_frees_the_object(ask, changing):
    changing.release()
    kept = root(ask(changing), "global 'same'")["bytes"]
    assert changing.release("also_same") == 0
    assert root(ask(changing), "global 'same'")["bytes"] == kept
    assert changing.release("same") == kept


def test_leaving_autocast_frees_its_cache(ask, changing):
    changing.release()
    kept = root(ask(changing), "autocast's cache of cast weights")["bytes"]
    assert changing.release("autocast") == kept > 0


def test_after_all_releases_workspaces_are_named_and_the_sum_is_the_allocators(ask, changing):
    changing.release("loss")
    answer = ask(changing)
    assert answer["allocated"] == changing.allocated
    assert {node["text"] for node in answer["roots"]} >= {"cuBLAS workspaces"}


# --- what DistributedDataParallel keeps in C++ -------------------------------------------------------------


@pytest.mark.long  # test_ways.py asks who holds such a bucket
def test_ddp_s_buckets_are_the_models_and_all_their_references_are_found(spawn, python, sim_env, run_gpumem):
    process = spawn([python, "-W", "ignore", PROGRAM.parents[1] / "programs" / "ddp_held.py"], env=sim_env(), stdout=subprocess.PIPE)
    line = process.stdout.readline()
    while not re.match(r"\d+ \d+ ", line):  # gloo says that it is connected
        assert line, "the program ended"
        line = process.stdout.readline()
    pid, allocated, *buckets = map(int, line.split())
    answer = run_gpumem("retained", "--pid", pid, "--json").check().json()
    assert answer["allocated"] == allocated == sum(root["bytes"] for root in answer["roots"]) + answer["shared"] + answer["unknown"]
    assert answer["complete"] is True and answer["unknown"] == 0
    (found,) = [root for root in answer["roots"] if root["text"].startswith("global 'parallel' .reducer")]
    # a block above 1 MiB may keep a rest of up to 1 MiB
    assert found["blocks"] == len(buckets) and sum(buckets) <= found["bytes"] < sum(buckets) + (len(buckets) << 20)
    blocks = run_gpumem("blocks", "--pid", pid, "--json").check().json()["blocks"]
    address = next(block["address"] for block in blocks if block.get("requested") == max(buckets))
    held = run_gpumem("who-holds", "--pid", pid, address, "--json").check().json()
    assert held["complete"] is True
    assert all(re.match(r"(gradients|bucket_views_in\[\d\]|bucket_views_out\[\d\]|future_work) of DDP's bucket \d: attribute 'reducer' of "
                        r"DistributedDataParallel: global 'parallel' ", holder["text"]) for holder in held["holders"])  # fmt: skip
    assert {holder["class"] for holder in held["holders"]} == {"proven"}
