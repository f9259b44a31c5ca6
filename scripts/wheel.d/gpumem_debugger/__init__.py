"""The gpumem command of the wheel: bin/gpumem of this folder, with its libraries and gdb's plugin beside it."""

import glob
import importlib.util
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


def load_ipython_extension(shell):
    """`%load_ext gpumem_debugger` in a notebook: the magics of the module `gpumem` of the installation in this folder."""
    for path in glob.glob(os.path.join(glob.escape(FOLDER), "lib*", "gpumem-python", "gpumem", "__init__.py")):
        name = f"{__name__}._gpumem"
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[os.path.dirname(path)])
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
        sys.modules[name].load_ipython_extension(shell)
        return
    raise ImportError("gpumem: the module for notebooks is missing: install gpumem-debugger again")


def main():
    program = os.path.join(FOLDER, "bin", "gpumem")
    try:
        os.execve(program, ["gpumem", *sys.argv[1:]], environment())
    except OSError as error:
        sys.exit(f"gpumem: {program}: {error.strerror}: install gpumem-debugger again")
