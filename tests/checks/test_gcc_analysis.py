"""gcc's analyzer, as tests/tools/gcc_analysis.py calls it, sees the faults that it is there for."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools"))

import gcc_analysis  # noqa: E402

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc on this machine")
SETTINGS = ["-std=gnu17", "-D_GNU_SOURCE", f"-I{ROOT / 'core'}"]
HEAD = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <fcntl.h>\n"
FAULTS = {
    "double-free": "void f(void) { char *a = malloc(4); free(a); free(a); }",
    "use-after-free": "int f(void) { int *a = malloc(4); if (!a) return 0; *a = 1; free(a); return *a; }",
    "null-dereference": "int f(int c) { int *a = NULL; if (c) a = &c; return *a; }",
    "possible-null-dereference": "int f(void) { int *a = malloc(4); *a = 1; int b = *a; free(a); return b; }",
    "use-of-uninitialized-value": "int f(int c) { int a; if (c) a = 1; return a; }",
    "file-leak": 'void f(void) { FILE *a = fopen("a", "r"); if (a) fgetc(a); }',
}


def said_of(tmp_path, text):
    path = tmp_path / "file.c"
    path.write_text(HEAD + text + "\n")
    said, slow = gcc_analysis.analyze(path, SETTINGS)
    assert not slow
    return said


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_seen(tmp_path, kind):
    assert f"-Wanalyzer-{kind}]" in said_of(tmp_path, FAULTS[kind])


def test_what_is_sound_is_not_reported(tmp_path):
    assert said_of(tmp_path, "void f(void) { char *a = malloc(4); if (a) a[0] = 0; free(a); }") == ""


def test_what_does_not_compile_is_no_success(tmp_path):
    assert "error" in said_of(tmp_path, "int f(void) { return nothing; }")
