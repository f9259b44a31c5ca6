"""What holds of the source itself: the rooms' arrows, the style, links between documents."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import check_rooms  # noqa: E402


def tracked(*patterns):
    """Files of the repository, or of a copy of it without git."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", *patterns],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        return [ROOT / name for name in listed if (ROOT / name).is_file()]
    found = [path for pattern in patterns or ["*"] for path in ROOT.rglob(pattern)]
    return [path for path in found if path.is_file() and "build" not in path.parts[len(ROOT.parts)]]


def test_the_top_level_has_nothing_that_a_program_left():
    known = {"CMakeLists.txt", "CONTRIBUTING.md", "LICENSE", "README.md", "cmake", "core", "docs", "examples", "gdb", "pyproject.toml",
             "pytest.ini", "scripts", "tests"}  # fmt: skip
    found = {path.relative_to(ROOT).parts[0] for path in tracked()}
    assert {name for name in found - known if not name.startswith(".")} == set()


def test_rooms_include_only_the_rooms_they_may():
    assert check_rooms.violations() == []


def test_room_check_sees_an_include_that_goes_the_wrong_way(tmp_path):
    (tmp_path / "core" / "image").mkdir(parents=True)
    (tmp_path / "core" / "image" / "image.c").write_text('#include "torch/torch.h"\n')
    assert check_rooms.violations(tmp_path / "core") == [
        "core/image/image.c includes torch/torch.h: image may not use torch"
    ]


def test_each_arrow_between_rooms_is_needed():
    assert check_rooms.unused() == []


def test_the_table_of_rooms_in_the_architecture_says_what_the_list_of_rooms_says():
    """Columns of docs/architecture.md: the room, its purpose, what it includes, what it does not do."""
    section = (ROOT / "docs/architecture.md").read_text().split("## The rooms")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|", section, re.M)
    listed = check_rooms.rooms()
    del listed["*"]
    expected = {room: ", ".join(f"`{t}`" if "/" in t else t for t in targets) or "–" for room, targets in listed.items()}
    assert dict(rows) == expected


def test_c_is_formatted():
    if not shutil.which("clang-format"):
        pytest.skip("no clang-format on this machine")
    files = tracked("*.c", "*.h")
    done = subprocess.run(
        ["clang-format", "--dry-run", "--Werror", *map(str, files)], cwd=ROOT, capture_output=True, text=True
    )
    wrong = sorted(set(re.findall(rf"^{re.escape(str(ROOT))}/([^:]+):", done.stderr, re.M)))
    assert wrong == [], "clang-format -i these files"


def test_python_needs_no_newer_language_than_gdb_has():
    """The plugin runs in whatever Python gdb was built with: cuda-gdb's may be as old as 3.6."""
    import ast

    for path in tracked("gdb/*.py"):
        ast.parse(path.read_text(), filename=str(path), feature_version=(3, 6))


def commands_answered():
    """{command: its cells, of `core/cli/`, `core/ask/`, `core/render/` and the rest} of the table in docs/architecture.md."""
    text = (ROOT / "docs/architecture.md").read_text().split("## Where each command is answered")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if re.match(r"\| `", line)]
    return {row[0].strip(" `"): [re.findall(r"`([\w./]+)`", cell) for cell in row[1:]] for row in rows}


def test_the_table_of_commands_has_each_command():
    table = (ROOT / "core/cli/commands.c").read_text().split("#define GM_COMMANDS")[1].split("clang-format")[0]
    commands = [name.replace("_", "-") for name in re.findall(r"^\t_\((\w+)\)", table, re.M)]
    assert len(commands) > 20
    assert list(commands_answered()) == commands, "a line for each, in the order of core/cli/commands.c"


@pytest.mark.parametrize("command, cells", commands_answered().items())
def test_a_command_is_found_by_the_names_of_files(command, cells):
    name = command.replace("-", "_")
    for folder, cell in zip(("core/cli", "core/ask", "core/render", "core"), cells):
        missing = [file for file in cell if not (ROOT / folder / file).exists()]
        assert missing == [], folder
    cli, ask, render, _ = cells
    assert cli[0] == f"cmd_{name}.c"
    assert f"gm_command_{name} = {{" in (ROOT / "core/cli" / cli[0]).read_text()
    for cell in (ask, render):
        assert not cell or cell[0] == f"{name}.c"
    assert bool(ask) == (ROOT / f"core/ask/{name}.c").exists()
    assert bool(render) == (ROOT / f"core/render/{name}.c").exists()


def defined_in(path):
    """The functions that a C file defines for others."""
    return set(re.findall(r"^(?!static)[a-z][\w *]*?\b(gm_\w+)\([^;]*?\)\n\{", path.read_text(), re.M))


@pytest.mark.parametrize("command, cells", commands_answered().items())
def test_a_command_calls_what_the_files_of_its_name_define(command, cells):
    cli, ask, render, _ = cells
    called = set(re.findall(r"\bgm_\w+", "".join((ROOT / "core/cli" / file).read_text() for file in cli)))
    for folder, cell in (("core/ask", ask), ("core/render", render)):
        assert not cell or called & defined_in(ROOT / folder / cell[0]), cell[0]


