"""What hangs on the version of PyTorch and CUDA: the tables of layouts, and the runtime that stands in.

`scripts/test --all` runs this file, and those that tests/tools/torch_matrix.py names, on every version installed there.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest

from conftest import BUILD, PYTHON, ROOT

TOOLS = ROOT / "tests" / "tools"
# A field's name in tests/tools/torch_offsets.cpp, and its name in the table.
CLASSES = {
    "c10::StorageImpl": "storage",
    "c10::TensorImpl": "tensor",
    "AutogradMeta": "meta",
    "Node": "node",
    "SavedVariable": "saved",
}
FIELDS = {
    "refcounts_": "counts",
    "data_ptr_.ptr_.data_": "data",
    "data_ptr_.ptr_.ctx_": "context",
    "data_ptr_.device_": "device",
    "pyobj_slot_.pyobj_": "python",
    "sizes_and_strides_.size_": "dimensions",
    "sizes_and_strides_.outOfLineStorage_": "sizes",
    "data_type_": "dtype",
    "device_opt_": "device",
    "pyobj_": "python",
    "combined_refcount_": "counts",
}
OTHERS = {
    "sizeof DifferentiableViewMeta": "meta.view_size_of",
    "DifferentiableViewMeta.backward_info_": "meta.view_backward",
    "DifferentiableViewMeta.forward_info_": "meta.view_forward",
    "sizeof Edge": "node.edge_size",
    "AccumulateGrad.variable": "node.accumulate_variable",
    "PyNode.obj": "node.python_object",
    "PyFunctionPreHook.dict": "hooks.dict",
    "PyAnomalyMetadata.dict_": "hooks.metadata_dict",
    "PySavedVariableHooks.pack_hook_": "hooks.saved_pack",
    "PySavedVariableHooks.unpack_hook_": "hooks.saved_unpack",
    "PySavedVariableHooks.data_": "hooks.saved_data",
    "sizeof c10::InefficientStdFunctionContext": "lender.size_of",
    "c10::InefficientStdFunctionContext.deleter_": "lender.function",
    "c10d::Reducer.params_": "reducer.parameters",
    "sizeof c10d::Reducer::Bucket": "reducer.bucket_size_of",
    "c10d::Reducer::Bucket.gradients": "reducer.gradients",
    "c10d::Reducer::Bucket.bucket_views_in": "reducer.views_in",
    "c10d::Reducer::Bucket.bucket_views_out": "reducer.views_out",
    "c10d::Reducer::Bucket.variables": "reducer.variables",
    "c10d::Reducer::Bucket.future_work": "reducer.future_work",
    "c10d::Reducer::Bucket.sparse_tensor_indices": "reducer.sparse_indices",
    "THPVariable.cdata": "python.tensor_cdata",
    "THPVariable.backward_hooks": "python.tensor_hooks",
    "THPVariable.post_accumulate_grad_hooks": "python.tensor_post_hooks",
    "THPCppFunction.cdata": "python.function_cdata",
    "THPFunction.saved_variables": "python.pyfunction_saved",
    "THPFunction.cdata": "python.pyfunction_cdata",
}


@pytest.fixture(scope="module")
def torch_version(run):
    code = "import torch; print(torch.__version__, torch.version.cuda, int(torch.compiled_with_cxx11_abi()))"
    return run([PYTHON, "-W", "ignore", "-c", code]).check().out.split()


@pytest.fixture(scope="module")
def table(run, torch_version):
    """{"block.size": 56}: what core/torch has of this version."""
    version, _, new_strings = torch_version
    text = run([BUILD / "tests" / "torch_fields", version, *([] if new_strings == "1" else ["old"])]).check().out
    return {name: int(value) for name, value in re.findall(r"^field (\w+\.\w+) (\d+)$", text, re.M)}


@pytest.mark.long  # a compilation of PyTorch's headers
def test_the_table_of_classes_is_what_the_wheels_headers_say(table):
    command = ["sh", TOOLS / "torch_offsets.sh", PYTHON]
    text = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    found = {}
    lines = {name: int(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines())}
    for way in ("backward", "forward"):  # a std::optional<ViewInfo>: the flag follows
        found[f"meta.view_{way}_set"] = lines[f"DifferentiableViewMeta.{way}_info_"] + lines["sizeof ViewInfo"]
    stats = table["allocator.stats_allocated"] - lines["DeviceStats.allocated_bytes"]
    for name in ("reserved", "active", "requested"):
        found[f"allocator.stats_{name}"] = stats + lines[f"DeviceStats.{name}_bytes"]
    found["allocator.stats_max_split"] = stats + lines["DeviceStats.max_split_size"]
    for line in text.splitlines():
        name, value = line.rsplit(" ", 1)
        owner, _, field = name.removeprefix("sizeof ").partition(".")
        if name in OTHERS:
            found[OTHERS[name]] = int(value)
        elif name.startswith("sizeof ") and owner in CLASSES:
            found[f"{CLASSES[owner]}.size_of"] = int(value)
        elif owner in CLASSES:
            field = FIELDS.get(field, field.rstrip("_"))
            found[f"{CLASSES[owner]}.{field}"] = int(value)
    assert {name: value for name, value in found.items() if name in table} == {
        name: value for name, value in table.items() if name in found
    }
    assert len(set(found) & set(table)) > 45, text


@pytest.mark.parametrize("version", ["1.13.1", "2.3.1", "2.99.0", "3.0.0", "master"])
def test_a_version_without_a_table_is_not_taken_for_another(run, version):
    finished = run([BUILD / "tests" / "torch_fields", version]).check(1)
    assert finished.err.startswith("no table: there are those of 2.4 to 2.15;")


def test_the_simulated_runtime_is_the_one_torch_was_built_for(run_gpumem, torch_version):
    major = torch_version[1].split(".")[0]
    code = f"""
