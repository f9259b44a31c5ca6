"""The Debian package that scripts/deb builds. Under --all: it builds all of gpumem again."""

import os
import shutil

import pytest
from conftest import PYTHON, ROOT, run_process


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    if not shutil.which("dh"):
        pytest.skip("debhelper is not installed")
    folder = tmp_path_factory.mktemp("deb")
    run_process([ROOT / "scripts/deb", "--source", "-o", folder], timeout=1800).check()
    return folder


@pytest.mark.long
def test_the_package_runs_where_it_is_unpacked(packages, tmp_path):
    (package,) = packages.glob("gpumem_*.deb")
    run_process(["dpkg", "-x", package, tmp_path]).check()
    gpumem = tmp_path / "usr/bin/gpumem"
    recording = tmp_path / "run.gpumem"
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    words = [gpumem, "run", "--sim", "-o", recording, "--", PYTHON, "-c", "import torch; torch.empty(1, device='cuda')"]
    run_process(words, env=environment).check()
    assert run_process([gpumem, "info", recording, "--json"], env=environment).check().json()["complete"]
    assert "gpumem" in run_process([gpumem, "gdb", "-batch", "-ex", f"gpumem info {recording}"], env=environment).check().out
    # nothing in a folder that the loader searches: ldconfig would make CUDA's libraries of the simulated device
    assert [path for path in (tmp_path / "usr/lib").rglob("*.so*") if "gpumem" not in path.relative_to(tmp_path / "usr/lib").parts[0]] == []


@pytest.mark.long
def test_only_the_package_of_the_ranks_needs_mpi(packages, tmp_path):
    needs, files = {}, {}
    for name in ("gpumem", "gpumem-ranks"):
        (package,) = packages.glob(f"{name}_*.deb")
        needs[name] = run_process(["dpkg-deb", "-f", package, "Depends"]).check().out
        folder = tmp_path / name
        run_process(["dpkg", "-x", package, folder]).check()
        files[name] = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    assert "mpi" not in needs["gpumem"]
    assert "libopenmpi" in needs["gpumem-ranks"] and "gpumem (=" in needs["gpumem-ranks"]
    assert not files["gpumem"] & files["gpumem-ranks"]
    assert not [path for path in files["gpumem"] if path.rsplit("/", 1)[1].startswith("gpumem-ranks")]
    for path in ("bin/gpumem-ranks", "share/man/man1/gpumem-ranks-peak.1.gz", "share/bash-completion/completions/gpumem-ranks"):
        assert f"usr/{path}" in files["gpumem-ranks"]
    version = run_process([tmp_path / "gpumem-ranks/usr/bin/gpumem-ranks", "--version"]).check().out
    assert "Open MPI" in version


@pytest.mark.long
def test_lintian_finds_nothing(packages):
    if not shutil.which("lintian"):
        pytest.skip("lintian is not installed")
    (changes,) = packages.glob("*.changes")
    answer = run_process(["lintian", "--allow-root", changes], merge=True)
    assert [line for line in answer.out.splitlines() if line[:3] in ("E: ", "W: ")] == [], answer.out
