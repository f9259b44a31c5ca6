#!/usr/bin/env python3
"""A Python with an inference server, for the tests under --all: vLLM as pip installs it, with the PyTorch that it asks for.

    server_env.py install     makes the environment (10 GB)
    server_env.py path        its Python

It lies in $GPUMEM_CACHE/programs/vllm (default ~/.cache/gpumem/programs/vllm). Set-up does not install it.
"""

import subprocess
import sys

from torch_matrix import CACHE, interpreter

FOLDER = CACHE / "programs" / "vllm"
VERSION = "0.33.0"  # torch 2.14
PYTHON = "3.12"


def python():
    """The environment's Python, where it is installed whole; else None."""
    return FOLDER / "bin" / "python" if (FOLDER / "gpumem-whole").exists() else None


def install():
    base = interpreter(PYTHON)
    if not base:
        sys.exit(f"server_env: no Python {PYTHON} on this machine")
    subprocess.run([base, "-m", "venv", FOLDER], check=True)
    command = [FOLDER / "bin" / "python", "-m", "pip", "install", "--no-cache-dir", "--progress-bar", "off", f"vllm=={VERSION}"]
    subprocess.run(command, check=True)
    (FOLDER / "gpumem-whole").touch()


if __name__ == "__main__":
    if sys.argv[1:] == ["install"]:
        install()
    elif sys.argv[1:] == ["path"]:
        print(python() or sys.exit("server_env: not installed"))
    else:
        sys.exit(__doc__)
