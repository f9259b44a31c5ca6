"""The plugin for pytest, as pytest finds it in an environment with the wheel: that of the installation in this folder."""

import glob
import importlib.util
import os
import warnings

from . import FOLDER


def _load():
    for path in glob.glob(os.path.join(glob.escape(FOLDER), "lib*", "gpumem-python", "gpumem", "pytest_plugin.py")):
        spec = importlib.util.spec_from_file_location("gpumem_debugger._pytest_plugin", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return {name: value for name, value in vars(module).items() if name.startswith("pytest_")}
    # pytest works without it
    warnings.warn("gpumem: the plugin for pytest is missing: install gpumem-debugger again", stacklevel=2)
    return {}


globals().update(_load())
