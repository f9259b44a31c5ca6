"""The plugin for pytest in three projects laid out as public ones are: a library with a src folder and parametrized tests, a trainer
with unittest's classes, a service with fixtures in conftest.py and tests in classes. None imports gpumem; all is said by marks and by
options in their own configuration. Each test writes what PyTorch's statistics say, and each project has a leak and a limit.
"""

import json

import pytest
from test_pytest_plugin import outcomes, run_pytest

# Of each project's own: what PyTorch counts, next to the project's other files.
FIGURES = '''
import json, torch

def note(name):
    """The peak since the process began."""
    with open("figures.jsonl", "a") as file:
        file.write(json.dumps([name, torch.cuda.max_memory_allocated()]) + "\\n")
'''

LIBRARY = {
    "pyproject.toml": """
[tool.pytest.ini_options]
pythonpath = ["src", "."]
testpaths = ["tests"]
addopts = "--gpumem-sim=a100-40gb"
""",
    "figures.py": FIGURES,
    "src/blocks/__init__.py": "from blocks.attention import Attention, mask_of\n",
    "src/blocks/attention.py": """
import functools, torch


@functools.lru_cache(maxsize=None)
def mask_of(length):
    return torch.ones(length, length, device="cuda").tril()


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x, causal=False):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2)
        if causal:
            scores = scores * mask_of(length)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))
""",
    "tests/conftest.py": """
import pytest, torch


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def dtype(request):
    return request.param
""",
    "tests/test_attention.py": """
import pytest, torch
from blocks import Attention
from figures import note


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.gpu_memory(leaks=False)
def test_shape(dtype, heads, request):
    layer = Attention(64, heads).to("cuda", dtype)
    out = layer(torch.zeros(2, 128, 64, device="cuda", dtype=dtype))
    assert out.shape == (2, 128, 64)
    note(request.node.name)


@pytest.mark.gpu_memory(leaks=False)
def test_causal(request):
    out = Attention(64, 4).cuda()(torch.zeros(2, 256, 64, device="cuda"), causal=True)
    out.sum().backward()
    note(request.node.name)


@pytest.mark.gpu_memory(limit="1 MiB")
def test_long(request):
    Attention(64, 4).cuda()(torch.zeros(1, 1024, 64, device="cuda"))
    note(request.node.name)
""",
}

TRAINER = {
    "setup.cfg": "[tool:pytest]\npython_files = check_*.py\naddopts = --gpumem --gpumem-sim=l4-24gb\n",
    "figures.py": FIGURES,
    "trainer.py": """
import torch


class Trainer:
    history = []

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def fit(self, batches, keep=False):
        for x in batches:
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            if keep:
                self.history.append(loss)
""",
    "tests/check_trainer.py": """
import sys, unittest
from pathlib import Path
import pytest, torch
sys.path.insert(0, str(Path(__file__).parents[1]))
from figures import note
from trainer import Trainer


class TestTrainer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = torch.nn.Linear(512, 512).cuda()

    @classmethod
    def tearDownClass(cls):
        del cls.model

    def setUp(self):
        self.trainer = Trainer(self.model, torch.optim.SGD(self.model.parameters(), lr=0.1))

    def tearDown(self):
        del self.trainer

    def batches(self, count):
        return (torch.zeros(64, 512, device="cuda") for _ in range(count))

    @pytest.mark.gpu_memory(leaks=False)
    def test_fit(self):
        self.trainer.fit(self.batches(3))
        note("test_fit")

    @pytest.mark.gpu_memory(leaks=False)
    def test_history(self):
        self.trainer.fit(self.batches(2), keep=True)
        note("test_history")

    @pytest.mark.gpu_memory(own="100 KiB")
    def test_small(self):
        self.trainer.fit(self.batches(1))
        note("test_small")
""",
}

SERVICE = {
    "pytest.ini": "[pytest]\nmarkers =\n    smoke: a quick test\n",
    "figures.py": FIGURES,
    "conftest.py": """
import pytest, torch


@pytest.fixture(scope="session")
def model():
    return torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).cuda().eval()


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@pytest.fixture
def request_of(model):
    def make(size):
        return model(torch.zeros(size, 256, device="cuda"))
    return make
""",
    "service/__init__.py": "",
    "service/cache.py": "class Cache(dict):\n    def answer(self, key, compute):\n        return self.setdefault(key, compute())\n\nCACHE = Cache()\n",
    "service/test_service.py": """
import pytest
from figures import note
from service.cache import CACHE

pytestmark = pytest.mark.gpu_memory(sim="a100-40gb", leaks=False)


@pytest.mark.smoke
class TestRequests:
    @pytest.mark.parametrize("size", [1, 64, 1024])
    def test_answer(self, request_of, size, request):
        assert request_of(size).shape == (size, 256)
        note(request.node.name)

    def test_cached(self, request_of, request):
        CACHE.answer("key", lambda: request_of(64))
        note(request.node.name)

    @pytest.mark.gpu_memory(own="64 KiB")
    def test_over(self, request_of, request):
        request_of(1024)
        note(request.node.name)
""",
}

# Of each project: its files, and the tests that are wrong with what is said of them.
PROJECTS = {
    "library": (LIBRARY, {
        "test_causal": ("error", "key '256' of dict: cache of _lru_cache_wrapper: global 'mask_of' of module blocks.attention"),
        "test_long": ("failure", "the limit is 1.00 MiB"),
    }),
    "trainer": (TRAINER, {
        "test_history": ("error", "item 1 of list: attribute 'history' of class Trainer: global 'Trainer' of module trainer"),
        "test_small": ("failure", "the test itself allocated"),
    }),
    "service": (SERVICE, {
        "test_cached": ("error", "key 'key' of Cache: global 'CACHE'"),
        "test_over": ("failure", "the test itself allocated"),
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_s_tests_are_judged_by_what_pytorch_counts(name, tmp_path):
    files, wrong = PROJECTS[name]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    done = run_pytest(tmp_path, "--junitxml=report.xml")
    found = outcomes(tmp_path / "report.xml")
    figures = dict(map(json.loads, (tmp_path / "figures.jsonl").read_text().splitlines()))
    assert set(figures) == set(found) and set(wrong) < set(found), done.out
    for test, (outcome, text, properties) in found.items():
        kind, why = wrong.get(test, ("passed", ""))
        assert outcome == [kind] and why in text, (test, outcome, text)
        # PyTorch's peak is that of all tests until then
        assert int(properties["gpumem_peak_bytes"]) <= figures[test], test
    highest = max(int(properties["gpumem_peak_bytes"]) for _, _, properties in found.values())
    assert highest == max(figures.values())
