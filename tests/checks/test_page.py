"""The script and the style sheet of the page (core/view/page): linted, laid out by the formatter, and with the colours of the picture."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "core" / "view" / "page"
TOOLS = ROOT / "build" / "playwright" / "bin"
sys.path.insert(0, str(PAGE))
import bundle  # noqa: E402


def tool(name, *words):
    """A linter or a formatter, which ./scripts/setup --with-tests gets (scripts/requirements-browser.txt)."""
    if not (TOOLS / name).exists():
        note = ROOT / "build" / "no-playwright"
        pytest.skip(f"no {name}: {note.read_text().strip() if note.exists() else './scripts/setup --with-tests gets it'}")
    return subprocess.run([TOOLS / name, *words], cwd=ROOT, capture_output=True, text=True)


def lint(*paths):
    return tool("oxlint", "--config", ROOT / ".oxlintrc.json", "--deny-warnings", "--format=unix", *paths)


def test_the_linter_finds_nothing():
    done = lint(PAGE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "fault, rule",
    [("const a = 1;", "no-unused-vars"), ("a == b;", "eqeqeq"), ("export const a = missing;", "no-undef"), ("eval('1');", "no-eval")],
)
def test_the_linter_sees_a_fault(fault, rule, tmp_path):
    """Else nothing would be found because nothing was looked for."""
    (tmp_path / "fault.js").write_text(fault + "\n")
    done = lint(tmp_path / "fault.js")
    assert done.returncode != 0 and rule in done.stdout, done.stdout + done.stderr


def test_the_script_is_formatted():
    done = tool("oxfmt", "--list-different", *sorted(PAGE.glob("*.js")))
    assert (done.returncode, done.stdout) == (0, ""), f"./scripts/format lays these out: {done.stdout}{done.stderr}"


def test_the_formatter_sees_what_is_not(tmp_path):
    (tmp_path / "loose.js").write_text("export const a=1\n")
    assert "loose.js" in tool("oxfmt", "--list-different", tmp_path / "loose.js").stdout


# --- colours --------------------------------------------------------------------------------------------

STYLE = (PAGE / "style.css").read_text()


def variables(selector):
    """The custom properties of the rule with exactly this selector."""
    (body,) = re.findall(rf"(?:^|\n)\s*{re.escape(selector)} \{{([^}}]*)\}}", STYLE)
    return dict(re.findall(r"--([\w-]+): ([^;]+);", body))


def test_the_picture_has_the_colours_of_the_page():
    """The categories and phases of render/picture_plot.c are those of style.css."""
    source = (ROOT / "core/render/picture_plot.c").read_text()
    light = variables(":root")
    categories = re.findall(r"\[GM_(?:CATEGORY|BUCKET)_(\w+)\] = \{\"[^\"]*\", \"(#\w+)\"\}", source)
    phases = re.findall(r"\[GM_PHASE_(\w+)\] = \"(#\w+)\"", source)
    own = lambda kind: {name: colour for name, colour in light.items() if name.startswith(f"{kind}-")}  # noqa: E731
    told = lambda kind, pairs: {f"{kind}-{name.lower().replace('_', '-')}": colour for name, colour in pairs}  # noqa: E731
    assert len(categories) > 8 and len(phases) > 8
    assert told("category", categories) == own("category")
    assert told("phase", phases) == own("phase")
    for name in ("surface", "grid", "quiet", "text", "step", "oom", "reserved"):
        assert light[name] in source, name


def test_dark_is_the_same_by_the_system_and_by_the_button():
    chosen = variables(':root[data-theme="dark"]')
    assert chosen and chosen == variables(':root:not([data-theme="light"])')
    assert set(chosen) <= set(variables(":root"))


def test_each_colour_that_the_script_asks_for_is_there():
    script = bundle.bundle()
    asked = set(re.findall(r"palette\.get\(\"([\w-]+)\"\)", script))
    assert len(asked) > 5 and asked <= set(variables(":root"))
