#!/usr/bin/env python3
"""Pythons with PyTorch beside the private one: what tests run on to see other versions of both.

    torch_matrix.py list                          the entries, and which are installed
    torch_matrix.py install ENTRY... | --all      makes those environments (resumed where interrupted)
    torch_matrix.py path ENTRY                    the Python of an installed one

An entry is py3.12-torch2.9. Each lies in $GPUMEM_CACHE/matrix (default ~/.cache/gpumem/matrix) and holds the
torch wheel of the package index with its headers, the small packages that it imports, and of NVIDIA's
packages, in exactly the versions that the wheel asks for, the libraries that the loader wants before
torch can be imported. The rest (cuDNN's engines, compilers, headers, triton) is left out: on the simulated device nothing
calls it. NVIDIA's libraries are shared between entries by hard links. About 2 GB an entry.

Not for work on a GPU, and never installed by setup: `scripts/test --all` uses what is there, and counts
what is not as skipped.
"""

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import debian_python

CACHE = Path(
    os.environ.get("GPUMEM_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpumem"
)
MATRIX = CACHE / "matrix"

# The last release of each, as the package index has it.
TORCH = {
    "2.4": "2.4.1",
    "2.5": "2.5.1",
    "2.6": "2.6.0",
    "2.7": "2.7.1",
    "2.8": "2.8.0",
    "2.9": "2.9.1",
    "2.10": "2.10.0",
    "2.11": "2.11.0",
    "2.12": "2.12.1",
    "2.13": "2.13.0",
    "2.14": "2.14.1",
    "2.15": "2.15.0",
}

# Each torch once, each CPython at least once; the private Python (.venv: 3.11 with 2.15) is one more.
ENTRIES = [
    "py3.9-torch2.8",
    "py3.10-torch2.11",
    "py3.12-torch2.11",
    "py3.13-torch2.11",
    "py3.12-torch2.10",
    "py3.13-torch2.9",
    "py3.10-torch2.7",
    "py3.11-torch2.6",
    "py3.12-torch2.5",
    "py3.11-torch2.4",
    "py3.12-torch2.12",
    "py3.13-torch2.13",
    "py3.10-torch2.14",
    "py3.11-torch2.11",
    "py3.14-torch2.15",
    "py3.15-torch2.15",
]

# The end-to-end tests that `scripts/test --all` runs on each entry: those whose answers hang on a layout, an ABI, the
# interpreter's frames, or the simulated runtime.
TESTS = [
    "test_versions",
    "test_growth",
    "test_released",
    "test_phases",
    "test_known_loops",
    "test_weight_copies",
    "test_running_code",
    "test_shapes",
    "test_cores",
    "test_torch",
    "test_against_pytorch",
    "test_linear_loop",
    "test_train_mlp",
    "test_who_holds",
    "test_ways",
    "test_thread_stacks",
    "test_retained",
    "test_snapshot_today",
    "test_snapshot_same",
    "test_agent",
    "test_agent_edges",
    "test_agent_ends",
    "test_agent_forward",
    "test_agent_live",
    "test_agent_marks",
    "test_agent_ring",
    "test_agent_stacks",
    "test_sim",
    "test_sim_allocator",
    "test_sim_bad_input",
    "test_sim_cudnn",
    "test_sim_devices",
    "test_sim_distributed",
    "test_sim_expandable",
    "test_sim_graphs",
    "test_sim_kernels",
    "test_sim_libraries",
    "test_sim_memory",
    "test_sim_nccl",
    "test_sim_nvml",
    "test_sim_pool",
]

# What torch and the tests' programs import; the versions are the newest that the Python has.
SMALL = ["typing_extensions", "filelock", "sympy", "networkx", "jinja2", "fsspec", "numpy", "setuptools<81", "nvidia-ml-py"]

# Folders of the torch wheel that nothing here uses.
UNUSED = ["test", "bin/protoc", "bin/protoc-3.13.0.0", "share", "utils/benchmark", "_inductor/codegen/cuda"]


def say(text):
    print(text, flush=True)


def parts(entry):
    match = re.fullmatch(r"py(3\.\d+)-torch(2\.\d+)", entry)
    if not match or match[2] not in TORCH:
        sys.exit(f"torch_matrix: {entry}: not an entry: name one like py3.12-torch2.9 (2.4 to {[*TORCH][-1]})")
    return match[1], match[2]


def interpreter(version):
    """A CPython of that version: pyenv's, else the system's, else Debian's newest, unpacked; None where there is none."""
    for path in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"), reverse=True):
        return path
    if Path(f"/usr/bin/python{version}").exists():
        return Path(f"/usr/bin/python{version}")
    return debian_python.install(version) if version in debian_python.VERSIONS else None


def make_venv(base, folder, version):
    if not base.is_relative_to(debian_python.FOLDER):
        subprocess.run([base, "-m", "venv", folder], check=True)
        return
    # Debian's venv takes pip from a place under /usr
    subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
    wheel = debian_python.pip_wheel(version)
    command = [folder / "bin" / "python", wheel / "pip", "install", "-q", "--no-index", wheel]
    subprocess.run(command, check=True)


def python_of(entry):
    """The entry's Python, where it is installed whole; else None."""
    folder = MATRIX / entry
    return folder / "bin" / "python" if (folder / "gpumem-whole").exists() else None


def site_of(entry):
    return MATRIX / entry / "lib" / f"python{parts(entry)[0]}" / "site-packages"


def pip(python, *words):
    command = [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    command += ["install", "-q", "--no-cache-dir", "--no-compile", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"torch_matrix: pip could not install {' '.join(map(str, words))}:\n{done.stdout[-2000:]}")


def nvidia_pins(python):
    """{"nvidia-cublas-cu12": "12.8.4.1"}: what this torch's wheel asks for."""
    code = "import importlib.metadata as m; print('\\n'.join(m.requires('torch') or []))"
    lines = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.splitlines()
    pins = {}
    for line in lines:
        match = re.match(r"(nvidia[\w-]+|cuda-toolkit)(\[[^]]*\])?\s*\(?(?:==\s*([\w.]+))", line)
        if match:
            pins[match[1]] = (match[2] or "", match[3])
    if "nvidia-cusparse-cu12" in pins:
        # torch 2.4 leaves it to cusparse's own requirements, which name no version
        pins.setdefault("nvidia-nvjitlink-cu12", ("", "12.4.127"))
    return pins


def needed(path):
    text = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))


