"""The plugin for pytest: what it says of tests is what PyTorch counts in them and what is known by how they are made."""

import json
import os
import re
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import BUILD, PYTHON, run_process

PLUGIN = BUILD / "lib" / "gpumem-python"

# Each random test allocates and releases by its seed; what it keeps, in a list of the module, is left.
TESTS = """
import os, random
import pytest, torch

pytestmark = pytest.mark.gpu_memory(sim="a100-40gb")
cache, KIB = [], 1024


def block(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


@pytest.fixture(scope="module")
def weights():
    return block(4096 * KIB)


@pytest.fixture
def batch():
    return block(1024 * KIB)


@pytest.mark.gpu_memory(leaks=False)
@pytest.mark.parametrize("seed", range(8))
def test_random(seed, weights, record_property):
    chance, live, kept = random.Random(seed), [], 0  # kept: as it asked for it
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(40):
        size = 512 * chance.randrange(1, 4000)
        if chance.random() < 0.4 and live:
            live.pop(chance.randrange(len(live)))
        elif seed % 2 and chance.random() < 0.1:
            cache.append(block(size))
            kept += size
        else:
            live.append(block(size))
    live.clear()
    peak, left = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated() - before
    assert (left > 0) == (kept > 0)
    record_property("truth", f"{peak} {peak - before} {left}")


def test_clears():
    cache.clear()


@pytest.mark.gpu_memory(limit=4096 * KIB + 1024 * KIB + 512)
@pytest.mark.parametrize("size", [512, 513])
def test_limit(weights, batch, size):
    block(size)


@pytest.mark.gpu_memory(limit="6 MiB", own="1 MiB")
@pytest.mark.parametrize("size", [1024 * KIB, 1024 * KIB + 1])
def test_own(weights, size):
    block(size)


@pytest.mark.gpu_memory(leaks=False)
def test_fixtures_are_no_leaks(weights, batch, later):
    pass


@pytest.fixture(scope="module")
def later():
    return block(100 * KIB)


@pytest.mark.gpu_memory(leaks=False)
def test_a_module_fixture_of_the_test_itself(request):
    request.getfixturevalue("latest")


@pytest.fixture(scope="module")
def latest():
    return block(200 * KIB)


@pytest.mark.gpu_memory(leaks=False)
def test_a_cycle_is_no_leak():
    cycle = [block(KIB)]
    cycle.append(cycle)


class Holder:
    pass


holder = Holder()


@pytest.mark.gpu_memory(leaks=False)
def test_held(batch):
    holder.output = batch.clone()


@pytest.mark.gpu_memory(limit="1 MiB")
def test_failed_by_itself(batch):
    assert batch.numel() == 7, "its own reason"


def test_skipped():
    pytest.skip("no reason")


@pytest.mark.xfail
def test_xfailed(batch):
    assert 0


@pytest.mark.gpu_memory(sim="t4-16gb")
def test_device():
    assert torch.cuda.get_device_name() == "Tesla T4"


def test_grows():
    block(int(os.environ.get("GROW", "1")) * 2048 * KIB)


def test_shrinks():
    block(1024 * KIB // int(os.environ.get("GROW", "1")))
"""

# No PyTorch: each process of these is quick.
ENDINGS = """
import os
import pytest

pytestmark = pytest.mark.gpu_memory(sim="8GiB")


def test_before():
    assert "GPUMEM_PYTEST_SIM" in os.environ


@pytest.fixture
def broken():
    raise RuntimeError("a fixture's own error")


def test_fixture(broken):
    pass


def test_dies():
    print("last words", flush=True)
    os._exit(7)


def test_after():
    pass


def test_killed():
    os.kill(os.getpid(), 9)


@pytest.mark.gpu_memory(sim="t5-17gb")
def test_no_such_device():
    pass


@pytest.mark.gpu_memory(sim="t5-17gb")
def test_no_such_device_either():
    pass
"""


def run_pytest(folder, *words, before=(), **environment):
    env = {**os.environ, "PYTHONPATH": f"{PLUGIN}", "COLUMNS": "300", **environment}
    env.pop("GPUMEM_NO_RECORD", None)
    command = [*before, PYTHON, "-m", "pytest", "-p", "gpumem.pytest_plugin", "-p", "no:cacheprovider", "-rA", *words]
    return run_process(command, cwd=folder, env=env, merge=True)


