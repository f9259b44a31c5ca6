"""The magics for notebooks: one notebook, run by nbclient on the simulated device as a user starts it, and each cell's outputs."""

import html
import json
import os
import re
import shutil
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import BUILD, PYTHON, ROOT, note_of_set_up, run_process
from hostile import ACTS, check_text

FOLDER = ROOT / "build" / "clients"
MODULES = BUILD / "lib" / "gpumem-python"
DRIVER = ROOT / "tests" / "e2e" / "programs" / "notebook.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), str(MODULES), os.environ.get("PYTHONPATH", "")])}
HOSTILE = "<img src=x onerror=alert(1)>" + ACTS

if not FOLDER.exists():
    pytest.skip(f"nothing that runs notebooks ({note_of_set_up('no-clients')})", allow_module_level=True)

CELLS = {
    "load": "%load_ext gpumem",
    "import": "import gc, sys, torch\nallocated = torch.cuda.memory_allocated",
    "peak of nothing": "%gpumem peak",
    "record": """%%gpumem
net = torch.nn.Linear(1000, 1000).cuda()
kept = []
for step in range(4):
    kept.append(net(torch.ones(500, 1000, device="cuda")).relu())
    kept[-1].sum().backward()
torch.cuda.max_memory_allocated()""",
    "peak": "found = %gpumem peak --json\nfound['allocated']",
    "steps": "%gpumem steps",
    "timeline": "%gpumem timeline",
    "why": "%gpumem why '#1'",
    "cell blocks": "%gpumem blocks cell --at-peak",
    "kernel": "%gpumem blocks",
    "kernel allocated": "allocated()",
    "make": "out = torch.ones(1000, 1000, device='cuda')\naddress = hex(out.data_ptr())\nout",
    "fail": "def work(local):\n    raise ValueError('no')\nwork(out)",
    "who": "%gpumem who out",
    "who of a module": "%gpumem who net",
    "delete": "del out\ngc.collect()\nbefore = allocated()",
    "who by address": "%gpumem who $address",
    "reset": "%reset -f out\ngc.collect()\nprint(before - allocated())",
    "forget outputs": "%gpumem forget outputs",
    "who after outputs": "%gpumem who-holds $address",
    "forget errors": "%gpumem forget errors",
    "released": "print(before - allocated())",
    "hostile": f"""hostile = {HOSTILE!r}
names = {{hostile: torch.ones(1000, 10, device="cuda")}}
def make():
    return torch.ones(2000, 10, device="cuda")
make.__code__ = make.__code__.replace(co_name=hostile, co_qualname=hostile) if sys.version_info >= (3, 11) else make.__code__.replace(co_name=hostile)""",
    "hostile who": "%gpumem who names",
    "hostile record": "%%gpumem\nmore = make()",
    "hostile blocks": "%gpumem blocks cell",
    "error": "%%gpumem\nother = torch.ones(1000, 1000, device='cuda')\n1 / 0",
    "after error": "%gpumem peak",
    "nested": "%%gpumem\nget_ipython().run_cell_magic('gpumem', '', '1')",
    "exit": "%%gpumem\nraise SystemExit(3)",
    "alive": "print(sys.version_info[0])",
    "nothing": "%%gpumem\n1 + 1",
}
# Arguments that are refused with one line, and a part of that line.
REFUSED = {
    "%gpumem": "no question",
    "%gpumem wat": "unknown command 'wat'",
    "%gpumem peek": "did you mean",
    "%gpumem run": "record a cell with %%gpumem",
    "%gpumem 'peak": "No closing quotation",
    "%gpumem peak --wat": "unknown option",
    "%gpumem peak /no/such.gpumem": "No such file",
    "%gpumem who": "name a tensor",
    "%gpumem who no_such": "NameError",
    "%gpumem who 1 +": "SyntaxError",
    "%gpumem who 'text'": "has no tensor on a CUDA device",
    "%gpumem who torch.ones(3)": "has no tensor on a CUDA device",
    "%gpumem forget all": "outputs, errors, or nothing",
    "%%gpumem --wat\nmade = 1": "unrecognized arguments: --wat",
    "%%gpumem -o /no/such/x\nmade = 1": "cannot record",
    "%%gpumem -o 'a;b'\nmade = 1": "';' cannot be in",
    "%%gpumem\nx = (": "the cell was not run",
}


