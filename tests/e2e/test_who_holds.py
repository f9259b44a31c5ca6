"""who-holds on the real PyTorch, on a live process and on a core dump of it: each way of holding a tensor is named
as it is, all references are found, and nothing is reported that holds nothing."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import PYTHON_VERSION

UNTIL_310 = PYTHON_VERSION < (3, 11)
PROGRAM = Path(__file__).parent / "data" / "holders.py"
GLOBAL = "global '{}' of module __main__ (holders.py)".format

# what is held -> every holder, exactly
WAYS = {
    "global": [GLOBAL("a_global")],
    "two_names": [GLOBAL("first_name"), GLOBAL("second_name")],
    "list_item": [f"item 1 of list: {GLOBAL('a_list')}"],
    "twice_in_list": [f"item 0 of list: {GLOBAL('twice_in_list')}", f"item 1 of list: {GLOBAL('twice_in_list')}"],
    "nested_tuple": [f"item 1 of tuple: item 1 of tuple: {GLOBAL('a_tuple')}"],
    "dict_key": [f"key 'kept' of dict: {GLOBAL('a_dict')}"],
    "int_key": [f"key '7' of dict: {GLOBAL('int_dict')}"],
    "dict_key_itself": [f"a key itself of dict: {GLOBAL('key_itself')}"],
    "ordered_dict": [f"key 'kept' of OrderedDict: {GLOBAL('ordered')}"],
    "defaultdict": [f"item 0 of list: key 'x' of defaultdict: {GLOBAL('defaults')}"],
    "deque": [f"item 2 of deque: {GLOBAL('a_deque')}"],
    "set": [f"item of set: {GLOBAL('a_set')}"],
    "frozenset": [f"item of frozenset: {GLOBAL('a_frozenset')}"],
    "deeply_nested": [
        f"item 1 of tuple: key 'b' of dict: item 0 of list: key 'a' of dict: {GLOBAL('nested')}"
    ],
    "namedtuple": [f"item 1 of Pair: {GLOBAL('pair')}"],
    "iterator": [f"item 0 of list: sequence of list_iterator: {GLOBAL('iterator')}"],
    "attribute": [f"attribute 'kept' of Plain: {GLOBAL('plain')}"],
    "class_attribute": [f"attribute 'shared' of class WithClassAttribute: {GLOBAL('WithClassAttribute')}"],
    "slot": [f"attribute 'kept' of Slots: {GLOBAL('slots')}"],
    "attribute_dict_list": [
        f"item 0 of list: key 'acts' of dict: attribute 'cache' of Child: {GLOBAL('child')}"
    ],
    "attribute_of_attribute": [
        f"attribute 'kept' of Plain: attribute 'inner' of Plain: {GLOBAL('chained')}"
    ],
    "bound_method": [f"attribute 'kept' of Method: self of bound method Method.call: {GLOBAL('bound')}"],
    "partial": [f"item 0 of tuple: args of partial: {GLOBAL('partial')}"],
    "attribute_of_tensor": [f"attribute 'note' of Tensor: {GLOBAL('on_tensor')}"],
    "function_attribute": [f"attribute 'note' of function: {GLOBAL('with_default')}"],
    "default": [f"default argument of with_default(): {GLOBAL('with_default')}"],
    "keyword_default": [f"default of argument 'named' of with_default(): {GLOBAL('with_default')}"],
    "closure": [f"closure variable 'captured' of make_closure.<locals>.<lambda>(): {GLOBAL('closure')}"],
    "generator": [f"local 'inside' of generator generate(): {GLOBAL('generator')}"],
    "coroutine": [f"local 'inside' of coroutine wait(): {GLOBAL('coroutine')}"],
    "traceback": [f"local 'lost' of raise_it(): traceback of ValueError: {GLOBAL('kept_error')}"],
    "view": [GLOBAL("view")],
    "detached": [GLOBAL("detached")],
    "data_attribute": [GLOBAL("of_data")],
    "untyped_storage": [GLOBAL("storage")],
    "typed_storage": [f"attribute '_untyped_storage' of TypedStorage: {GLOBAL('typed')}"],
    "typed_storage_with_dict": [f"attribute '_untyped_storage' of TypedStorage: {GLOBAL('typed_with_dict')}"],
    "two_views": [GLOBAL("top"), GLOBAL("bottom")],
    "saved_by_mm": [f"saved 'self' of MmBackward0, in the graph of: {GLOBAL('loss')}"],
    "saved_output": [f"saved 'result' of ExpBackward0, in the graph of: {GLOBAL('chain')}"],
    "leaf_of_graph": [f"leaf of the autograd graph, in the graph of: {GLOBAL('from_leaf')}"],
    "context_saved": [f"saved by ScaleBackward, in the graph of: {GLOBAL('scaled')}"],
    "context_attribute": [f"attribute 'extra' of ScaleBackward, in the graph of: {GLOBAL('scaled')}"],
    "hook": [
        "closure variable 'scale' of make_hook.<locals>.<lambda>(): key '0' of OrderedDict: hook of a tensor: "
        + GLOBAL("hooked")
    ],
    "grad_fn_object": [f"saved 'self' of MmBackward0, in the graph of: {GLOBAL('grad_fn_only')}"],
    "grad_of_global": [f".grad of a Tensor: {GLOBAL('weights')}"],
    "buffer": [f"buffer 'running' of Sequential: {GLOBAL('net')}"],
    "parameter": [
        f"parameter 'weight' of Linear: module '0' of Sequential: {GLOBAL('net')}",
        f"item 0 of list: key 'params' of dict: item 0 of list: attribute 'param_groups' of AdamW: {GLOBAL('optimizer')}",
        f"a key itself of defaultdict: attribute 'state' of AdamW: {GLOBAL('optimizer')}",
    ],
    "grad": [
        f".grad of a Parameter: parameter 'weight' of Linear: module '0' of Sequential: {GLOBAL('net')}",
        ".grad of a Parameter: item 0 of list: key 'params' of dict: item 0 of list: attribute 'param_groups' of AdamW: "
        + GLOBAL("optimizer"),
    ],
    "optimizer_state": [f"optimizer state 'exp_avg' of AdamW for parameter '0.weight': {GLOBAL('optimizer')}"],
    "garbage": ["item 0 of list: a garbage cycle: nothing else holds it, gc.collect() would free it"],
    "thread_local": ["local 'local' of in_thread() at holders.py:LINE"],
    "rebound": ["local 'rebound' of last() at holders.py:LINE"],
    "cell": [
        "local 'cell' of last() at holders.py:LINE",
        "closure variable 'cell' of last.<locals>.inner(): local 'inner' of last() at holders.py:LINE",
    ],
    "argument": ["local 'argument' of last() at holders.py:LINE"],
    "star_argument": ["item 0 of tuple: local 'rest' of last() at holders.py:LINE"],
    "keyword_argument": ["key 'named' of dict: local 'named' of last() at holders.py:LINE"],
    "caller_local": ["local 'held' of middle() at holders.py:LINE"],
}


def line_of(text):
    """The only line of the program that contains the text."""
    lines = [n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if text in line]
    assert len(lines) >= 1
    return lines


class Target:
    def __init__(self, process):
        self.process = process
        line = process.stdout.readline()
        assert line.startswith("{"), f"the program said {line!r}, not where its tensors are"
        self.facts = json.loads(line)
        self.pid = self.facts["pid"]
        self.threads = sorted(entry.name for entry in Path(f"/proc/{self.pid}/task").iterdir())

    def address(self, way):
        return hex(self.facts["where"][way])


def start(python, device, env=None):
    command = [python, "-W", "ignore", PROGRAM, device]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=env)


@pytest.fixture(scope="module")
def target(python):
    process = start(python, "cpu")
    try:
        yield Target(process)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def core(target, make_core, tmp_path_factory):
    """A core of the process: made once, because it has gigabytes, and removed at the end."""
    path = make_core(target.pid, tmp_path_factory.mktemp("core"))
    yield path
    path.unlink()


@pytest.fixture(scope="module", params=["live", pytest.param("core", marks=pytest.mark.long)])  # cores: see DEVICE_WAYS
def ask(request, target, run_gpumem):
    if request.param == "live":
        where = ["--pid", str(target.pid)]
    else:
        where = ["--core", request.getfixturevalue("core")]

    def call(block, *options):
        return run_gpumem("who-holds", *where, str(block), *options)

    return call


def without_lines(text):
    head, colon, line = text.rpartition("holders.py:")
    return f"{head}{colon}LINE" if colon else text


def told(answer):
    """The holders' texts as on the newest Python. Until 3.10 a call's arguments stay with its caller, and a generator's frame is an
    object of its own."""
    texts = [without_lines(holder["text"]) for holder in answer["holders"]]
    if UNTIL_310:
        texts = [text.replace("generate(): gi_frame of generator:", "generator generate():") for text in texts]
        texts = [text for text in texts if not text.startswith("an operand of ")]
    return texts


def check_holders(answer, way):
    assert sorted(told(answer)) == sorted(WAYS[way])
    assert {holder["class"] for holder in answer["holders"]} == {"proven"}
    assert answer["complete"] is True
    assert answer["notes"] == []
    assert [(s["found"], s["refcount"]) for s in answer["storages"]] == [(s["refcount"],) * 2 for s in answer["storages"]]


# test_ways.py asks about all the others
@pytest.mark.parametrize("way", ["global", "list_item", "rebound"])
def test_every_holder_is_named_and_nothing_else(target, ask, way):
    check_holders(ask(target.address(way), "--json").check().json(), way)


def test_a_path_goes_from_the_root_to_the_storage(target, ask):
    path = ask(target.address("attribute_dict_list"), "--json").check().json()["holders"][0]["path"]
    assert [step["kind"] for step in path] == ["global", "attribute", "key", "item", "tensor", "storage"]
    assert [step.get("name") for step in path[:3]] == ["child", "cache", "acts"]
    assert path[0]["module"] == "__main__"
    assert path[3]["index"] == 0


def test_a_local_has_its_functions_current_line(target, ask):
    step = ask(target.address("caller_local"), "--json").check().json()["holders"][0]["path"][0]
    assert step["function"] == "middle"
    assert step["file"] == str(PROGRAM)
    assert [step["line"]] == line_of("    last(big(")


def test_a_saved_tensors_path_leads_through_the_graph(target, ask):
    path = ask(target.address("saved_output"), "--json").check().json()["holders"][0]["path"]
    assert [step["kind"] for step in path] == ["global", "tensor", "grad_fn", "saved_tensor", "tensor", "storage"]
    assert [step.get("name") for step in path[2:4]] == ["SumBackward0", "ExpBackward0"]


def test_what_looks_a_parameter_up_is_last(target, ask):
    """An optimizer's state has it as a key: a short path, and not what the reader looks for."""
    assert told(ask(target.address("parameter"), "--json").check().json()) == WAYS["parameter"]


