"""`gpumem view --sources`: the card has the lines of source files that have not changed since the recording, and of no other files."""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from browser import Opened  # noqa: E402
from columns import columns_of  # noqa: E402
from pages import FACTS, entry, snapshot  # noqa: E402

MARKUP = "kept = make('<img src=x onerror=done=1>')  # </script>"


def recorded(tmp_path):
    """A snapshot, without times, whose stacks name a file that is there, one that is no Python, one that is changed later, and one that is none."""
    (tmp_path / "own.py").write_text(f"import torch\n\n    {MARKUP}   \nlast = 1")
    (tmp_path / "secret.txt").write_text("a secret\n" * 9)
    (tmp_path / "changed.py").write_text("was = 1\n" * 9)
    os.mkfifo(tmp_path / "pipe.py")
    names = [("own.py", 3), ("own.py", 4), ("own.py", 5), ("own.py", 2), ("secret.txt", 1), ("changed.py", 1), ("pipe.py", 1), ("missing.py", 1)]
    frames = [(str(tmp_path / name), line, f"f{i}") for i, (name, line) in enumerate(names)]
    path = snapshot(tmp_path / "sources.pickle", [entry("alloc", 4096, 512, *frames)])
    later = time.time() + 1000
    os.utime(tmp_path / "changed.py", (later, later))
    os.utime(path, (later - 500, later - 500))
    return path


def test_lines_of_files_that_have_not_changed(chromium, run_gpumem, tmp_path):
    path = recorded(tmp_path)
    run_gpumem("view", path, "--sources", "-o", tmp_path / "page.html").check()
    with Opened(chromium, tmp_path / "page.html") as shown:
        stack = shown.evaluate(FACTS, 0)["stack"]
        assert [frame.get("source") for frame in stack] == [MARKUP, "last = 1", None, None, None, None, None, None]
        shown.evaluate("gpumem.view.setBlock(0)")
        shown.wait("() => document.querySelector('#card code.source')")
        assert shown.locator("#card code.source").all_inner_texts() == [MARKUP, "last = 1"]
        assert shown.evaluate("typeof done") == "undefined" and shown.said == []


def test_without_the_option_the_page_has_no_sources(run_gpumem, tmp_path):
    path = recorded(tmp_path)
    run_gpumem("view", path, "-o", tmp_path / "page.html").check()
    columns = columns_of(tmp_path / "page.html")
    assert "frame.source" not in columns and "last = 1" not in columns["texts"]


def test_sources_are_of_pages(run_gpumem, tmp_path):
    assert "--sources" in run_gpumem("view", recorded(tmp_path), "--sources", "--svg", tmp_path / "a.svg").check(2).err
