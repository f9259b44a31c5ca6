"""What the probe learns of a PyTorch is the row that gpumem ships for it, and `gpumem learn` proves it with no shipped row.
`scripts/test --all` runs this on every version that is installed."""

import os
import subprocess

import pytest

from conftest import BUILD, PYTHON, ROOT

PROBE = ROOT / "core/learn/torch/probe.py"
# What a build with the old std::string has is told by libc10's symbols.
NOT_LEARNED = {"old_strings"}


def fields(text):
    lines = [line.split(" ", 2) for line in text.splitlines()]
    return {line[1]: int(line[2]) for line in lines if line[0] == "field"}


@pytest.fixture(scope="module")
def learned(run_gpumem):
    command = ["run", "--no-record", "--sim=8GiBx3", "--", PYTHON, "-B", "-W", "ignore", PROBE, "1", "", "--moved"]
    done = run_gpumem(*command, timeout=600, stdin=subprocess.DEVNULL).check()
    lines = done.out.splitlines()
    assert lines[0] == "gpumem-torch-probe 1" and lines[-1] == "end", done.out[-500:] + done.err[-2000:]
    return done.out


@pytest.fixture(scope="module")
def shipped(run):
    code = "import torch; print(torch.__version__, int(torch.compiled_with_cxx11_abi()))"
    version, new_strings = run([PYTHON, "-W", "ignore", "-c", code]).check().out.split()
    old = [] if new_strings == "1" else ["old"]
    return fields(run([BUILD / "tests" / "torch_fields", version, *old]).check().out)


def test_every_field_that_is_read_is_learned_as_it_is_shipped(learned, shipped):
    found = fields(learned)
    unknown = {name for name, value in shipped.items() if value == 0} | NOT_LEARNED
    assert {name: found.get(name) for name in shipped if name not in unknown} == {
        name: value for name, value in shipped.items() if name not in unknown
    }
    assert {name: found[name] for name in found if found[name] != shipped.get(name, found[name])} == {}


def test_without_a_shipped_row_the_learned_one_is_verified_and_saved(run_gpumem, shipped, tmp_path):
    hidden = {**os.environ, "GPUMEM_HIDE_ROWS": "1", "XDG_CACHE_HOME": str(tmp_path), "GPUMEM_LEARN_LIMIT": "300"}
    done = run_gpumem("learn", PYTHON, "-o", tmp_path / "row", env=hidden, timeout=600).check()
    assert "of PyTorch" in done.out and "verified on the live objects of a probe" in done.out
    kept = fields((tmp_path / "row").read_text().split("[torch]\n")[1])
    assert {name: value for name, value in kept.items() if value != shipped[name]} == {}
    assert {name for name, value in shipped.items() if value and name not in kept} <= NOT_LEARNED


def test_every_field_that_was_searched_for_is_found(learned, shipped):
    missing = [line.split() for line in learned.splitlines() if line.startswith("missing")]
    # what an older version does not have is not in its row either
    assert [words for words in missing if shipped.get(words[1], 1) != 0] == []


def test_no_field_is_accepted_eight_bytes_away(learned):
    assert [line for line in learned.splitlines() if line.startswith("believed")] == []


# Where a reader that looks a step beside sees no difference.
UNSEEN = {
    "old_strings": "the libraries' symbols tell it, not the probe",
    "block.size_of": "how much is read of a Block; a little more is harmless",
    "allocator.limit_is_plain": "the word of a device without a limit was never written, and may be 0 as well",
    "trace.context": "PyTorch 2.15 imports its compiler for telling a call stack: there are none in the rings that are compared",
}


@pytest.mark.long  # the probe itself believes none either, which is asked above; test_learn_python.py asks it of CPython
def test_a_row_with_any_field_moved_is_rejected_by_the_readers(run):
    done = run([BUILD / "tests" / "learn_torch", PYTHON], timeout=600).check()
    assert done.out.endswith("end\n")
    believed = {line.split()[1] for line in done.out.splitlines() if line.startswith("believed ")}
    assert believed <= set(UNSEEN), done.out
