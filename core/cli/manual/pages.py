"""pages.py FOLDER DATE PROGRAM...: the manual's pages, PROGRAM.1 and one for each of its commands, from what it prints as help."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

MANUAL = "gpumem"


def text(words):
    """As roff: a hyphen is typed in a shell, so it is a minus; no line is a request by how it begins."""
    words = words.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + words if words.startswith((".", "'")) else words


def paragraph(words):
    # No word is broken, so what is to be typed stays whole.
    lines = textwrap.wrap(words, 68, break_long_words=False, break_on_hyphens=False)
    return [text(line) for line in lines]


def parts(help_text):
    """usage, description, examples, options [(name, what)], and what follows them."""
    lines = help_text.splitlines()
    usage = lines[0].removeprefix("Usage: ")
    at = 1
    while at < len(lines) and lines[at].startswith("  ") and not lines[at].lstrip().startswith("--"):
        usage += " " + lines[at].strip()  # a usage of several lines
        at += 1
    description, examples, options, rest = [], [], [], []
    place = description
    for line in lines[at:]:
        if line == "Options:":
            place = options
        elif match := re.match(r"\s*Example: (.*)", line):
            examples.append(match[1])
        elif place is options and (match := re.match(r"  (-\S+(?: [A-Z]+)?) +(.*)", line)):
            options.append([match[1], match[2]])
        elif place is options and line.startswith("    ") and options:
            options[-1][1] += " " + line.strip()
        elif place is options and line:
            rest.append(line)
        else:
            place.append(line)
    return usage, description, examples, options, rest


def blocks(lines):
    """Paragraphs of running text; indented lines with two columns are lists, what is indented otherwise stays as it is."""
    out, kept, entry = [], [], None

    def flush():
        if entry:
            out.extend([".TP", f".B {text(entry[0])}", *paragraph(entry[1].strip())])
        elif kept:
            out.extend([".PP", *paragraph(" ".join(kept))])
        kept.clear()

    for line in lines:
        columns = re.match(r"  (\S+(?: \S+)*)  +(\S.*)$", line)
        if entry and re.match(r" {8,}\S", line):
            entry[1] += " " + line.strip()
            continue
        if not line.strip() or line.startswith("  ") or entry:
            flush()
            entry = None
        if columns:
            entry = [columns[1], columns[2]]
        elif line.startswith("  -"):  # what it does follows in the next line
            entry = [line.strip(), ""]
        elif line.startswith("  "):
            out.extend([".PP", ".nf", text(line), ".fi"])
        elif line.strip():
            kept.append(line)
    flush()
    return out


def page(name, title, help_text, others, version, date):
    usage, description, examples, options, rest = parts(help_text)
    out = [f'.TH "{name.upper()}" 1 "{date}" "{version}" "{MANUAL}"', ".nh", ".ad l", ".SH NAME", *paragraph(f"{name} - {title}")]
    out += [".SH SYNOPSIS", *paragraph(usage), ".SH DESCRIPTION"]
    body = blocks(description)
    out += body[1:] if body[:1] == [".PP"] else body
    if options:
        out.append(".SH OPTIONS")
        for option, what in options:
            out += [".TP", f".B {text(option)}", *paragraph(what or "see above")]
    out += blocks(rest)
    if examples:
        out += [".SH EXAMPLES", ".nf", *(text(example) for example in examples), ".fi"]
    if "Exit status:" not in help_text:
        out += [".SH EXIT STATUS", *paragraph("0 answered, 1 a negative answer, 2 wrong usage, 3 corrupt input, 4 the target cannot be read, 5 internal error.")]
    out += [".SH SEE ALSO", *(f".BR {text(other)} (1){',' if other != others[-1] else ''}" for other in others)]
    return "\n".join(out) + "\n"


def write_pages(program, folder, date):
    def of(*words):
        return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout

    overview, version, own = of("--help"), of("--version").strip().split(",")[0], Path(program).name
    commands = re.findall(r"^  ([a-z][a-z-]*)  *(.*)$", overview, re.M)
    title = overview.splitlines()[0].split(": ", 1)[1].rstrip(".")
    whole = overview.partition("\n\n")[2].partition("Exit status:")[0]
    names = [f"{own}-{command}" for command, _ in commands]
    (folder / f"{own}.1").write_text(page(own, title, whole, names, version, date))
    for (command, what), name in zip(commands, names):
        (folder / f"{name}.1").write_text(page(name, what, of(command, "--help"), [own], version, date))


def main(folder, date, *programs):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.1"):
        old.unlink()
    for program in programs:
        write_pages(program, folder, date)


if __name__ == "__main__":
    main(*sys.argv[1:])
