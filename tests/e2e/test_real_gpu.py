"""On the simulated device the allocator does what it did on a real GPU, event for event.

tests/e2e/data/real_gpu/ has the figures of public snapshots (docs/real-gpus.md says of which, and how to make them
anew); programs/as_on_a_gpu.py has the programs.
"""

import json
import os
import sys
from pathlib import Path

import pytest
from conftest import KEEP_WORKSPACES, PYTHON, ROOT

FIGURES = Path(__file__).parent / "data" / "real_gpu"
PROGRAM = Path(__file__).parent / "programs" / "as_on_a_gpu.py"
sys.path.insert(0, str(ROOT / "tests" / "tools"))
import compare_snapshots  # noqa: E402
import torch_matrix  # noqa: E402


def simulate(run_gpumem, name, python, folder):
    device = json.loads((FIGURES / f"{name}.json").read_text())["sim"]
    out = folder / f"{name}.json"
    env = {**os.environ, **KEEP_WORKSPACES}  # the snapshots are of versions that always did
    run_gpumem("run", f"--sim={device}", "--", python, "-W", "ignore", PROGRAM, name, out, env=env).check()
    return compare_snapshots.Events(FIGURES / f"{name}.json"), compare_snapshots.Events(out)


def python_with(version, run):
    """A Python with that PyTorch: the private one, or one of the matrix."""
    shown = run([PYTHON, "-c", "import importlib.metadata as m; print(m.version('torch'))"]).check().out
    if shown.startswith(f"{version}."):
        return PYTHON
    for entry in torch_matrix.ENTRIES:
        path = torch_matrix.MATRIX / entry
        if entry.endswith(f"-torch{version}") and (path / "gpumem-whole").exists():
            return path / "bin" / "python"
    pytest.skip(f"torch {version} is not installed: tests/tools/torch_matrix.py install")


def check(real, simulated):
    assert simulated.events == real.events
    assert simulated.reserved == real.reserved
    assert simulated.requested == real.requested


def test_a_transformer_s_events_are_those_of_a_real_gpu(run_gpumem, run, tmp_path):
    real, simulated = simulate(run_gpumem, "transformer_128", python_with("2.11", run), tmp_path)
    assert len(real.events) == 3840
    check(real, simulated)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("linear_loop", 33),
        ("linear_loop_no_grad", 33),
        ("attention", 97),
        ("transformer_128_training", 19136),
        ("transformer_512_bf16", 4998),
        ("transformer_512_bf16_training", 22332),
    ],
)
def test_events_are_those_of_a_real_gpu(run_gpumem, run, tmp_path, name, events):
    version = json.loads((FIGURES / f"{name}.json").read_text())["torch"]
    real, simulated = simulate(run_gpumem, name, python_with(version, run), tmp_path)
    assert len(real.events) == events
    check(real, simulated)


def test_the_linear_loop_differs_from_an_older_pytorch_s_by_one_workspace(run_gpumem, tmp_path):
    """Until 2.8 every product got a workspace of cuBLASLt's of 1 MiB and freed it; then the first one's was kept; from 2.15 on
    it is a part of cuBLAS's."""
    real, simulated = simulate(run_gpumem, "linear_loop", PYTHON, tmp_path)
    workspace = 1 << 20
    assert [event for event in simulated.events if event[1] != workspace] == [
        event for event in real.events if event[1] != workspace
    ]
    assert real.events.count(("alloc", workspace)) == real.events.count(("free_completed", workspace)) == 3
    assert simulated.events.count(("alloc", workspace)) <= 1
    assert ("free_completed", workspace) not in simulated.events
    assert simulated.reserved == real.reserved


# Their libraries' workspaces are estimates on the simulated device (docs/real-gpus.md), or their sizes depend on values.
ESTIMATED = {
    *("conv1d", "conv2d", "conv3d", "LSTM", "GRU", "RNN", "linalg", "fft", "fft2", "fftn", "rfft", "rfft2", "irfft", "sparse", "sdpa"),
    *("mode", "optimizer", "batch_norm", "transformer"),
}  # fmt: skip


@pytest.mark.long
def test_each_operation_allocates_what_it_did_on_an_h100(run_gpumem, run, tmp_path):
    """But for libraries' workspaces, each of 284 operations makes the same allocations and frees in the same order."""
    python, out = python_with("2.11", run), tmp_path / "out.json"
    run_gpumem("run", "--no-record", "--sim=h100-80gb", "--", python, "-W", "ignore", ROOT / "tests/gpu/workspaces.py", out, timeout=900).check()
    sys.path.insert(0, str(ROOT / "tests" / "gpu"))
    import compare

    kinds, _ = compare.compare(compare.load(FIGURES / "h100" / "workspaces.json"), compare.load(out))
    exact = {kind: counts for kind, counts in kinds.items() if kind not in ESTIMATED}
    assert sum(counts[0] for counts in exact.values()) == 284
    assert {kind for kind, counts in exact.items() if counts[1] != counts[0]} == set()


