"""Native frames in a snapshot are not sites, loops or steps, in whatever form PyTorch wrote them."""

import json
import pickle

import pytest

HOME = "/opt/venv/lib/python3.11/site-packages/torch/lib"
# The native frames between Python's, as PyTorch's symbolizers write them.
NATIVE = {
    "no symbols": [("??", f"{HOME}/libtorch_cuda.so", 68989582), ("??", "/opt/lib/libpython3.11.so.1.0", 1038786)],
    "symbols of a library": [("at::_ops::empty_strided::call(long)", f"{HOME}/libtorch_cpu.so", 44353657)],
    "a name of C": [("_PyEval_EvalFrameDefault", "/opt/lib/libpython3.11.so.1.0", 1038786)],
    "the program": [("??", "/usr/bin/python3.11", 20), ("_PyEval_EvalFrameDefault", "/usr/bin/python3.11", 7),
                    ("main", "/usr/bin/python3.11", 5), ("_start", "/usr/bin/python3.11", 4224)],
    "sources": [("at::empty", "/pytorch/aten/src/ATen/EmptyTensor.cpp", 12), ("std::function<void ()>::operator()() const",
                "/usr/include/c++/12/functional", 3), ("_PyEval_EvalFrameDefault", "Python/ceval.c", 2)],
    "other systems": [("??", "C:\\torch\\lib\\c10_cuda.dll", 4096), ("??", "/opt/torch/lib/libtorch.dylib", 4096),
                      ("??", "C:\\venv\\_C.cp311-win_amd64.pyd", 1)],
    "nothing known": [("??", "??", 0), ("", "", 0), ("??", "", 7), ("<unknown>", "<unknown>", 3), ("??", "[vdso]", 9),
                      ("??", "linux-vdso.so.1", 9)],
    "a library that was replaced": [("??", f"{HOME}/libtorch_cuda.so (deleted)", 99)],
    "a far offset": [("??", f"{HOME}/libtorch_cuda.so", (1 << 31) + 5), ("??", f"{HOME}/libtorch_cuda.so", (1 << 32) - 1)],
    "a frame without a file's name that Python could have": [("??", "/srv/generated", 3)],
}  # fmt: skip
# Unusual names of files that are Python code.
PYTHON = [("<module>", "/usr/local/bin/torchrun", 8), ("main", "/usr/local/bin/torchrun", 5),
          ("f", "<string>", 3), ("g", "<frozen runpy>", 88), ("h", "/tmp/ipykernel_7/12.py", 1),
          ("k", "/srv/.so.d/train.py", 4), ("_start", "/srv/server.py", 9), ("cell", "/srv/notes.ipynb", 2)]  # fmt: skip


def frame(name, filename, line):
    return {"name": name, "filename": filename, "line": line}


def trace_of(native, steps=3):
    """A loop of three iterations, which allocates in two lines; the native frames differ from event to event."""
    trace, address = [], 1 << 40
    for step in range(steps):
        for line in (11, 12):
            between = [frame(name, file, max(0, at - 3 * len(trace))) for name, file, at in native]
            address += 4096
            common = {"addr": address, "size": 512, "stream": 0}
            for action, here in (("alloc", line), ("free_requested", 13), ("free_completed", 13)):
                stack = [*between, frame("<module>", "/srv/train.py", here), *between]
                trace.append({"action": action, "time_us": len(trace) + 1, **common, "frames": stack})
    return trace


def written(tmp_path, trace, form):
    path = tmp_path / f"made.{form}"
    data = {"segments": [], "device_traces": [trace]}
    path.write_bytes(json.dumps(data).encode() if form == "json" else pickle.dumps(data, 4 if form == "pickle" else 2))
    return path


@pytest.mark.parametrize("form", ["pickle", "pickle2", "json"])
@pytest.mark.parametrize("kind", NATIVE)
def test_native_frames_are_no_sites_loops_lines_or_steps(kind, form, run_gpumem, tmp_path):
    path = written(tmp_path, trace_of(NATIVE[kind]), form)
    info = run_gpumem("info", path, "--json").check().json()
    assert info["steps"] == 3, info
    events = run_gpumem("events", path, "--json").check().json_lines()
    assert len(events) == 18
    for event in events:
        assert [(one["file"], one["function"]) for one in event["python"]] == [("/srv/train.py", "<module>")], event
        assert len(event["native"]) == 2 * len(NATIVE[kind])
    groups = run_gpumem("peak", path, "--json").check().json()["groups"]
    assert {one["key"] for one in groups} <= {"/srv/train.py:11 in <module>", "/srv/train.py:12 in <module>"}


@pytest.mark.parametrize("name, file, line", PYTHON)
def test_odd_files_of_python_stay_pythons(name, file, line, run_gpumem, tmp_path):
    stack = [frame(*one) for one in [(name, file, line), *PYTHON[:1], *NATIVE["no symbols"]]]
    path = written(tmp_path, [{"action": "alloc", "addr": 512, "size": 5, "stream": 0, "frames": stack}], "pickle")
    (event,) = run_gpumem("events", path, "--json").check().json_lines()
    assert [(one["function"], one["file"], one["line"]) for one in event["python"]] == [(name, file, line), PYTHON[0]]


def test_a_native_frame_in_a_library_names_the_library_and_an_export_the_offset(run_gpumem, tmp_path):
    native = NATIVE["no symbols"] + NATIVE["symbols of a library"] + NATIVE["a far offset"]
    stack = [frame(*one) for one in native] + [frame("<module>", "/srv/train.py", 11)]
    path = written(tmp_path, [{"action": "alloc", "addr": 512, "size": 5, "stream": 0, "frames": stack}], "pickle")
    (event,) = run_gpumem("events", path, "--json").check().json_lines()
    assert [(one["function"], one["object"], one["file"], one["line"]) for one in event["native"]] == [
        (None if name == "??" else name, file.rpartition("/")[2], None, None) for name, file, _ in native
    ]
    out = tmp_path / "out.pickle"
    run_gpumem("export", path, "--to", "pytorch", "-o", out).check()
    assert pickle.loads(out.read_bytes())["device_traces"][0][0]["frames"] == stack
