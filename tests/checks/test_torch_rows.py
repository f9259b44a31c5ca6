"""The rows of PyTorch that gpumem ships are what was learned (core/torch/tables), put together by its tool; nothing is typed."""

import subprocess
import sys
from pathlib import Path

import pytest

TORCH = Path(__file__).resolve().parents[2] / "core" / "torch"
MAKE = TORCH / "tables" / "make_rows"
LEARNED = sorted((TORCH / "tables").glob("torch-*.layouts"))


def make(program, *words):
    return subprocess.run([sys.executable, program, *words], capture_output=True, text=True)


def test_the_shipped_rows_are_what_the_tool_makes_of_what_was_learned():
    done = make(MAKE, "--print")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (TORCH / "layout_rows.c").read_text(), "run core/torch/tables/make_rows"
    assert len(LEARNED) >= 12


@pytest.mark.parametrize("changed", [("field tensor.storage 16", "field tensor.storage 24"), ("[torch]", "[touch]")])
def test_what_was_changed_by_hand_is_refused(tmp_path, changed):
    (tmp_path / "tables").mkdir()
    for path in (MAKE, *LEARNED, TORCH / "fields.c"):
        (tmp_path / path.relative_to(TORCH)).write_text(path.read_text())
    edited = tmp_path / "tables" / LEARNED[-1].name
    edited.write_text(edited.read_text().replace(*changed))
    done = make(tmp_path / "tables" / "make_rows")
    assert done.returncode == 1 and f"{edited}: not a file that `gpumem learn` wrote" in done.stderr
    assert not (tmp_path / "layout_rows.c").exists()
