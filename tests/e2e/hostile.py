"""Names that would act on a terminal or forge an answer, and what no text for people may hold."""

import unicodedata

# A window's title, a cleared screen, a line that looks like an answer's, C1's CSI, a turned direction, other ends of lines.
ACTS = (
    "\x1b]0;owned\x07\x1b[2J\x1b[31m\r\nFORGED all references found for 9 of 9 storages\nFORGED complete\t\x08\x0b\x0c"
    "\x7f\x9b1m\x85FORGED\u202ereversed\u202c\u2066\u2069\u200f\u061c\u2028FORGED\u2029FORGED\u200b\ufeff\U000e0041"
)


def hostile(kind, length=0):
    """A name of that kind; made longer by letters."""
    return f"{kind}{ACTS}{kind}" + "x" * max(0, length - len(ACTS) - 2 * len(kind))


def short(kind):
    """For names that have room for few bytes: 15 of a thread's, 255 of a file's."""
    return f"{kind}\n\x1b[2J\u202e"


def check_text(data, tabs=False):
    """That bytes which were printed for people hold no control but ends of our own lines, and no line of another's."""
    text = data.decode()  # UTF-8, strictly
    acting = {
        f"U+{ord(character):04X}"
        for character in text
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in ("\n\t" if tabs else "\n")
    }
    assert not acting, (acting, text[:3000])
    for line in text.splitlines():
        assert not line.startswith("FORGED"), text[:3000]
        assert len(line) < 30_000, line[:3000]
