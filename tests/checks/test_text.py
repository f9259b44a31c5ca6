"""What prints for people prints names by one function only, which shows what would act on a terminal (core/base/put.h)."""

import re

from test_source import ROOT, tracked

PRINTS = re.compile(r"\b(v?f?printf|v?dprintf|f?puts|f?putc|putchar|fwrite|perror|fputs_unlocked)\(")
# A literal, alone or one of two or three by a condition.
LITERAL = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\s|[A-Z_0-9]+)+"""
LITERALS = re.compile(rf"(?:[^?\"]+\?{LITERAL}:\s*)*{LITERAL}$", re.S)
# These print no names: JSON has escapes of its own; an argument for a program; help is of literals and has newlines.
FREE = {
    "core/render/json.c": {"fprintf"},
    # makes strings, which others print
    "core/render/chain.c": {"fprintf", "fputs"},
    "core/render/cause.c": {"fprintf", "fputs"},
    "core/render/category.c": {"fputs"},
    "core/render/native_owner.c": {"fprintf"},
    "core/render/doctor.c": {"fprintf"},
    "core/render/retained.c": {"fprintf"},
    "core/render/retained_name.c": {"fprintf", "fputs"},
    # an answer that was made so, in lines that fit the terminal
    "core/cli/pager.c": {"fwrite"},
    # characters one by one that do not act; what was made so
    "core/render/svg.c": {"fwrite"},
    "core/render/picture.c": {"fwrite"},
    # what jansson made
    "core/render/events_json.c": {"fprintf", "fwrite"},
    "core/cli/fit_run.c": {"fprintf", "fputs"},
    "core/cli/help.c": {"fprintf"},
}


def arguments(text, start):
    """Those of the call whose arguments begin at `start`."""
    found, depth, piece, quote, at = [], 0, "", "", start
    while True:
        character = text[at]
        if quote:
            if character == "\\":
                piece += character
                at += 1
                character = text[at]
            elif character == quote:
                quote = ""
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            if depth == 0:
                return [*found, piece.strip()]
            depth -= 1
        elif character == "," and depth == 0:
            found.append(piece.strip())
            piece = ""
            at += 1
            continue
        piece += character
        at += 1


def raw_prints(text, free=()):
    """Calls that could print a name as it is: all but those of fputs() and fputc() with literals of ours."""
    code = re.sub(r"/\*.*?\*/", lambda found: " " * len(found[0]), text, flags=re.S)
    found = []
    for call in PRINTS.finditer(code):
        what = arguments(code, call.end())
        literal = call[1] in ("fputs", "fputc", "putc", "perror") and LITERALS.match(what[0])
        if not literal and call[1] not in free:
            found.append(f"{code.count(chr(10), 0, call.start()) + 1}: {call[1]}({', '.join(what)})")
    return found


def test_rooms_that_print_do_so_by_one_function():
    found = []
    for path in tracked("core/render/*.[ch]", "core/cli/*.[ch]", "core/cli/main/*.c"):
        name = str(path.relative_to(ROOT))
        found += [f"{name}:{line}" for line in raw_prints(path.read_text(), FREE.get(name, ()))]
    assert found == [], "gm_put() shows what these print as it is"


def test_a_print_of_a_name_is_seen():
    seen = raw_prints(
        """
        fputs(style->colors ? "\\033[1m" : "", out);
        fputs("a " HERE " b\\n", out);
        fputc('\\n', out);
        fputs(name, out);
        fputs(known ? name : "none", out);
        fprintf(out, "%s\\n", frame.function);
        fputc(*at, out);
        fwrite(name, 1, length, out);
        """
    )
    assert [line.split(":")[0] for line in seen] == ["5", "6", "7", "8", "9"]


def test_gdbs_plugin_prints_names_by_the_same():
    """gdb.write() stands in two places, and no error is made but in the gate."""
    found = []
    for path in tracked("gdb/*.py", "gdb/gpumem/*.py", "gdb/gpumem/*/*.py"):
        text = path.read_text()
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(r"gdb\.write\(|\bprint\(|sys\.std", line) and "visible(" not in line:
                found.append(f"{path.name}: {line.strip()}")
            if "GdbError(" in line and "{" in line and "visible(" not in line:
                found.append(f"{path.name}:{number}: {line.strip()}")
    assert sorted(found) == [
        'debugger.py: gdb.write(text, gdb.STDERR if error else gdb.STDOUT)',
        'debugger.py: gdbs_none = gdb.write("")',
    ]