@pytest.mark.long
def test_what_recurrent_networks_keep_for_backward_is_as_on_an_h100(run_gpumem, tmp_path):
    out = tmp_path / "out.json"
    words = [ROOT / "tests/gpu/workspaces.py", out, "only", "LSTM", "GRU", "RNN"]
    run_gpumem("run", "--no-record", "--sim=h100-80gb", "--", PYTHON, "-W", "ignore", *words).check()
    real, simulated = json.loads((FIGURES / "h100" / "workspaces.json").read_text()), json.loads(out.read_text())
    assert len(simulated) == 48
    for name, (_, run) in simulated.items():
        peak, _, events = real[name][1]
        freed = next(i for i, size in enumerate(events) if size < 0)  # the workspace, allocated before what is kept
        assert run["events"][: freed - 2] == events[: freed - 2], name
        assert run["events"][freed - 1] == events[freed - 1], name
        assert abs(run["peak"] - peak) < 0.35 * peak, (name, run["peak"], peak)


def test_libraries_workspaces_are_as_near_to_an_h100_s_as_they_were(run_gpumem, tmp_path):
    """Random operations, a third of those that the estimates were made with or judged by (docs/real-gpus.md)."""
    recorded, out = FIGURES / "h100" / "libraries.json.gz", tmp_path / "out.json"
    words = [PYTHON, "-W", "ignore", ROOT / "tests/gpu/again.py", recorded, out]
    run_gpumem("run", "--no-record", "--sim=h100-80gb", "--", *words, env={**os.environ, **KEEP_WORKSPACES}).check()
    counts = json.loads(out.read_text())["counts"]
    least = {"conv": (3475, 0.755), "solver": (1734, 0.88), "rnn": (513, 0.80), "fft": (672, 0.96)}
    assert {family: parts for family, (parts, _, _) in counts.items()} == {family: parts for family, (parts, _) in least.items()}
    assert {family for family, (parts, near, _) in counts.items() if near < least[family][1] * parts} == set()


OUTSIDE = """
import json, torch
def outside():
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    found.append(total - free - torch.cuda.memory_reserved())
found, a = [], torch.empty(256, 256, device="cuda")
for work in (
    lambda: None, lambda: torch.zeros(1, device="cuda").add_(1), lambda: a @ a,
    lambda: torch.nn.functional.conv2d(torch.randn(2, 3, 32, 32, device="cuda"), torch.randn(8, 3, 3, 3, device="cuda")),
    lambda: torch.fft.fft(a), lambda: torch.linalg.inv(a + torch.eye(256, device="cuda")),
):
    work()
    outside()
print(json.dumps(found))
"""


def outside(run_gpumem, *options, env=None):
    environment = {**os.environ, **(env or {})}
    return json.loads(run_gpumem("run", "--no-record", *options, "--", PYTHON, "-c", OUTSIDE, env=environment).check().out.splitlines()[0])


def test_memory_outside_pytorch_grows_as_on_an_h100(run_gpumem):
    growth = dict(json.loads((FIGURES / "h100" / "facts.json").read_text())["growth"])
    wanted = [growth[name] for name in ("context", "first kernel", "cublas", "cudnn", "cufft", "cusolver")]
    found = outside(run_gpumem, "--sim=h100-80gb")
    assert all(abs(one - other) <= 3 << 20 for one, other in zip(found, wanted, strict=True)), (found, wanted)


def test_memory_outside_pytorch_is_what_the_run_says(run_gpumem):
    assert outside(run_gpumem, "--sim=h100-80gb", env={"GPUMEM_SIM_CONTEXT": "300"}) == [300 << 20] * 6
    assert len(set(outside(run_gpumem, "--sim=8GiB"))) == 1


def test_the_point_where_two_runs_differ_is_shown(run):
    tool = ROOT / "tests" / "tools" / "compare_snapshots.py"
    names = [FIGURES / "linear_loop.json", FIGURES / "attention.json"]
    told = run([sys.executable, tool, names[0], names[0]]).check()
    assert told.out == "equal: 33 events\n"
    told = run([sys.executable, tool, *names])
    assert told.status == 1 and "(33 and 97 events)" in told.out
    assert "<      0 segment_alloc    2,000,683,008" in told.out
    assert ">      0 segment_alloc       20,971,520" in told.out


@pytest.mark.parametrize("path", sorted(FIGURES.glob("*.json")), ids=lambda path: path.stem)
def test_figures_say_where_they_are_from(path):
    figures = json.loads(path.read_text())
    assert figures["repository"].startswith("https://") and len(figures["commit"]) == 40
    assert len(figures["sha256"]) == 64 and figures["path"].endswith((".pkl", ".pickle"))
    events = compare_snapshots.expand(figures["events"])
    assert compare_snapshots.expand(compare_snapshots.fold(events)) == events
    page = (ROOT / "docs" / "real-gpus.md").read_text()
    assert figures["sha256"] in page and f"{len(events):,}" in page
