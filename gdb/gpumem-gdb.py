"""Loads gpumem into gdb or cuda-gdb: `source …/gpumem-gdb.py`, or start it with `gpumem gdb`."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import gpumem  # noqa: E402

gpumem.install()
