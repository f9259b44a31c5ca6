"""Programs whose script is a line and whose work is a library's: `peak` and `blocks` tell the library's lines, and the call tree.

Small libraries are made at random with the truth of where their bytes belong (libraries.py), and asked about in a recording
and in PyTorch's snapshot of the same run; transformers' Trainer is asked about as it is installed.
"""

import os
import pickle

import pytest

import libraries
from conftest import needs


class Library:
    """What one run of generated libraries left: a recording and a snapshot."""

    def __init__(self, folder, seeds, gpumem, run, python):
        self.programs, self.truth = libraries.make(folder, seeds)
        self.recording, self.snapshot = folder / "run.gpumem", folder / "run.pickle"
        command = [gpumem, "run", "--sim", "-o", self.recording, "--", python, folder / "run.py", self.snapshot]
        run([*command, "python"], cwd=folder).check()


def last_events(run_gpumem, file, programs):
    """Of each program the last event at which a block of its own was allocated."""
    last = {}
    for event in run_gpumem("events", file, "--json").check().json_lines():
        if event["action"] == "alloc":
            last[event["requested"] or event["size"]] = event["n"]
    return {script: max(last[size] for size in sizes) for script, sizes in programs}


def check_library(library, file, run_gpumem):
    recorded = file == library.recording
    events = last_events(run_gpumem, file, library.programs)
    for script, sizes in library.programs:
        at = ["--at", events[script]]
        listed = run_gpumem("blocks", file, *map(str, at), "--json").check().json()
        found = {block["requested"]: block for block in listed["blocks"]}
        wanted = {}
        for size in sizes:
            truth, block = library.truth[size], found[size]
            site, called_by = block["site"], block.get("called_by")
            told = (site["file"], site["line"], called_by and called_by["file"])
            assert told == (truth["file"], truth["line"], truth["called_by"]), (script, size, block)
            key = (truth["file"], truth["line"])
            wanted[key] = wanted.get(key, 0) + block["size"]
        groups = run_gpumem("blocks", file, *map(str, at), "--by", "line", "--json").check().json()
        assert sum(group["bytes"] for group in groups["groups"]) == groups["allocated"]
        told = {}
        for group in groups["groups"]:
            if "site" in group:
                key = (group["site"]["file"], group["site"]["line"])
                told[key] = told.get(key, 0) + group["bytes"]
        small = 1 << 15  # the programs' inputs, gradients and temporaries beside
        assert all(0 <= told[key] - wanted[key] < small for key in wanted), (script, told, wanted)
        if recorded:  # a snapshot has no names of classes
            modules = run_gpumem("blocks", file, *map(str, at), "--by", "module", "--json").check().json()
            by_path = {}
            for size in sizes:
                path = library.truth[size]["modules"]
                key = " > ".join(path) if path else "(in no module's forward)"
                by_path[key] = by_path.get(key, 0) + found[size]["size"]
            told = {group["key"]: group["bytes"] for group in modules["groups"]}
            assert by_path.keys() <= told.keys() and all(0 <= told[key] - by_path[key] < small for key in by_path), script
        check_tree(run_gpumem("blocks", file, *map(str, at), "--tree", "--json").check().json())


def check_tree(answer):
    """Every call has at least the bytes of those that it made, and the outermost have all."""

    def walk(node):
        below = [walk(child) for child in node["children"]]
        assert sum(node["bytes"] for node in node["children"]) <= node["bytes"]
        assert sum(node["blocks"] for node in node["children"]) <= node["blocks"]
        return 1 + sum(below)

    assert sum(node["bytes"] for node in answer["tree"]) == answer["allocated"]
    return sum(walk(node) for node in answer["tree"])