def test_an_optimizers_state_has_its_kind(target, ask):
    path = ask(target.address("optimizer_state"), "--json").check().json()["holders"][0]["path"]
    assert [step["kind"] for step in path] == ["global", "optimizer_state", "tensor", "storage"]


def test_the_block_shows_its_size_shape_and_dtype(target, ask):
    block = ask(target.address("global"), "--json").check().json()["block"]
    assert block["address"] == target.address("global")
    assert block["size"] == 300 * 300 * 4
    assert block["tensor"] == "float32 [300, 300]"


def test_any_address_within_the_block_selects_it(target, ask):
    inside = hex(target.facts["where"]["global"] + 4097)
    answer = ask(inside, "--json").check().json()
    assert answer["block"]["address"] == target.address("global")
    assert [without_lines(holder["text"]) for holder in answer["holders"]] == WAYS["global"]


@pytest.mark.parametrize(
    "path, way",
    [("rebound", "rebound"), ("a_list[1]", "list_item"), ("child.cache['acts'][0]", "attribute_dict_list"),
     ("storage", "untyped_storage"), ("typed", "typed_storage"),
     ("typed_with_dict", "typed_storage_with_dict")],
)  # fmt: skip
def test_a_variable_path_names_the_block(target, ask, path, way):
    assert ask(path, "--json").check().json()["block"]["address"] == target.address(way)