def outcomes(report):
    """test -> (outcomes in order, text, properties) of a JUnit file."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        words, text, properties = found.setdefault(case.get("name"), ([], [], {}))
        here = [child for child in case if child.tag in ("failure", "error", "skipped")]
        words += [child.tag for child in here] or ["passed"]
        text += [child.text or child.get("message") or "" for child in here]
        properties.update((one.get("name"), one.get("value")) for one in case.iter("property"))
    return {name: (words, "\n".join(text), properties) for name, (words, text, properties) in found.items()}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_memory.py").write_text(TESTS)
    (folder / "test_endings.py").write_text(ENDINGS)
    return folder


@pytest.fixture(scope="module")
def first(project):
    """One run of all: (its output, the outcomes)."""
    done = run_pytest(project, "--gpumem", "--gpumem-baseline=base.json", "--gpumem-update", "--junitxml=report.xml")
    return done, outcomes(project / "report.xml")


SEEDS = range(8)


def test_figures_are_pytorchs_and_what_is_left_is_found(first):
    _, found = first
    leaky = 0
    for seed in SEEDS:
        words, text, properties = found[f"test_random[{seed}]"]
        peak, own, kept = properties["truth"].split()
        assert (properties["gpumem_peak_bytes"], properties["gpumem_own_bytes"], properties["gpumem_left_bytes"]) == (peak, own, kept)
        assert words == (["error"] if int(kept) else ["passed"]), text
        if int(kept):
            assert re.search(r"held by\n  item \d+ of list: global 'cache' of module test_memory", text), text
            assert "test_memory.py:10 in block" in text
        leaky += int(kept) > 0
    assert 0 < leaky < len(SEEDS)


def test_limits_are_exact(first):
    _, found = first
    assert found["test_limit[512]"][0] == ["passed"]
    words, text, _ = found["test_limit[513]"]
    assert words == ["failure"]
    assert text.startswith("gpumem: 5.00 MiB (5,243,904 bytes) were allocated on cuda:0; the limit is 5.00 MiB (5,243,392 bytes)\n4.00 MiB (")
    assert "test_memory.py:10 in block" in text
    assert found["test_own[1048576]"][0] == ["passed"]
    words, text, _ = found["test_own[1048577]"]
    assert words == ["failure"] and text.startswith("gpumem: the test itself allocated 1.00 MiB (1,049,088 bytes) at a time; ")


def test_what_fixtures_hold_is_no_leak_and_what_a_global_holds_is_named(first):
    _, found = first
    for test in ("test_fixtures_are_no_leaks", "test_a_module_fixture_of_the_test_itself", "test_a_cycle_is_no_leak"):
        assert found[test][0] == ["passed"], found[test][1]
    words, text, properties = found["test_held"]
    assert words == ["error"] and properties["gpumem_left_bytes"] == f"{1 << 20}"
    assert "attribute 'output' of Holder: global 'holder' of module test_memory" in text, text


def test_outcomes_are_pytests_own(first):
    done, found = first
    words, text, _ = found["test_failed_by_itself"]
    assert words == ["failure"] and "its own reason" in text and "gpumem:" not in text
    assert found["test_skipped"][0] == ["skipped"] and found["test_xfailed"][0] == ["skipped"]
    assert found["test_device"][0] == ["passed"]
    assert re.search(r"^SKIPPED .*no reason$", done.out, re.M)
    assert re.search(r"^FAILED test_memory.py::test_limit\[513\] - gpumem: 5.00 MiB \(5,243,904 bytes\) were allocated", done.out, re.M)


def test_a_process_that_ends_costs_the_test_that_ended_it(first):
    _, found = first
    assert found["test_before"][0] == ["passed"] and found["test_after"][0] == ["passed"]
    assert found["test_fixture"][0] == ["error"] and "a fixture's own error" in found["test_fixture"][1]
    words, text, _ = found["test_dies"]
    assert words == ["failure"] and "ended with status 7" in text
    words, text, _ = found["test_killed"]
    assert words == ["failure"] and "ended by signal 9" in text or "ended with status 137" in text
    for test in ("test_no_such_device", "test_no_such_device_either"):
        words, text, _ = found[test]
        assert words == ["failure"] and "simulated device 't5-17gb': no such profile" in text, text


def test_recordings_of_failed_tests_are_kept_and_answer(first, project, run_gpumem):
    done, _ = first
    kept = {path.name for path in (project / ".gpumem").glob("*.gpumem")}
    assert any(name.startswith("test_memory.py_test_limit_513_") for name in kept)
    assert not any("limit_512_" in name for name in kept)
    (path,) = (project / ".gpumem").glob("*test_held*")
    assert f"gpumem peak {path}" in done.out
    assert "test_memory.py:" in run_gpumem("blocks", path).check().out
    assert (project / ".gpumem" / ".gitignore").read_text() == "*\n"


def test_the_table_lists_the_highest_first(first):
    done, found = first
    table = done.out.split("GPU memory")[1].split("own peak: without")[0]
    rows = [line.split() for line in table.splitlines() if "::" in line]
    own = [int(found[row[-1].split("::")[1]][2]["gpumem_own_bytes"]) for row in rows]
    assert len(rows) == 10 and own == sorted(own, reverse=True)
    assert own[0] == max(int(one[2].get("gpumem_own_bytes", 0)) for one in found.values())


def test_growth_beyond_the_baseline_fails(first, project):
    base = json.loads((project / "base.json").read_text())["tests"]
    assert base["test_memory.py::test_grows"] == {"own_peak": 2 << 20}
    words = ["--gpumem-baseline=base.json", "--junitxml=again.xml", "test_memory.py", "-k", "grows or shrinks or device"]
    run_pytest(project, *words, GROW="2")
    found = outcomes(project / "again.xml")
    words, text, _ = found["test_grows"]
    assert words == ["failure"] and "has grown to 4.00 MiB (4,194,304 bytes); the limit is 2.00 MiB (2,097,152 bytes) in the baseline" in text, text
    assert found["test_shrinks"][0] == ["passed"] and found["test_device"][0] == ["passed"]


PLAIN = """
import pytest

