"""Sentences are made in core/render and core/cli alone (docs/architecture.md). What the rooms that answer questions hold of English
are the words of errors, and those that tests/checks/sentences.txt lists, a list that only gets shorter."""

import re

from test_source import ROOT, tracked

ROOMS = ("api", "ask", "cpython", "export", "holders", "model", "symbols", "torch", "ranks")
# What speaks to the user: help, progress and errors of gpumem-ranks, and its own render/.
FRONT = ("ranks/render/", "ranks/main/", "ranks/commands.c", "ranks/questions.c", "ranks/sim.c")
LISTED = ROOT / "tests" / "checks" / "sentences.txt"
ONE = r'"(?:[^"\\\n]|\\.)*"'
# Literals one after another are one, also with a PRIu64 between them.
LITERAL = re.compile(rf"{ONE}(?:\s*(?:(?:PRI\w+|[A-Z_]+)\s*)?{ONE})*")
WORD = re.compile(r"(?<![\w%/.:-])[a-z][a-z']*[a-z](?![\w/(:-])")
# Calls whose texts are those of errors.
ERROR = re.compile(r"\b(?:gm_error_\w+|_Static_assert|fail|refuse|damaged|corrupt|expected)\($")


def call_around(text, at):
    """The text up to the bracket that opens the call around a place."""
    depth = 0
    for i in range(at - 1, max(0, at - 2000), -1):
        character = text[i]
        if character in ")]":
            depth += 1
        elif character in "([" and depth == 0:
            name = re.search(r"[\w]+\s*\($", text[: i + 1])
            # a bracket of its own, as in (a ? "x" : "y")
            if name and not re.match(r"(if|while|for|switch|return|sizeof)\b", name[0]):
                return text[: i + 1]
        elif character in "([":
            depth -= 1
        elif character in ";{}" and depth == 0:
            return ""
    return ""


def sentences(text):
    """The literals of several words that are not of an error, each with its line."""
    code = re.sub(r"/\*.*?\*/", lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.S)
    code = re.sub(r"^\s*#.*$", "", code, flags=re.M)
    found = []
    for literal in LITERAL.finditer(code):
        said = "".join(re.findall(ONE, literal[0])).replace('""', "").strip('"')
        if len(WORD.findall(said)) >= 3 and not ERROR.search(call_around(code, literal.start())):
            found.append((code.count("\n", 0, literal.start()) + 1, said))
    return found


def all_sentences():
    found = {}
    for room in ROOMS:
        for path in tracked(f"core/{room}/*.[ch]"):
            name = str(path.relative_to(ROOT / "core"))
            if "/tables/" not in name and not name.startswith(FRONT):
                for _, said in sentences(path.read_text()):
                    found.setdefault(said, name)
    return found


def listed():
    return [line for line in LISTED.read_text().splitlines() if line and not line.startswith("#")]


def test_no_sentence_is_made_outside_render():
    new = sorted(f"{name}: {said}" for said, name in all_sentences().items() if said not in listed())
    assert new == [], "return an enum and its operands; core/render makes the sentence"


def test_every_sentence_of_the_list_still_exists():
    gone = sorted(set(listed()) - set(all_sentences()))
    assert gone == [], "take them off tests/checks/sentences.txt"


def test_a_sentence_is_seen():
    text = """
	error = gm_error_create(GM_USAGE, "%s: it is not there: look elsewhere", path);
	made = asprintf(&text, "the block of %s is"
	                " held by %" PRIu64 " others", name, count);
	/* "a comment says this of it" */
	const char *sql = "CREATE TABLE x(id INTEGER)", *name = "two words";
	return fail(reading, ok ? "a thing has no name" : "it is of another kind");
"""
    assert [said for _, said in sentences(text)] == ["the block of %s is held by % others"]