def test_a_command_of_gdb_alone_is_in_the_file_of_its_name():
    text = (ROOT / "gdb/gpumem/commands/__init__.py").read_text()
    commands = re.findall(r"(\w+)\.(\w+)\(\)", text)
    assert len(commands) > 6
    older_names = {"Step"}  # of next-event
    for module, name in commands:
        word = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        assert word in module or name in older_names, f"{word} in {module}.py"


@pytest.mark.parametrize("document", tracked("*.md"), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.S)
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
    broken = [link for link in links if link and "://" not in link and not (document.parent / link).exists()]
    assert broken == []


def test_sources_hold_no_path_of_somebodys_machine():
    somebodys = re.compile(r"(?<![\w.])/(?:work/|home/(?!u/)\w+/|Users/)\w")
    found = []
    for path in tracked("*.c", "*.h", "*.py", "*.md", "*.txt", "*.cmake", "scripts/*"):
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if somebodys.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


def test_threads_in_another_program_leave_its_signals_alone():
    """In gdb, which waits for SIGCHLD: base/thread.h. The agent and the simulated device block signals themselves."""
    may = re.compile(r"core/(base/thread\.c|agent/|inject/|sim/)")
    found = [
        str(path.relative_to(ROOT))
        for path in tracked("core/*.c", "core/**/*.c")
        if re.search(r"\b(pthread_create|thrd_create)\(&", path.read_text()) and not may.match(str(path.relative_to(ROOT)))
    ]
    assert found == []


def test_no_tag_names_two_types():
    tags = [tag for path in tracked("core/*.c", "core/*.h") for tag in re.findall(r"^(?:struct|enum|union) (gm_\w+) \{", path.read_text(), re.M)]
    assert len(tags) > 300
    assert sorted({tag for tag in tags if tags.count(tag) > 1}) == []


def test_every_room_says_what_it_is_for():
    """One header of each room of core/ begins with a comment, before any line of code."""
    rooms = {path.parent for path in tracked("core/*/*.h")}
    silent = [
        room.name
        for room in sorted(rooms)
        if not any(path.read_text().startswith("/*") for path in room.glob("*.h"))
    ]
    assert silent == []


# Made by tools, one entry a line.
TABLES = re.compile(r"core/cpython/versions/(layout|opcodes)_\d+\.c$|core/torch/layout_rows\.c$")


def wide_comments(text):
    """Numbers of the lines of comments that go beyond column 100, where they could be wrapped before it."""
    found = []
    for comment in re.finditer(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', text, re.S):
        if comment[0][0] == '"':
            continue
        first = text.count("\n", 0, comment.start())
        for number, line in enumerate(text.split("\n")[first : first + comment[0].count("\n") + 1], first + 1):
            if len(line.expandtabs(8)) > 100 and " " in line.strip(" \t/*"):
                found.append(number)
    return found


def test_comments_end_at_column_100():
    wide = {}
    for path in tracked("*.c", "*.h"):
        name = str(path.relative_to(ROOT))
        if not TABLES.search(name) and (lines := wide_comments(path.read_text())):
            wide[name] = lines
    assert wide == {}


def test_a_comment_beyond_column_100_is_seen():
    words = "word " * 30
    assert wide_comments(f"int a;\n/* {words}*/\n") == [2]
    assert wide_comments(f"/* short\n * {words}\n */\n") == [2]
    assert wide_comments(f'puts("{words}");\n/* short */\n') == []


def test_each_room_is_compared_with_another_project_by_files_that_exist():
    """docs/side_by_side.md: a section for each room; its files of core/ exist."""
    sections = re.findall(r"^## `(\w+)`:[^\n]*\n(.*?)(?=^## |\Z)", (ROOT / "docs/side_by_side.md").read_text(), re.M | re.S)
    listed = check_rooms.rooms()
    del listed["*"]
    assert sorted(room for room, _ in sections) == sorted(listed)
    for room, text in sections:
        ours = re.findall(r"`((?:core|tests|docs)/[\w./]+)`", text.split("—")[0])
        assert ours, room
        assert [file for file in ours if not (ROOT / file).exists()] == [], room


def test_what_the_comparison_names_of_our_code_is_in_it():
    """docs/side_by_side.md: functions and types, and the files in the paragraphs below each heading."""
    text = (ROOT / "docs/side_by_side.md").read_text()
    code = "".join(path.read_text() for path in tracked("core/*.c", "core/*.h"))
    named = set(re.findall(r"`(?:struct )?((?:gm|GM)_\w+)", text))
    assert len(named) > 5
    assert [name for name in named if not re.search(rf"\b{name}\b", code)] == []
    paths = re.findall(r"`((?:core|tests|docs)/[\w./]+)`", "".join(re.findall(r"^- \*\*(?:Taken|Different)\.\*\*.*?(?=^- |^## |\Z)", text, re.M | re.S)))
    assert paths and [path for path in paths if not (ROOT / path).exists()] == []