def test_the_text_says_how_complete_it_is(target, ask):
    out = ask(target.address("list_item")).check().out
    assert f"block {target.address('list_item')}, 360,000 bytes, host memory: float32 [300, 300]" in out
    assert ": complete: every reference was found (1 of 1)" in out
    assert f"\n  {WAYS['list_item'][0]}\n" in out


def test_memory_that_was_released_has_no_holder(target, ask):
    run = ask(hex(target.facts["stale"])).check(4)
    assert f"{hex(target.facts['stale'])}: in no block: it is not mapped, and in no segment of a device" in run.err
    assert run.out == ""


@pytest.mark.parametrize(
    "block, status, message",
    [
        ("0x10", 4, "0x10: in no block: it is not mapped, and in no segment of a device: "),
        ("a_list", 2, "'a_list': a list, not a tensor: name a tensor (for example a_list[0], or"),
        ("no_such_name", 2, "no_such_name: no variable 'no_such_name'"),
        ("0xzz", 2, "BLOCK '0xzz': not a number: "),
        ("12", 2, "BLOCK '12': is it an address (write 0x12) or an event's number (write #12)?"),
        ("#3", 4, "no CUDA memory: "),  # an event of PyTorch's own trace
    ],
)
def test_a_word_that_names_no_block_is_refused_with_a_reason(ask, block, status, message):
    run = ask(block).check(status)
    assert run.out == ""
    assert f"gpumem: {message}" in run.err