@pytest.fixture(scope="module", params=[range(12), *(pytest.param(range(first, first + 40), marks=pytest.mark.long) for first in range(100, 2100, 40))], ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def library(request, gpumem, run, python, tmp_path_factory):
    return Library(tmp_path_factory.mktemp("library"), request.param, gpumem, run, python)


@pytest.mark.parametrize("file", ["recording", "snapshot"])
def test_bytes_are_shown_at_the_library_that_works_with_the_model(file, library, run_gpumem):
    check_library(library, getattr(library, file), run_gpumem)


def rows_of(answer):
    (rows,) = [table["groups"] for table in answer["tables"] if table["by"] == "line"]
    return {row["key"]: row["bytes"] for row in rows}


@pytest.mark.parametrize("file", ["recording", "snapshot"])
def test_a_run_compared_with_itself_has_the_lines_that_its_peak_has(file, library, run_gpumem):
    path = getattr(library, file)
    peak = run_gpumem("peak", path, "--json").check().json()
    rows = rows_of(run_gpumem("diff", path, path, "--json").check().json())
    assert rows == {group["key"]: [group["bytes"]] * 2 for group in peak["groups"]}


NET = """import torch

class Net(torch.nn.Module):
    def forward(self, size):
        self.first = torch.empty(size, dtype=torch.uint8, device="cuda")
        self.second = torch.empty(size // 2, dtype=torch.uint8, device="cuda")
"""
CALLS_NET = """import sys, torch
sys.path.insert(0, sys.argv[1])
import net
kept = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
model = net.Net()
model(int(sys.argv[2]) << 20)
"""


def test_a_line_that_is_descended_from_in_one_run_is_in_the_other_too(gpumem, run, python, run_gpumem, tmp_path):
    site = tmp_path / "lib" / "site-packages"
    (site / "net").mkdir(parents=True)
    (site / "net" / "__init__.py").write_text(NET)
    (tmp_path / "calls.py").write_text(CALLS_NET)
    files = [tmp_path / "small.gpumem", tmp_path / "large.gpumem"]
    for file, size in zip(files, ("4", "128")):
        run([gpumem, "run", "--sim", "-o", file, "--", python, tmp_path / "calls.py", site, size]).check()
    rows = rows_of(run_gpumem("diff", *files, "--json").check(1).json())
    net = {key: bytes for key, bytes in rows.items() if "net/__init__.py" in key}
    assert sorted(net.values()) == [[2 << 20, 64 << 20], [4 << 20, 128 << 20]]
    assert all("calls.py:6" in key.split("←")[1] for key in net)
    assert not any(key.split("←")[0].startswith(f"{tmp_path}/calls.py:6") for key in rows)


TRAINER = """import sys, torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 500, (32, 128))]
config = LlamaConfig(vocab_size=500, hidden_size=256, intermediate_size=1024, num_hidden_layers=2, num_attention_heads=4)
arguments = TrainingArguments(sys.argv[1], max_steps=2, per_device_train_batch_size=4, report_to=[], save_strategy="no",
                              disable_tqdm=True, bf16="bf16" in sys.argv)
trainer = Trainer(LlamaForCausalLM(config), arguments, train_dataset=rows)
torch.cuda.memory._record_memory_history(stacks="all" if "all" in sys.argv else "python")
trainer.train()
torch.cuda.memory._dump_snapshot(sys.argv[2])
"""
TRAINER_LINE = TRAINER.split("\n").index("trainer.train()") + 1


@pytest.fixture(scope="module", params=[(), pytest.param(("bf16", "all"), marks=pytest.mark.long)], ids=["fp32", "bf16"])
def trained(request, gpumem, run, python, tmp_path_factory):
    needs("transformers")  # its Trainer is what is asked about
    folder = tmp_path_factory.mktemp("trainer")
    script, recording, snapshot = folder / "hf.py", folder / "run.gpumem", folder / "run.pickle"
    script.write_text(TRAINER)
    command = [gpumem, "run", "--sim", "-o", recording, "--", python, script, folder / "out", snapshot, *request.param]
    run(command, cwd=folder, env={**os.environ, "HF_HUB_OFFLINE": "1"}).check()
    return script, recording, snapshot


@pytest.mark.parametrize("file", ["recording", "snapshot"])
def test_a_trainers_peak_is_recognized_by_the_models_lines(file, trained, run_gpumem):
    script, recording, snapshot = trained
    path = recording if file == "recording" else snapshot
    answer = run_gpumem("peak", path, "--json").check().json()
    groups = answer["groups"]
    assert sum(group["bytes"] for group in groups) == answer["allocated"]
    below = [group for group in groups if group.get("called_by", {}).get("line") == TRAINER_LINE]
    assert all(group["called_by"]["file"] == str(script) for group in below)
    model = [group for group in below if group["site"]["file"].endswith("modeling_llama.py")]
    assert any(group["site"]["function"].endswith("forward") for group in model) and len(model) >= 5
    told = {group["site"]["file"] for group in below}
    if file == "snapshot" and any("/accelerate/" in path for path in told):
        # without qualified names accelerate's own forward(), which it puts in the place of a model's, looks like a module's
        told = {path for path in told if "/accelerate/" not in path}
    assert not [file for file in told if "/torch/" in file or "/accelerate/" in file or "/lib/python" in file and "-packages" not in file]
    text = run_gpumem("peak", path).check().out
    first = max(model, key=lambda group: group["bytes"])["site"]
    assert f"modeling_llama.py:{first['line']} in {first['function']} \u2190 hf.py:{TRAINER_LINE}" in text
    tree = run_gpumem("peak", path, "--tree", "--json").check().json()
    assert check_tree(tree) > 10
    shown = run_gpumem("peak", path, "--tree").check().out
    assert f"hf.py:{TRAINER_LINE} in <module>" in shown and "_call_impl" not in shown


def test_a_models_modules_are_named_from_the_root_through_decorators(trained, run_gpumem):
    _, recording, _ = trained
    answer = run_gpumem("peak", recording, "--by", "module", "--json").check().json()
    paths = [group["key"] for group in answer["groups"] if " > " in group["key"]]
    assert paths and all(path.startswith("LlamaForCausalLM > LlamaModel") for path in paths)
    assert not [group for group in answer["groups"] if "<locals>" in group["key"]]
    # what the forward pass made is in a module; the Trainer itself makes next to nothing in that phase
    blocks = run_gpumem("blocks", recording, "--at-peak", "--json").check().json()["blocks"]
    forward = sum(block["size"] for block in blocks if block["phase"] == "forward")
    inside = sum(group["bytes"] for group in answer["groups"] if group["key"].startswith("Llama"))
    assert forward and abs(forward - inside) <= forward / 50


def test_backwards_blocks_are_recognized_by_node_and_operator(trained, run_gpumem):
    _, recording, _ = trained
    groups = run_gpumem("peak", recording, "--json").check().json()["groups"]
    nodes = {group["node"]: group.get("operator") for group in groups if "node" in group}
    assert nodes.get("MmBackward0") == "mm" or any(node.endswith("Backward0") for node in nodes)
    assert not [group for group in groups if "execute_native_thread_routine" in group["key"] or ".o:0" in group["key"]]


LIBRARY = "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"
ENGINE = [
    ("torch::autograd::Node::operator()(std::vector<at::Tensor>&&)", LIBRARY, 40),
    ("torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)", LIBRARY, 30),
    ("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)", LIBRARY, 20),
    ("execute_native_thread_routine", "thread48.o", 0),
    ("clone3", "/lib/x86_64-linux-gnu/libc.so.6", 1),
]
WORKS = {
    "MmBackward0 (mm)": [
        ("at::native::structured_mm_out_cuda::impl(at::Tensor const&)", LIBRARY, 9),
        ("at::_ops::mm::redispatch(c10::DispatchKeySet, at::Tensor const&)", LIBRARY, 8),
        ("at::_ops::mm::call(at::Tensor const&, at::Tensor const&)", LIBRARY, 7),
        ("torch::autograd::generated::details::mm_mat1_grad(at::Tensor const&)", LIBRARY, 6),
        ("torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)", LIBRARY, 5),
    ],
    "AccumulateGrad (clone)": [
        ("at::_ops::clone::call(at::Tensor const&, std::optional<c10::MemoryFormat>)", LIBRARY, 17),
        ("torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)", LIBRARY, 15),
    ],
    "RoIAlign": [("torch::autograd::CppNode<vision::ops::RoIAlign>::apply(std::vector<at::Tensor>&&)", LIBRARY, 3)],
}  # fmt: skip


def test_blocks_without_a_python_stack_are_recognized_by_node_and_operator(run_gpumem, tmp_path):
    trace = []
    for index, native in enumerate([*WORKS.values(), []]):
        frames = [{"name": name, "filename": file, "line": line} for name, file, line in (native + ENGINE if native else ENGINE)]
        for size in (512, 1024):
            trace.append({"action": "alloc", "addr": (1 << 40) + 4096 * len(trace), "size": size << index, "stream": 0,
                          "time_us": len(trace), "frames": frames})  # fmt: skip
    path = tmp_path / "native.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}))
    answer = run_gpumem("peak", path, "--json").check().json()
    wanted = {name: 1536 << index for index, name in enumerate([*WORKS, "unknown"])}
    assert {group["key"]: group["bytes"] for group in answer["groups"]} == wanted
    text = run_gpumem("blocks", path).check().out
    assert all(f"{name}\n" in text for name in WORKS) and "execute_native_thread_routine" not in text
    tree = run_gpumem("peak", path, "--tree", "--json").check().json()
    assert sorted(node["bytes"] for node in tree["tree"]) == sorted(wanted.values())
    assert {node.get("node") for node in tree["tree"]} == {"MmBackward0", "AccumulateGrad", "RoIAlign", None}
