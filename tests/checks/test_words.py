"""Phrases that native readers stumble over do not come back: neither in documents, nor in texts that users see (help, errors, answers,
gdb's help). tests/checks/words.txt lists the places that still have one, a list that only gets shorter."""

import re

from test_sentences import LITERAL, ONE
from test_source import ROOT, tracked

LISTED = ROOT / "tests" / "checks" / "words.txt"
# Each with what to write instead.
BANNED = {
    r"\b(let|lets|letting) go\b": "released, continues",
    r"\bsays? so\b|\bsaid so\b": "reports it",
    r"\b(is|are|was|were|be) told\b": "gets, is set",
    r"\bstands? (still|there)\b|\bas it stands\b|\bwhere it stands\b": "is stopped",
    r"\bgone round\b|\bgoes round\b": "iterated",
    r"\b(is|are) no (way|limit|number|text|probe|shape|size|place)\b": "is not a …",
    r"\bnothing (is|can be) (known|told) of\b": "… is unknown",
    r"\bin the way\b": "name the obstacle",
    r"\bof then\b": "at that moment",
    r"\bthe look of\b": "name the property",
    r"\b(gets|get|got) through\b": "fits, succeeds",
    r"\b(hand|hands|handed) out\b": "allocate",
    r"\b(give|gives|given|gave) back\b": "release",
    r"\bwithout more ado\b|\bby and by\b|\bin vain\b": "say it plainly",
    r"\bis not believed\b|\bis not proved\b": "failed verification",
    r"\bjudge(s|d)? (it|a condition|the condition|conditions)\b": "evaluates",
    r"\bstrangers?\b": "untrusted",
    r"\bawkward\b": "unusual",
    r"\bplumbing\b": "internal edge",
    r"\ba page of its own\b": "see the page",
    r"\basks? nothing of\b": "needs no",
    r"\bof (a|the) process that stands\b": "of a stopped process",
    r"\bwhat is \w+ is\b": "say it without 'what is'",
    r"\bbeside (it|them|this program|the|others)\b": "next to, in addition to, compared with",
}


def phrases(text):
    return sorted({pattern for pattern in BANNED if re.search(pattern, text, re.I)})


def prose(path):
    """The paragraphs of a document, without its code."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    text = re.sub(r"^    .*$|`[^`\n]*`", "", text, flags=re.M)
    return re.split(r"\n\s*\n", text)


def literals(path):
    """The texts of a C file; `prose` of comments is not of users."""
    code = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    code = re.sub(r"^\s*#.*$", "", code, flags=re.M)
    return ["".join(part[1:-1] for part in re.findall(ONE, found[0])).replace("\\n", " ") for found in LITERAL.finditer(code)]


def texts():
    """(file, text) of all that users read."""
    for path in [*tracked("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        if path.name != "ways-to-hold.md":  # made of tests
            yield from ((path, one) for one in prose(path))
    for path in tracked("core/*.c", "core/*.h"):
        yield from ((path, one) for one in literals(path))
    for path in tracked("gdb/*.py"):
        yield path, path.read_text()


def all_found():
    return sorted({f"{path.relative_to(ROOT)}: {pattern}" for path, text in texts() for pattern in phrases(text)})


def listed():
    return [line for line in LISTED.read_text().splitlines() if line and not line.startswith("#")]


def test_no_phrase_comes_back():
    new = [line for line in all_found() if line not in listed()]
    instead = {line: BANNED[line.split(": ", 1)[1]] for line in new}
    assert instead == {}, "write it as you would say it to a colleague"


def test_every_phrase_of_the_list_still_exists():
    gone = sorted(set(listed()) - set(all_found()))
    assert gone == [], "take them off tests/checks/words.txt"


def test_a_phrase_is_seen():
    assert phrases("The file is damaged, and info says\nso.".replace("\n", " ")) == [r"\bsays? so\b|\bsaid so\b"]
    assert phrases("The block was released by the rebinding of `x`.") == []