def test_a_process_without_python_is_refused(run_gpumem, spawn):
    sleeper = spawn(["sleep", "100"])
    run = run_gpumem("who-holds", "--pid", str(sleeper.pid), "0x1000").check(4)
    assert run.err.startswith("gpumem: ")


def test_a_process_without_torch_is_refused(run_gpumem, spawn, python):
    child = spawn([python, "-c", "import time; print(1, flush=True); time.sleep(100)"], stdout=subprocess.PIPE)
    child.stdout.readline()
    run = run_gpumem("who-holds", "--pid", str(child.pid), "0x1000").check(4)
    assert "torch is not loaded yet" in run.err


def test_no_such_process_is_refused(run_gpumem):
    run = run_gpumem("who-holds", "--pid", str(2**22 - 1), "0x1000").check(4)
    assert run.err.startswith("gpumem: process ")


# --- cores

DEVICE_WAYS = """two_names closure generator saved_by_mm hook grad optimizer_state thread_local rebound""".split()
# All of them are asked about in test_ways.py, of a core too.
MORE_WAYS = """twice_in_list set slot traceback two_views context_saved buffer parameter garbage cell keyword_argument""".split()


@pytest.fixture(scope="module")
def device_core(python, sim_env, make_core, tmp_path_factory):
    """The same program on the simulated device: (its facts, its core); it has ended before the questions."""
    process = start(python, "cuda", env=sim_env())
    try:
        target = Target(process)
        path = make_core(target.pid, tmp_path_factory.mktemp("device"))
    finally:
        process.kill()
        process.wait()
    yield target, path
    path.unlink()


@pytest.mark.parametrize("way", [*DEVICE_WAYS, *(pytest.param(way, marks=pytest.mark.long) for way in MORE_WAYS)])
def test_a_core_without_device_memory_names_every_holder(device_core, run_gpumem, way):
    target, core = device_core
    answer = run_gpumem("who-holds", "--core", core, target.address(way), "--json").check().json()
    assert answer["block"]["device"] == 0
    check_holders(answer, way)


