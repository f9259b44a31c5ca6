"""What clang's analyzer is told of this project (tests/tools/static_analysis.py) hides no fault: each kind is still seen."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools"))

import static_analysis  # noqa: E402

pytestmark = pytest.mark.skipif(not shutil.which("clang"), reason="no clang on this machine")
SETTINGS = ["-std=gnu17", "-D_GNU_SOURCE", f"-I{static_analysis.MODELS}", f"-I{ROOT / 'core'}"]
HEAD = """#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
struct item { int key; UT_hash_handle hh; };
"""
FAULTS = {
    "a leak": ("void f(void) { char *text = strdup(\"a\"); if (text) text[0] = 'b'; }", "unix.Malloc"),
    "a leak beside a guarded variable": (
        "void f(void)\n{\n\t_cleanup_free_ char *kept = strdup(\"a\");\n\tchar *text = kept ? strdup(kept) : NULL;\n"
        "\tif (text)\n\t\ttext[0] = 'b';\n}",
        "unix.Malloc",
    ),
    "a use after free": ("int f(void) { int *a = malloc(4); if (!a) return 0; *a = 1; free(a); return *a; }", "unix.Malloc"),
    "an element that is freed and used": (
        "int f(struct item **all) { struct item *i; HASH_FIND(hh, *all, \"a\", 1, i); if (!i) return 0;\n"
        "HASH_DEL(*all, i); free(i); return i->key; }",
        "unix.Malloc",
    ),
    "a value that is not set": (
        "static struct gm_error *g(int c, int *ret) { if (c > 1) return gm_error_create(GM_TARGET, \"a\"); if (c) *ret = 1; return NULL; }\n"
        "int f(int c) { int v; gm_error_destroy(g(c, &v)); return v + 1; }",
        "core.UndefinedBinaryOperatorResult",
    ),
    "a null pointer": ("int f(int c) { int *a = NULL; if (c) a = &c; return *a; }", "core.NullDereference"),
    "items of an empty array": (
        "int f(void) { GM_ARRAY(int) a = {0}; return a.items[0]; }",
        "core.NullDereference",
    ),
    "a division": ("int f(int c) { if (c == 0) return 5 / c; return c; }", "core.DivideZero"),
}  # fmt: skip


def said_of(tmp_path, text):
    path = tmp_path / "file.c"
    path.write_text(HEAD + text + "\n")
    return static_analysis.analyze(path, SETTINGS)


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.setattr(static_analysis, "KEPT", tmp_path / "kept")


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if FAULTS[kind][1]])
def test_a_fault_is_seen(tmp_path, kind):
    text, checker = FAULTS[kind]
    assert f"[{checker}]" in said_of(tmp_path, text)


SOUND = {
    "a guarded variable": (
        "int f(void)\n{\n\t_cleanup_free_ char *text = strdup(\"a\");\n\treturn text ? (int)strlen(text) : 0;\n}"
    ),
    "elements taken out and freed": (
        "void f(struct item *all) { struct item *i, *n; HASH_ITER(hh, all, i, n) { HASH_DEL(all, i); free(i); } }"
    ),
    "an error that is made": (
        "static struct gm_error *g(int c, int *ret) { if (c) return gm_error_create(GM_TARGET, \"a\"); *ret = 1; return NULL; }\n"
        "struct gm_error *f(int c, int *ret) { int v; gm_try(g(c, &v)); *ret = v; return NULL; }"
    ),
    "an item that is added": "bool f(int c) { GM_ARRAY(int) a = {0}; bool done = gm_array_push(&a, c); free(a.items); return done; }",
}  # fmt: skip


@pytest.mark.parametrize("kind", SOUND)
def test_what_is_sound_is_not_reported(tmp_path, kind):
    assert said_of(tmp_path, SOUND[kind]) == ""


def test_a_result_is_kept_until_the_text_changes(tmp_path, monkeypatch):
    kinds = []
    run = static_analysis.run

    def counted(words):
        kinds.append("--analyze" in words)
        return run(words)

    monkeypatch.setattr(static_analysis, "run", counted)
    first = said_of(tmp_path, FAULTS["a null pointer"][0])
    assert said_of(tmp_path, FAULTS["a null pointer"][0]) == first != ""
    assert kinds.count(True) == 1, "the second time it is read"
    assert said_of(tmp_path, "int f(void) { return 1; }") == ""
    assert kinds.count(True) == 2


def test_every_file_of_the_build_is_analyzed():
    if not (ROOT / "build" / "compile_commands.json").exists():
        pytest.skip("nothing is built")
    found = {str(path.relative_to(ROOT)) for path in static_analysis.files()}
    assert {"core/inject/start_stop.c", "core/agent/patch.c", "core/cli/main/main.c", "core/sim/cuda/driver.c"} <= found
