"""The CPythons of this machine that tests may start: pyenv's, Debian's, and those of debian_python.py."""

import re
import subprocess
from pathlib import Path

import debian_python


def pythons():
    """(version, program) of each, one per version: (3, 13), /.../python3.13. Only builds with a GIL."""
    found = {}
    places = [*sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin")), Path("/usr/bin")]
    places += [debian_python.FOLDER / version / "usr/bin" for version in debian_python.VERSIONS]
    for folder in places:
        for program in sorted(folder.glob("python3.*")):
            if re.fullmatch(r"python3\.\d+", program.name):
                version = 3, int(program.name[8:])
                if version >= (3, 9) and version not in found and _starts(program):
                    found[version] = program
    return sorted(found.items())


def _starts(program):
    try:
        return subprocess.run([program, "-I", "-S", "-c", ""], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