def test_another_thread_of_a_core_has_its_own_variables(device_core, run_gpumem):
    target, core = device_core
    run_gpumem("who-holds", "--core", core, "local").check(2)
    for thread in target.threads:
        run = run_gpumem("who-holds", "--core", core, "--thread", thread, "local", "--json")
        if run.status == 0 and run.json()["block"]["address"] == target.address("thread_local"):
            return
    pytest.fail("no thread's variables have it")


def test_doctor_shows_which_questions_a_core_can_answer(device_core, run_gpumem):
    answer = run_gpumem("doctor", "--core", device_core[1], "--json").check().json()
    found = {check["name"]: check for check in answer["process"]["checks"]}
    assert answer["process"]["core"] == str(device_core[1])
    assert "caching allocator" in found["allocator"]["value"]
    works = {command["name"]: command["works"] for command in answer["commands"]}
    assert works["who-holds"] and not works["record"]


@pytest.fixture(scope="module")
def small_core(run, gdb_works, tmp_path_factory):
    """A core of a program without Python, written by gcore."""
    if not shutil.which("gcore"):
        pytest.skip("no gcore on this machine")
    path = tmp_path_factory.mktemp("small") / "core"
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        run(["gcore", "-o", path, sleeper.pid]).check()
        return path.with_name(f"core.{sleeper.pid}")
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_core_of_another_program_is_refused(small_core, run_gpumem):
    run = run_gpumem("who-holds", "--core", small_core, "0x1000").check(4)
    assert run.err.startswith(f"gpumem: {small_core}: no Python in it")


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.3, 0.6, 0.9])
def test_a_core_cut_short_is_refused(small_core, run_gpumem, tmp_path, share):
    whole = small_core.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(whole[: int(len(whole) * share)])
    run = run_gpumem("who-holds", "--core", cut, "0x1000").check(3)
    assert run.err.startswith(f"gpumem: {cut}: offset 0x")


@pytest.mark.parametrize(
    "offset, value, why",
    [
        (4, 1, "offset 0x4: it is of a 32-bit program"),
        (5, 2, "offset 0x5: it is of another kind of machine (big-endian)"),
        (18, 0xB7, "offset 0x12: it is of another kind of machine (AArch64)"),
    ],
    ids=["32-bit", "big-endian", "aarch64"],
)
def test_a_core_of_another_machine_is_refused(small_core, run_gpumem, tmp_path, offset, value, why):
    foreign = bytearray(small_core.read_bytes())
    foreign[offset] = value
    path = tmp_path / "foreign"
    path.write_bytes(foreign)
    run = run_gpumem("who-holds", "--core", path, "0x1000").check(3)
    assert f"{path}: {why}: give a core dump of an x86-64 program" in run.err


def test_a_core_that_is_not_there_is_refused(run_gpumem, tmp_path):
    run = run_gpumem("who-holds", "--core", tmp_path / "none", "0x1000").check(4)
    assert "the core cannot be opened" in run.err


def test_a_core_and_a_process_at_once_are_wrong_usage(run_gpumem):
    run_gpumem("who-holds", "--core", "core", "--pid", "1", "0x1000").check(2)


# --- in gdb, on the simulated device

STOPPED = """
import signal, sys, torch

history = []


def train(steps):
    layer = torch.nn.Linear(1000, 500, device="cuda")
    for step in range(steps):
        inputs = torch.ones(2000, 1000, device="cuda")
        output = layer(inputs)
        history.append(output.detach())
        torch.zeros(10, 10, device="cuda")
        signal.raise_signal(signal.SIGUSR1)


train(2)
"""


@pytest.fixture(scope="module")
def stopped_in_gdb(run_gdb, tmp_path_factory):
    program = tmp_path_factory.mktemp("stopped") / "train.py"
    program.write_text(STOPPED)
    commands = [
        "handle SIGUSR1 stop print nopass",
        "run",
        "gpumem who-holds output",
        "gpumem who-holds inputs --json",
        "gpumem who-holds layer",
        "gpumem who-holds nothing_so_named",
        "gpumem who-holds 0x6d0000000000 ",
        "continue",
        "gpumem who-holds history[0]",
    ]
    return run_gdb(commands, program, symbols=False)  # test_record.py attaches with all symbols read, test_frames.py records with them


