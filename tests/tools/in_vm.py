"""What the scripts share that run as root in a virtual machine (linux_vm.py): a user, the build where others can reach it, and gpumem's
answers."""

import subprocess
from pathlib import Path

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def ask(words, folder):
    """(status, what a command prints to either stream)"""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1200,
    )
    return done.returncode, done.stdout


def mount_repository(repository, folder):
    """The repository's place below a folder that everybody may enter: others may not come to where it lies."""
    place = Path(folder) / "repository"
    place.mkdir()
    subprocess.run(["mount", "--bind", repository, place], check=True)
    return place


def compile_program(source, program):
    subprocess.run(["cc", "-o", program, "-xc", "-"], input=source, text=True, check=True)