import ctypes, torch
runtime = ctypes.CDLL("libcudart.so.{major}")
version = ctypes.c_int()
assert runtime.cudaRuntimeGetVersion(ctypes.byref(version)) == 0
properties = torch.cuda.get_device_properties(0)
print(version.value // 1000, properties.name, properties.multi_processor_count, properties.total_memory)
"""
    out = run_gpumem("run", "--sim=a100-40gb", "--", PYTHON, "-W", "ignore", "-c", code).check().out
    assert out == f"{major} NVIDIA A100-SXM4-40GB 108 {out.split()[-1]}\n"
    assert int(out.split()[-1]) > 39 << 30


HELD = """
import json, os, signal, torch

def only_in_the_graph():
    leaf = torch.nn.Parameter(torch.ones(7_007, device="cuda"))
    leaf.note = "its wrapper has something to keep"
    return (leaf * 2).sum(), leaf.data_ptr()

loss, of_leaf = only_in_the_graph()
wrapped = torch.ones(3_003, device="cuda")
storage = torch.ones(5_005, device="cuda").untyped_storage()
with_storage = torch.ones(6_006, device="cuda")
its_storage = with_storage.untyped_storage()
print(json.dumps([os.getpid(), {"leaf": of_leaf, "wrapped": wrapped.data_ptr(), "storage": storage.data_ptr(),
    "both": with_storage.data_ptr()}]), flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def held(sim_env, run_gpumem):
    """who-holds of tensors that differ in which of C++ object and Python wrapper owns the other."""
    command = [str(PYTHON), "-W", "ignore", "-c", HELD]
    process = subprocess.Popen(command, env=sim_env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        pid, addresses = json.loads(process.stdout.readline())
        yield {
            name: run_gpumem("who-holds", hex(address), "--pid", pid, "--json").check().json()
            for name, address in addresses.items()
        }
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("which", ["leaf", "wrapped", "storage", "both"])
def test_every_reference_is_found_whichever_of_tensor_and_wrapper_owns_the_other(held, which):
    answer = held[which]
    assert answer["complete"] is True
    assert answer["storages"] and all(s["found"] == s["refcount"] for s in answer["storages"])


@pytest.mark.parametrize(
    ("which", "names"), [("leaf", {"loss"}), ("wrapped", {"wrapped"}), ("storage", {"storage"}), ("both", {"with_storage", "its_storage"})]
)
def test_the_roots_are_the_variables(held, which, names):
    assert {holder["path"][0].get("name") for holder in held[which]["holders"]} == names


def test_the_heap_of_the_libc_that_this_python_has_is_known(python):
    code = "print(*{line.split()[-1] for line in open('/proc/self/maps') if '/libc.so.6' in line or '/ld-linux' in line}, sep='\\n')"
    files = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    (loader,) = [file for file in files if "/ld-linux" in file]
    (libc,) = [file for file in files if "/libc.so.6" in file]
    folders = f"{Path(libc).parent}:/usr/lib/x86_64-linux-gnu"
    subprocess.run([loader, "--library-path", folders, BUILD / "tests" / "test_malloc"], check=True, timeout=600)