def test_gdb_answers_for_a_variable_of_the_stopped_frame(stopped_in_gdb):
    out = stopped_in_gdb[2]
    assert "device 0: float32 [2000, 500]" in out
    assert "storage" in out and "complete: every reference was found (2 of 2)" in out
    assert "\n  local 'output' of train() at train.py:14\n" in out
    assert "\n  item 0 of list: global 'history' of module __main__ (train.py)\n" in out


@pytest.mark.every_debugger
def test_gdb_answers_in_json_with_the_graph(stopped_in_gdb):
    answer = stopped_in_gdb[3].json()
    assert answer["block"]["device"] == 0
    assert answer["complete"] is True
    assert sorted(holder["text"] for holder in answer["holders"]) == [
        "local 'inputs' of train() at train.py:14",
        "saved 'mat1' of AddmmBackward0, in the graph of: local 'output' of train() at train.py:14",
    ]


MIDDLE = """
import torch

layer = torch.nn.Linear(1000, 500, device="cuda")
inputs = torch.ones(2000, 1000, device="cuda")
print("made", flush=True)
output = layer(inputs)
"""


SUBINTERPRETER = """
import sys, textwrap, torch
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters

other = interpreters.create("legacy") if sys.version_info >= (3, 13) else interpreters.create(isolated=False)

def outer(tensor):
    interpreters.run_string(other, textwrap.dedent(f'''
        import ctypes, sys
        kept = ctypes.cast({id(tensor)}, ctypes.py_object).value
        class Cache: pass
        cache = Cache()
        cache.tensor = kept
        def wait():
            inner = kept
            print({hex(tensor.data_ptr())!r}, flush=True)
            sys.stdin.read()
        wait()
    '''))

outer(torch.ones(1000, 1000))
"""