class Cell:
    """A cell that was run. `text`: what it shows as text; `html`, `error`, `said` (its streams)."""

    def __init__(self, cell):
        self.number, outputs = cell["execution_count"], cell["outputs"]
        data = [output["data"] for output in outputs if "data" in output]
        self.pictures = ["".join(one["image/svg+xml"]) for one in data if "image/svg+xml" in one]
        self.html = "".join("".join(one.get("text/html", "")) for one in data)
        self.text = "\n".join("".join(one["text/plain"]) for one in data)
        self.said = "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")
        (self.error,) = [output for output in outputs if output["output_type"] == "error"] or [None]

    def cells(self):
        """The cells of its tables, by row."""
        rows = re.findall(r"<tr>(.*?)</tr>", self.html, re.S)
        return [[html.unescape(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.S)] for row in rows]


@pytest.fixture(scope="module")
def cells(tmp_path_factory, run_gpumem):
    folder = tmp_path_factory.mktemp("notebook")
    sources, out = [*CELLS.values(), *REFUSED], folder / "out.ipynb"
    (folder / "cells.json").write_text(json.dumps(sources))
    words = ("run", "--sim", "--no-record", "--", PYTHON, DRIVER, folder / "cells.json", out)
    run_gpumem(*words, env=ENVIRONMENT, cwd=folder).check()
    ran = [Cell(cell) for cell in json.loads(out.read_text())["cells"]]
    return dict(zip([*CELLS, *REFUSED], ran))


# ---- a recorded cell ----


def test_a_recorded_cell_shows_its_peak_as_a_table(cells):
    shown, number = cells["record"], cells["record"].number
    true = int(shown.text.splitlines()[0])  # the cell's last expression: PyTorch's own figure
    assert f"{true:,} bytes" in shown.text and f"{true:,} bytes" in shown.html
    assert cells["peak"].text == str(true)
    columns, *rows = shown.cells()
    assert columns == ["size", "blocks", "allocated at"]
    assert f"Cell In[{number}]:5 in <module>" in [row[2] for row in rows], "the line as the notebook numbers it"


def test_questions_without_a_file_are_about_the_cell(cells):
    assert cells["peak of nothing"].said.startswith("UsageError: %gpumem: no cell was recorded")
    number = cells["record"].number
    assert cells["steps"].text.startswith(f"4 steps of the loop at Cell In[{number}]:4\n") and len(cells["steps"].cells()) == 5
    assert f"Cell In[{number}]:2 in <module>" in cells["why"].text
    assert "notebook.py" not in cells["why"].text and "interactiveshell" not in cells["why"].text
    assert f"Cell In[{number}]:5 in <module>" in cells["cell blocks"].text


def test_the_timeline_is_a_picture_in_the_notebook(cells):
    for name in ("record", "timeline"):
        (picture,) = cells[name].pictures
        assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_without_a_recording_a_question_is_about_the_kernel(cells):
    assert f"({int(cells['kernel allocated'].text):,} bytes)" in cells["kernel"].text
    assert cells["kernel"].cells()[0][:2] == ["address", "size"]


def test_an_error_of_the_cell_stays_one_and_the_cell_is_recorded(cells):
    assert cells["error"].error["ename"] == "ZeroDivisionError"
    assert "notebook.py" not in "".join(cells["error"].error["traceback"])
    assert "4,000,256" in cells["error"].text or "3.81 MiB" in cells["error"].text
    assert f"Cell In[{cells['error'].number}]:2 in <module>" in cells["after error"].text


def test_unusual_cells_are_reported(cells):
    assert "recorded already" in cells["nested"].said
    assert cells["exit"].error["ename"] == "SystemExit" and cells["alive"].said == "3\n"
    assert cells["nothing"].text.splitlines() == ["2", "The cell allocated no device memory."]


# ---- holders ----