def wanted_libraries(site, store):
    """Names of NVIDIA's libraries that the loader wants for torch's own, and what those want in turn."""
    there = {path.name: path for folder in store for path in folder.rglob("*.so*")}
    todo = [name for path in (site / "torch" / "lib").glob("*.so*") for name in needed(path)]
    # The runtime's own, and cuDNN's graph part: the lists in core/sim/exports are made from them.
    # What NVRTC opens when it compiles is named nowhere.
    todo += [name for name in there if re.match(r"lib(cudart|cudnn_graph|nvrtc-builtins)\.so", name)]
    found = set()
    while todo:
        name = todo.pop()
        if name in there and name not in found:
            found.add(name)
            todo += needed(there[name])
    return found


def fetch_nvidia(python, pins):
    """Each package once into the store, unpacked whole; gives back their folders."""
    folders = []
    for name, (extra, version) in sorted(pins.items()):
        folder = MATRIX / "store" / f"{name}-{version}"
        folders.append(folder)
        if folder.exists():
            continue
        say(f"  {name} {version}")
        scratch = folder.with_suffix(".new")
        shutil.rmtree(scratch, ignore_errors=True)
        dependencies = [] if name == "cuda-toolkit" else ["--no-deps"]
        pip(python, *dependencies, "--target", scratch, f"{name}{extra}=={version}")
        scratch.rename(folder)
    return folders


def link_nvidia(site, store):
    """Hard links of the wanted libraries into site-packages; the store then keeps only what some entry wants."""
    wanted = wanted_libraries(site, store)
    for folder in store:
        for path in sorted(folder.rglob("*")):
            if path.is_dir():
                continue
            keep = path.name in wanted or path.suffix == ".py" or path.name in ("METADATA", "RECORD")
            keep = keep or (path.name in ("cuda.h", "cuda_runtime_api.h", "driver_types.h"))
            if not keep:
                continue
            target = site / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                os.link(path, target)


def prune(store):
    """Takes out of the store what no entry has linked."""
    for folder in store:
        for path in folder.rglob("*"):
            if path.is_file() and path.stat().st_nlink == 1 and path.stat().st_size > 1 << 20:
                path.unlink()


def install(entry):
    python_version, torch_version = parts(entry)
    folder = MATRIX / entry
    if python_of(entry):
        return
    base = interpreter(python_version)
    if not base:
        sys.exit(f"torch_matrix: {entry}: no CPython {python_version}: install one with pyenv")
    free = shutil.disk_usage(MATRIX).free >> 30
    if free < 8:
        sys.exit(f"torch_matrix: {entry}: {free} GiB free in {MATRIX}, 8 are needed while pip unpacks: make room")
    say(f"{entry}: torch {TORCH[torch_version]} on {base}")
    shutil.rmtree(folder, ignore_errors=True)
    make_venv(base, folder, python_version)
    python = folder / "bin" / "python"
    pip(python, "--no-deps", f"torch=={TORCH[torch_version]}")
    pip(python, *SMALL)
    site = site_of(entry)
    for name in UNUSED:
        path = site / "torch" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for path in (site / "torch" / "lib").glob("*.a"):
        path.unlink()
    store = fetch_nvidia(python, nvidia_pins(python))
    link_nvidia(site, store)
    prune(store)
    code = "import torch; assert torch.version.cuda, 'not a CUDA build'; print(torch.__version__, torch.version.cuda)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"torch_matrix: {entry}: torch does not load:\n{done.stderr[-2000:]}")
    (folder / "gpumem-whole").write_text(done.stdout)
    say(f"{entry}: installed: torch {done.stdout.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    makes = commands.add_parser("install")
    makes.add_argument("entries", nargs="*", metavar="ENTRY")
    makes.add_argument("--all", action="store_true")
    commands.add_parser("path").add_argument("entry")
    options = parser.parse_args()
    if options.command == "list":
        for entry in ENTRIES:
            print(f"{entry:18} {python_of(entry) or 'not installed'}")
    elif options.command == "path":
        parts(options.entry)
        python = python_of(options.entry)
        if not python:
            sys.exit(f"torch_matrix: {options.entry}: not installed: torch_matrix.py install {options.entry}")
        print(python)
    else:
        MATRIX.mkdir(parents=True, exist_ok=True)
        with open(MATRIX / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for entry in ENTRIES if options.all else options.entries:
                install(entry)


if __name__ == "__main__":
    main()