def test_holders_in_a_subinterpreter_and_in_what_called_it_are_found(spawn, python, run_gpumem, tmp_path):
    program = tmp_path / "subinterpreter.py"
    program.write_text(SUBINTERPRETER)
    process = spawn([python, "-W", "ignore", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    address = process.stdout.readline().strip()
    answer = run_gpumem("who-holds", "--pid", process.pid, address, "--json").check().json()
    assert answer["complete"] is True
    # what run_string() is given is <string>, from 3.14 on <script>
    assert [re.sub(r" at .*", "", text).replace("<script>", "<string>") for text in told(answer)] == [
        "global 'kept' of module __main__ (<string>)",
        "local 'inner' of wait()",
        "local 'tensor' of outer()",
        "attribute 'tensor' of Cache: global 'cache' of module __main__ (<string>)",
    ]


SHARED = """
import sys, torch

class Holder:
    pass

tensor = torch.ones(300, 300)
inner = [tensor]
two_ways = [inner, inner]
model = torch.nn.Module()
shared = torch.nn.Linear(300, 300)
model.encoder, model.decoder = torch.nn.Sequential(shared), torch.nn.Sequential(shared)
kept = torch.ones(300, 300)
holder, names = Holder(), [f"name_{number}" for number in range(100)]
holder.args = arguments = (kept,)
box = [holder]
many = torch.ones(300, 300)
globals().update({name: [many] for name in names})
for name in names:
    globals()[name].append(globals()[name])  # a cycle is not another way
leaf = torch.ones(300, 300, requires_grad=True)
first, second = (leaf * 2).sum(), (leaf * 3).sum()
print(*(hex(one.data_ptr()) for one in (tensor, shared.weight, kept, many, leaf)), flush=True)
del tensor, inner, shared, kept, many, leaf, name
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def shared(python, tmp_path_factory):
    program = tmp_path_factory.mktemp("shared") / "shared.py"
    program.write_text(SHARED)
    process = subprocess.Popen([python, "-W", "ignore", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    addresses = process.stdout.readline().split()
    yield process.pid, dict(zip(("two_ways", "model", "names", "many", "graph"), addresses))
    process.kill()
    process.wait()


def roots_of(answer):
    return sorted({holder["path"][0]["name"] for holder in answer["holders"]})


@pytest.mark.parametrize(
    "way, roots, ways",
    [("two_ways", ["two_ways"], 2), ("model", ["model"], 2), ("names", ["arguments", "box", "holder"], 1), ("graph", ["first", "second"], 1)],
)
def test_every_variable_is_listed_and_its_ways_are_counted(shared, run_gpumem, way, roots, ways):
    pid, where = shared
    answer = run_gpumem("who-holds", "--pid", pid, where[way], "--json").check().json()
    assert answer["complete"] and roots_of(answer) == roots
    assert answer["roots"] == len(roots) and answer["omitted_roots"] == 0
    assert {holder["ways"] for holder in answer["holders"]} == {ways}


def test_paths_that_no_line_shows_are_reported(shared, run_gpumem):
    pid, where = shared
    said = run_gpumem("who-holds", "--pid", pid, where["model"]).check().out
    (line,) = [line for line in said.splitlines() if "global 'model'" in line]
    assert line.endswith("(and 1 other path)")


def test_variables_above_the_limit_are_counted(shared, run_gpumem):
    pid, where = shared
    answer = run_gpumem("who-holds", "--pid", pid, where["many"], "--json").check().json()
    listed = {holder["root"] for holder in answer["holders"]}
    assert answer["complete"] and answer["roots"] == 100
    assert len(listed) + answer["omitted_roots"] == 100 and answer["omitted_roots"] > 0
    said = run_gpumem("who-holds", "--pid", pid, where["many"]).check().out
    assert f"  and {answer['omitted']} more, of {answer['omitted_roots']} other variables\n" in said


FORWARD = """
import sys, torch

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(300, 300)

    def forward(self, value, *, scale=1, **more):
        return self.linear(value) * scale

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(3))

    def forward(self, value, **more):
        for layer in self.layers:
            value = layer(value, scale=2, mask=None, cache={"some": value}, **more)
        return value

model = Model()
optimizer = torch.optim.AdamW(model.parameters())

def stand(module, arguments, keywords):
    print(hex(model.layers[0].linear.weight.data_ptr()), flush=True)
    sys.stdin.read()

model(torch.ones(2, 300), mode="train", count=1).sum().backward()
optimizer.step()
model.layers[2].register_forward_pre_hook(stand, with_kwargs=True)
model(torch.ones(2, 300), mode="train", count=1)
"""


def test_references_of_running_c_code_leave_an_answer_complete(spawn, python, run_gpumem, tmp_path):
    program = tmp_path / "forward.py"
    program.write_text(FORWARD)
    process = spawn([python, "-W", "ignore", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    address = process.stdout.readline().strip()
    answer = run_gpumem("who-holds", "--pid", process.pid, address, "--json").check().json()
    assert answer["complete"] and answer["notes"] == []
    assert {"model", "optimizer", "self", "value"} <= set(roots_of({"holders": [h for h in answer["holders"] if h["path"][0].get("name")]}))
    stacks = [holder for holder in answer["holders"] if holder["path"][0]["kind"] == "native_stack"]
    assert len(stacks) <= 1 and {holder["class"] for holder in stacks} <= {"plausible"}
    assert {holder["class"] for holder in answer["holders"] if holder not in stacks} == {"proven"}


GUESSED = """
import ctypes, random, sys, torch

kept = torch.ones(1000, 1000)
unknown = random.Random()  # a C type whose fields gpumem does not know: its state may look like anything
ctypes.c_uint64.from_address(id(unknown) + 64).value = id(kept)
if sys.argv[1] == "hidden":
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
print(hex(kept.data_ptr()), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("way", ["hidden", pytest.param("plain", marks=pytest.mark.long)])
def test_a_guess_does_not_replace_a_missing_reference(spawn, python, run_gpumem, tmp_path, way):
    program = tmp_path / "guessed.py"
    program.write_text(GUESSED)
    process = spawn([python, program, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    address = process.stdout.readline().strip()
    answer = run_gpumem("who-holds", "--pid", process.pid, address, "--json").check().json()
    classes = {holder["text"]: holder["class"] for holder in answer["holders"]}
    assert classes["global 'kept' of module __main__ (guessed.py)"] == "proven"
    # where known fields explain the count, none is left for the word: then it is known to be no holder
    guess = "word at +64 of Random: global 'unknown' of module __main__ (guessed.py)"
    assert classes.get(guess) == ("plausible" if way == "hidden" else None)
    assert answer["complete"] is (way == "plain")
    told = [note for note in answer["notes"] if "whether it owns what it points to is a guess" in note]
    assert len(told) == (way == "hidden"), answer["notes"]
    if told:
        assert "1 of the 2 references found to the Tensor at " in told[0] and "(it counts 2)" in told[0]


def test_in_the_middle_of_a_call_named_roots_come_first_and_each_line_once(run_gdb, tmp_path):
    program = tmp_path / "middle.py"
    program.write_text(MIDDLE)
    commands = ["gpumem record", "tcatch syscall write", "run", "gpumem step", "gpumem step",
                "gpumem who-holds inputs", "gpumem who-holds inputs --json"]  # fmt: skip
    gdb = run_gdb(commands, program)
    held = gdb[5].split("held by\n")[1]
    lines = [line.strip() for line in held.splitlines() if line.startswith("  ") and not re.match(r"  and \d+ (more|other)", line)]
    assert len(lines) == len(set(lines)) and len(lines) > 2, held
    plausible = ["(plausible)" in line for line in lines]
    assert plausible == sorted(plausible), held
    named = [line.startswith(("local ", "global ")) for line in lines]
    assert named[0] and named == sorted(named, reverse=True), held
    holders = gdb[6].json()["holders"]
    guessed = {h["path"][1]["address"] for h in holders if h["class"] == "plausible" and len(h["path"]) > 1}
    unheld = [h for h in holders if h["text"].endswith("nothing was found that refers to it")]
    assert not [h for h in unheld if h["path"][0].get("address") in guessed], held


def test_gdb_refuses_an_expression_that_is_not_a_tensor_in_one_line(stopped_in_gdb):
    assert "gpumem: 'layer': a Linear, not a tensor: " in stopped_in_gdb[4]
    assert "gpumem: nothing_so_named: " in stopped_in_gdb[5]
    assert "Traceback" not in stopped_in_gdb.out


def test_gdb_reports_memory_that_is_in_no_block(stopped_in_gdb):
    assert "gpumem: 0x6d0000000000: " in stopped_in_gdb[6]


@pytest.mark.every_debugger
def test_gdb_reads_again_after_the_program_has_continued(stopped_in_gdb):
    out = stopped_in_gdb[8]
    assert "every reference was found (1 of 1)" in out
    assert "\n  item 0 of list: global 'history' of module __main__ (train.py)\n" in out
    assert "local 'output'" not in out


COPIES = """
import ctypes, json, os, signal, torch

kept = (torch.ones(90_001, requires_grad=True) * 2).exp()
node = ctypes.c_void_p.from_address(id(kept.grad_fn) + 16).value
copies = [
    ctypes.string_at(address, size)
    for address in (kept._cdata, kept.untyped_storage()._cdata, node)
    for size in (200, 256, 400, 470) * 20
]
del copies[::3]  # the released copies leave their bytes behind too
print(json.dumps([os.getpid(), hex(kept.data_ptr())]), flush=True)
signal.pause()
"""


@pytest.mark.long  # test_ways.py has old words of released objects
def test_copies_of_an_objects_bytes_are_no_objects(python, run_gpumem):
    process = subprocess.Popen([python, "-W", "ignore", "-c", COPIES], stdout=subprocess.PIPE, text=True)
    try:
        pid, address = json.loads(process.stdout.readline())
        answer = run_gpumem("who-holds", address, "--pid", pid, "--json").check().json()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert answer["complete"] is True
    assert answer["notes"] == []
    assert {holder["path"][0].get("name") for holder in answer["holders"]} == {"kept"}
