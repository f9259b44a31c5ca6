"""`gpumem learn` starts a Python: none of another user's code comes in with it."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import PYTHON

NOBODY = 65534
MARK = "import os, pathlib; pathlib.Path({!r}).write_text(str(os.geteuid()))\n"
MODULES = ("sitecustomize", "usercustomize", "torch", "encodings", "os", "site")


@pytest.fixture
def python():
    """A Python without PyTorch: what it loads by itself is what this is about."""
    found = shutil.which("python3", path="/usr/bin:/bin")
    if not found:
        pytest.skip("no Python of the system")
    return found


@pytest.fixture
def hostile():
    """(a folder that another user could have filled, the file that is written where a module of it was loaded)"""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    folder.chmod(0o755)
    yield folder, folder / "loaded"
    shutil.rmtree(folder)


def fill(folder, mark):
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODULES:
        (folder / f"{name}.py").write_text(MARK.format(str(mark)))
    (folder / "hostile.pth").write_text(MARK.format(str(mark)).replace("\n", "") + "\n")


def learn(run_gpumem, python, folder, tmp_path, **more):
    env = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path), "GPUMEM_LEARN_LIMIT": "300", **more}
    return run_gpumem("learn", python, env=env, cwd=folder, timeout=600)


@pytest.mark.parametrize("path", ["", ":/nowhere", "/nowhere:", ".", "../{name}", "/nowhere::/nowhere"])
def test_no_module_of_the_folder_in_which_it_is_asked_is_loaded(run_gpumem, python, hostile, tmp_path, path):
    folder, mark = hostile
    fill(folder, mark)
    path = path.format(name=folder.name)
    done = learn(run_gpumem, python, folder, tmp_path, HOME="/nowhere", PYTHONPATH=path, LD_LIBRARY_PATH=path)
    assert not mark.exists(), mark.read_text()
    assert "No module named" in done.check(4).err


@pytest.mark.parametrize("variable", ["HOME", "PYTHONUSERBASE"])
def test_root_loads_no_packages_from_another_users_home(run_gpumem, python, hostile, tmp_path, variable):
    if os.geteuid() != 0:
        pytest.skip("needs a file of another user: run the tests as root")
    folder, mark = hostile
    version = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True, check=True).stdout.strip()
    home = folder / "home"
    packages = (home / ".local" if variable == "HOME" else home) / "lib" / f"python{version}" / "site-packages"
    fill(packages, mark)
    # that it would be loaded: of one's own home it is
    subprocess.run([python, "-c", "pass"], env={variable: str(home)}, check=True, stderr=subprocess.DEVNULL)
    assert mark.exists()
    mark.unlink()
    os.chown(home, NOBODY, NOBODY)
    done = learn(run_gpumem, python, folder, tmp_path, **{"HOME": "/nowhere", variable: str(home)})
    assert not mark.exists(), mark.read_text()
    assert "No module named" in done.check(4).err


def test_a_python_is_named_from_the_folder_in_which_it_is_asked(run_gpumem, python, hostile, tmp_path):
    folder, _ = hostile
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(python)
    done = learn(run_gpumem, "bin/python3", folder, tmp_path, HOME="/nowhere").check(4)
    assert "No module named 'torch'" in done.err


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_root_saves_and_loads_no_layouts_in_another_users_folder(run_gpumem, spawn, python, hostile, variable):
    """`sudo` may leave HOME as it is; a link in it would decide where root makes folders and files."""
    if os.geteuid() != 0:
        pytest.skip("needs a folder of another user: run the tests as root")
    folder, _ = hostile
    home, elsewhere = folder / "home", folder / "of-root"
    (home / ".cache").mkdir(parents=True)
    elsewhere.mkdir()
    for link in (home / ".cache" / "gpumem", home / "gpumem"):
        link.symlink_to(elsewhere)
        os.lchown(link, NOBODY, NOBODY)
    os.chown(home, NOBODY, NOBODY)
    process = spawn([python, "-c", "print('begun', flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    env = {key: value for key, value in os.environ.items() if key != "XDG_CACHE_HOME"}
    env.update({"GPUMEM_HIDE_ROWS": "1", "GPUMEM_LEARN_LIMIT": "300", variable: str(home)})
    told = run_gpumem("info", "--pid", process.pid, env=env, timeout=600)
    assert "learned CPython" in told.err and "another user's folder" in told.err, told.err
    assert not list(elsewhere.iterdir())


HOLDING = """
import sys
sys.path.append({site!r})
import torch
kept = torch.ones(7_007, device="cuda")
print(hex(kept.data_ptr()), flush=True)
sys.stdin.read()
"""


def test_root_follows_no_link_of_another_user_when_it_learns(hostile, run_gpumem, spawn, sim_env, tmp_path):
    """The name that a program was called by is its caller's word: here a link whose owner may lead it elsewhere, or put a
    virtual environment beside it."""
    if os.geteuid() != 0:
        pytest.skip("needs a file of another user: run the tests as root")
    folder, mark = hostile
    real = PYTHON.resolve()
    facts = "import sys, torch; print(sys.version_info[0], sys.version_info[1], torch.__file__, sep='\\n')"
    major, minor, torch = subprocess.run([PYTHON, "-c", facts], capture_output=True, text=True, check=True).stdout.split("\n")[:3]
    link = folder / "bin" / f"python{major}.{minor}"
    link.parent.mkdir()
    link.symlink_to(real)
    os.lchown(link, NOBODY, NOBODY)
    command = [str(link), "-S", "-c", HOLDING.format(site=str(Path(torch).parents[1]))]
    process = spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=sim_env())
    address = process.stdout.readline().strip()
    (folder / "pyvenv.cfg").write_text(f"home = {real.parent}\n")
    packages = folder / "lib" / f"python{major}.{minor}" / "site-packages"
    fill(packages, mark)
    (packages / "torch.py").unlink()
    env = {**os.environ, "GPUMEM_HIDE_ROWS": "torch", "XDG_CACHE_HOME": str(tmp_path), "GPUMEM_LEARN_LIMIT": "300"}
    learned = run_gpumem("who-holds", address, "--pid", process.pid, env=env, timeout=600)
    assert not mark.exists(), mark.read_text()
    assert "learned PyTorch" in learned.check().err
    assert "'kept'" in learned.out
