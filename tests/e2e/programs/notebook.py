"""notebook.py CELLS OUT: runs the cells (JSON: a list of texts) as a notebook, by nbclient, and writes the notebook with its outputs."""

import json
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

cells = json.loads(Path(sys.argv[1]).read_text())
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
NotebookClient(notebook, timeout=600, kernel_name="python3", allow_errors=True).execute()
nbformat.write(notebook, sys.argv[2])
