"""The gpumem command of the wheel: bin/gpumem of this folder, with its libraries and gdb's plugin beside it."""

import os
import shutil
import sys
import sysconfig

FOLDER = os.path.dirname(os.path.abspath(__file__))


def environment():
    """The environment, and what was installed into this Python: the package mcp (the extra [mcp]), and where no gdb is on the PATH
    a gdb (the extra [gdb])."""
    found = dict(os.environ)
    if sys.argv[1:2] == ["mcp"]:
        found.setdefault("GPUMEM_MCP_PYTHON", sys.executable)
    here = os.path.join(sysconfig.get_path("scripts"), "gdb")
    if "GPUMEM_GDB" in os.environ or shutil.which("gdb") or not os.access(here, os.X_OK):
        return found
    return {**found, "GPUMEM_GDB": here}


def main():
    program = os.path.join(FOLDER, "bin", "gpumem")
    try:
        os.execve(program, ["gpumem", *sys.argv[1:]], environment())
    except OSError as error:
        sys.exit(f"gpumem: {program}: {error.strerror}: install gpumem-debugger again")
