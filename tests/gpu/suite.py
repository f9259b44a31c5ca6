#!/usr/bin/env python3
"""Runs the end-to-end tests with PyTorch on the machine's GPU in place of the simulated device.

    suite.py -o OUT [--gpumem PATH] [--jobs N] [--seconds N] [NAME…]      NAME: test_NAME.py; without one, those that can

OUT gets log and junit.xml. gpumem's option --sim is dropped from the tests' commands unless it asks for several devices or
another size: those run on the simulated device also here. Without gdb its tests run in cuda-gdb. The tests of the simulated device itself, and those that
fill a device, are left out.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
E2E = ROOT / "tests/e2e"
LEFT_OUT = """
aarch64 cpython deb docs doctor estimate fit frames_of_versions hardening install learn learn_torch library
manual mcp no_memory oom oom_cases oom_reasons oom_text ptrace_scope pytest_projects python_frames quota ranks ranks_schema
ranks_sim real_gpu setup settings sim sim_bad_input sim_cudnn sim_devices sim_distributed sim_expandable sim_libraries sim_nccl sim_nvml
torch torch_elsewhere versions view view_accessibility view_bands view_compare view_flame view_inputs view_memory view_notebook
view_programs view_sources view_svg view_table wheel zoo agent_sanitized safe_learn far_targets growth_bounded
""".split()
COMMAND = """#!/bin/bash
# gpumem with the machine's GPU
words=() program=
case $1 in run | gdb) ;; *) exec "{gpumem}" "$@" ;; esac
for word; do
	case $program$word in
	--) program=yes ;;
	--sim | --sim=h100-80gb) continue ;;
	esac
	words+=("$word")
done
exec "{gpumem}" "${{words[@]}}"
"""


def pytest_collection_modifyitems(config, items):
    """A core of gdb's has the driver's mappings too, some 17 GB: tests that make one are left out."""
    items[:] = [item for item in items if "make_core" not in getattr(item, "fixturenames", ())]


def command(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", required=True)
    parser.add_argument("--gpumem", default=ROOT / "build/bin/gpumem")
    parser.add_argument("--jobs", default="8")
    parser.add_argument("--seconds", type=int, default=420)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    out = Path(options.o).resolve()
    build = out / "build"
    gpumem = Path(options.gpumem).resolve()
    command(build / "bin/gpumem", COMMAND.format(gpumem=gpumem))
    library = next((path for path in gpumem.parents[1].rglob("libgpumem.so*") if path.is_file()), None)
    (build / "lib").symlink_to(library.parent)
    if (ROOT / "build/tests").exists():
        (build / "tests").symlink_to(ROOT / "build/tests")
    env = {**os.environ, "GPUMEM_BUILD_DIR": str(build), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2", "GPUMEM_LIBRARY": str(library)}
    if "cupti" not in options.names:
        env["GPUMEM_CUPTI"] = "off"  # the simulated device has no memory of libraries
    if not shutil.which("gdb"):
        command(out / "debugger/gdb", '#!/bin/sh\nexec cuda-gdb "$@"\n')
        env["PATH"] = f"{out / 'debugger'}:{env['PATH']}"
    names = options.names or [n for n in (p.stem[5:] for p in sorted(E2E.glob("test_*.py"))) if n not in LEFT_OUT]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), env.get("PYTHONPATH")]))
    words = [sys.executable, "-m", "pytest", "-p", "suite", "-q", "--tb=short", "-n", options.jobs, "--dist", "loadscope"]
    words += [f"--junitxml={out / 'junit.xml'}", *(E2E / f"test_{name}.py" for name in names)]
    with open(out / "log", "wb") as log:
        run = subprocess.Popen(words, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            run.wait(options.seconds)
        except subprocess.TimeoutExpired:
            run.send_signal(2)  # the summary of what has run is still written
            try:
                run.wait(20)
            except subprocess.TimeoutExpired:
                run.kill()
    shutil.rmtree(build, ignore_errors=True)
    print((out / "log").read_text(errors="replace")[-6000:])


if __name__ == "__main__":
    main()
