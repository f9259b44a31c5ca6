"""The page of a small training run in the browser, for the tests of its parts: import the fixtures that a file needs."""

import pytest
from browser import Opened

from conftest import EXAMPLES, PYTHON

made = {}  # one recording for all files of tests


@pytest.fixture(scope="module")
def recording(run_gpumem, tmp_path_factory):
    if "mlp" not in made:
        made["mlp"] = tmp_path_factory.mktemp("view") / "mlp.gpumem"
        run_gpumem("run", "--sim", "--names", "-o", made["mlp"], "--", PYTHON, EXAMPLES / "train_mlp.py").check()
    return made["mlp"]


@pytest.fixture(scope="module")
def page(recording, run_gpumem):
    run_gpumem("view", recording).check()
    return recording.with_name("mlp.gpumem.html")


@pytest.fixture(scope="module")
def opened(chromium, page):
    with Opened(chromium, page) as shown:
        yield shown