def test_holders_are_named_as_in_a_notebook(cells):
    number = cells["make"].number
    columns, *rows = cells["who"].cells()
    assert columns == ["held by", "released by"]
    assert rows == [
        ["variable out", "del out"],
        [f"Out[{number}], also called _{number}", "%gpumem forget"],
        ["_, the last result", "%gpumem forget"],
        ["the traceback of the last error: local local of work()", "%gpumem forget"],
    ]
    assert "2 of 2 references found" in cells["who"].text
    assert ["variable out", "del out"] not in cells["who by address"].cells()
    assert cells["who by address"].cells()[1:] == rows[1:]
    assert "It has 2 tensors" in cells["who of a module"].text and ["variable net.weight"] == [
        row[0] for row in cells["who of a module"].cells() if row[0] == "variable net.weight"
    ]


def test_what_ipython_keeps_is_released(cells):
    """%reset leaves copies of the outputs, and the traceback (ipython#11572, pytorch#27600)."""
    assert cells["reset"].said.splitlines()[-1] == "0"
    assert "0 B of device memory was released" in cells["forget outputs"].text
    assert [row[0] for row in cells["who after outputs"].cells()[1:]] == ["the traceback of the last error: local local of work()"]
    assert "3.81 MiB of device memory was released" in cells["forget errors"].text
    assert cells["released"].said == "4000256\n"


# ---- bad input ----


def test_hostile_names_are_shown_and_do_nothing(cells):
    for name in ("hostile who", "hostile record", "hostile blocks"):
        shown = cells[name]
        assert "alert(1)" in shown.text, shown.text
        check_text(shown.text.encode())
        check_text(html.unescape(shown.html).encode())
        assert "<img" not in shown.html and "&lt;img" in shown.html
        for picture in shown.pictures:
            tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture).iter()}
            assert not tags & {"script", "img", "foreignObject", "a", "image"}


@pytest.mark.parametrize("words", REFUSED)
def test_wrong_words_are_refused_with_a_line(cells, words):
    shown = cells[words]
    if words != "%%gpumem\nx = (":
        assert shown.error is None and shown.said.count("UsageError") == 1, shown.said
    assert REFUSED[words] in shown.said and "Traceback" not in shown.said, shown.said
    check_text(shown.said.encode(), tabs=True)


# ---- elsewhere ----


def test_in_a_terminal_answers_are_text(tmp_path, run_gpumem):
    script = tmp_path / "script.ipy"
    script.write_text("%load_ext gpumem\n%gpumem sim list\n%gpumem who x\n%gpumem steps\n")
    done = run_process([PYTHON, "-m", "IPython", "--no-banner", "--colors=NoColor", script], env={**ENVIRONMENT, "IPYTHONDIR": str(tmp_path)})
    assert "a100-40gb" in done.out and "<pre>" not in done.out
    assert "PyTorch is not imported" in done.out + done.err


def test_the_extension_of_the_wheel_is_that_of_its_folder(tmp_path):
    package = tmp_path / "gpumem_debugger"
    shutil.copytree(ROOT / "scripts" / "wheel.d" / "gpumem_debugger", package)
    program = """
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
shell.run_line_magic("load_ext", "gpumem_debugger")
print(type(shell.find_magic("gpumem").__self__).__module__)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(FOLDER)]), "IPYTHONDIR": str(tmp_path)}
    without = run_process([PYTHON, "-c", program], env=environment)
    assert "install gpumem-debugger again" in without.out + without.err
    shutil.copytree(MODULES, package / "lib64" / "gpumem-python")
    assert run_process([PYTHON, "-c", program], env=environment).check().out.strip() == "gpumem_debugger._gpumem.notebook"


def test_lines_whose_growth_ends_are_in_the_table_of_leaks():
    """`leaks` has them under `bounded` (test_growth_bounded); the table says why they are no leaks."""
    site = {"file": "buffer.py", "line": 6, "function": "keep", "bytes": 12 << 20, "blocks": 12}
    answer = {"sites": [], "bounded": [{**site, "bound": {"kind": kind}} for kind in ("full", "by_shape", "limit")]}
    words = "import json, sys; from gpumem.notebook_answers import leaks; print(*leaks(json.loads(sys.argv[1])))"
    shown = run_process([PYTHON, "-c", words, json.dumps(answer)], env={**os.environ, "PYTHONPATH": str(MODULES)}).check().out
    assert "No line keeps more memory with each step." in shown and shown.count("buffer.py:6 in keep") == 3, shown
    assert all(why in shown for why in ("a buffer that is full", "for each shape of the inputs", "its container has a limit")), shown