@pytest.mark.gpu_memory(limit="1 GiB", leaks=False)
def test_nothing():
    pass
"""


@pytest.fixture
def plain(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_plain.py").write_text(PLAIN)
    return tmp_path


def test_a_test_without_pytorch_is_left_alone(plain):
    done = run_pytest(plain, "--gpumem")
    assert done.status == 0 and "No test allocated GPU memory." in done.out and not (plain / ".gpumem").exists()


COUNTED = """
import gpumem.pytest_plugin as plugin

asked = plugin.ask

def ask(*words, **options):
    with open("asked", "a") as out:
        print(words[0], words[1].name, file=out)
    return asked(*words, **options)

plugin.ask = ask
"""


# Each allocates 1 MiB in its call, and 2 MiB in its teardown.
IN_TEARDOWN = """
import pytest, torch

pytestmark = pytest.mark.gpu_memory(sim="a100-40gb")


@pytest.fixture
def later():
    yield
    torch.empty(2 << 20, dtype=torch.uint8, device="cuda")


def use():
    torch.empty(1 << 20, dtype=torch.uint8, device="cuda")


def test_free(later):
    use()


@pytest.mark.gpu_memory(leaks=False)
def test_leaks(later):
    use()


@pytest.mark.gpu_memory(limit="512 KiB")
def test_over(later):
    use()


@pytest.mark.gpu_memory(own="1 MiB")
def test_over_in_teardown(later):
    use()
"""


def test_a_recording_is_read_after_the_call_only_for_a_limit(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(COUNTED)
    (tmp_path / "test_two.py").write_text(IN_TEARDOWN)
    run_pytest(tmp_path, "--junitxml=report.xml")
    found = outcomes(tmp_path / "report.xml")
    asked = [line.split() for line in (tmp_path / "asked").read_text().splitlines()]
    times = {test: sum(word == "assert" and f"_{test}-" in name for word, name in asked) for test in found}
    assert times == {"test_free": 1, "test_leaks": 1, "test_over": 2, "test_over_in_teardown": 2}
    assert {test: one[0] for test, one in found.items()} == {
        "test_free": ["passed"],
        "test_leaks": ["passed"],
        "test_over": ["failure"],
        "test_over_in_teardown": ["error"],
    }
    assert found["test_free"][2]["gpumem_peak_bytes"] == f"{2 << 20}"


@pytest.mark.parametrize(
    ("words", "mark", "said"),
    [
        (["--gpumem-update"], "", "--gpumem-update: no file to write to: give one with --gpumem-baseline FILE"),
        (["--gpumem-baseline=none.json"], "", "--gpumem-baseline: none.json does not exist: --gpumem-update writes it"),
        (["--gpumem-baseline=test_plain.py"], "", "--gpumem-baseline: test_plain.py is no baseline of gpumem's"),
        (["--gpumem-tolerance=lots"], "", "--gpumem-tolerance: 'lots' is no tolerance: give one such as 5% or 10MiB"),
        ([], "limit='2 GB'", "test_plain.py::test_more: gpu_memory: limit: '2 GB' is no size: give one such as '2 GiB'"),
        ([], "limits='2 GiB'", "test_plain.py::test_more: gpu_memory: 'limits' is not known: it takes limit=, own=, leaks= and sim="),
        ([], "'2 GiB'", "gpu_memory: '2 GiB' is not known: it takes"),
    ],
)
def test_mistakes_are_answered_before_any_test_runs(plain, words, mark, said):
    if mark:
        (plain / "test_plain.py").write_text(f"{PLAIN}\n\n@pytest.mark.gpu_memory({mark})\ndef test_more():\n    pass\n")
    done = run_pytest(plain, *words)
    assert done.status == 4 and f"ERROR: {said}" in done.out.replace("test_plain.py::test_more: gpu_memory: '2", "gpu_memory: '2"), done.out
    assert "PASSED" not in done.out


def test_a_process_that_is_recorded_already_says_so(plain, gpumem):
    done = run_pytest(plain, before=[gpumem, "run", "-o", plain / "all.gpumem", "--"])
    assert done.status == 1 and "this process is recorded already" in done.out


@pytest.mark.long
def test_beside_xdist(project, first):
    _, found = first
    done = run_pytest(project, "-n", "2", "--junitxml=two.xml", "--gpumem", "test_memory.py", "-k", "clears or limit or own or held or skipped")
    again = outcomes(project / "two.xml")
    assert again.keys() and {test: words for test, (words, _, _) in again.items()} == {test: found[test][0] for test in again}, done.out
