"""Answers of gpumem as a notebook shows them: tables in HTML, and the same as text where there is no HTML.

All names of a program are data: they are escaped, and what would act on a page or a terminal is written as \\x1b or \\u202e.
"""

import html
import re
import unicodedata

from .asking import size_text

ROWS = 20
STYLE = "text-align: left; padding: 2px 12px 2px 0; white-space: pre-wrap; font-variant-numeric: tabular-nums"
NUMBER = STYLE.replace("left", "right", 1)


def visible(text):
    """Without characters that act instead of being seen."""
    acting = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode() if unicodedata.category(char) in acting else char for char in str(text)
    )


def lines_visible(text):
    return "\n".join(visible(line) for line in text.split("\n"))


class Answer:
    """Paragraphs and tables; `parts` are text, (columns, rows), or ("pre", text). A column is a name, or ">name" for numbers."""

    def __init__(self, *parts):
        self.parts = [part for part in parts if part]

    def _repr_html_(self):
        return f'<div class="gpumem">{"".join(map(self.part_html, self.parts))}</div>'

    def part_html(self, part):
        if isinstance(part, str):
            return f"<p>{html.escape(visible(part))}</p>"
        first, rest = part
        if first == "pre":
            return f"<pre>{html.escape(lines_visible(rest))}</pre>"
        styles = [NUMBER if name.startswith(">") else STYLE for name in first]

        def row(tag, cells):
            found = (f'<{tag} style="{style}">{html.escape(visible(cell))}</{tag}>' for style, cell in zip(styles, cells))
            return f"<tr>{''.join(found)}</tr>"

        body = "".join(row("td", cells) for cells in rest)
        return f"<table><thead>{row('th', [name.lstrip('>') for name in first])}</thead><tbody>{body}</tbody></table>"

    def __repr__(self):
        return "\n".join(map(self.part_text, self.parts))

    def part_text(self, part):
        if isinstance(part, str):
            return visible(part)
        first, rest = part
        if first == "pre":
            return lines_visible(rest.rstrip("\n"))
        rows = [[name.lstrip(">") for name in first], *([visible(cell) for cell in row] for row in rest)]
        widths = [max(map(len, column)) for column in zip(*rows)]
        right = [name.startswith(">") for name in first]
        lines = ("  ".join(cell.rjust(width) if end else cell.ljust(width) for cell, width, end in zip(row, widths, right)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)


def table(columns, rows, most=ROWS):
    """A table of the first rows, and a line that says how many are left out."""
    rows = list(rows)
    left = [f"… and {len(rows) - most:,} more rows"] if len(rows) > most else []
    return [(columns, [["" if cell is None else cell for cell in row] for row in rows[:most]]), *left] if rows else []


# ---- one question each: parts of its JSON ----


def sums(title, values):
    return f"{title}: " + ", ".join(f"{name} {size_text(size)}" for name, size in sorted(values.items(), key=lambda one: -one[1]) if size)


def of_groups(answer, what):
    groups = answer["groups"]
    if answer["device"] is None:
        return ["No device memory was allocated."]
    parts = [f"cuda:{answer['device']}: {size_text(answer['allocated'])} {what} ({answer['allocated']:,} bytes)"]
    columns = [">size", ">blocks", "allocated at"]
    if groups and "bytes" in groups[0]:
        parts += table(columns, ([size_text(one["bytes"]), one["blocks"], one["key"]] for one in groups))
    return parts


def sum_lines(answer):
    named = (("by category", answer.get("by_category")), ("by phase", answer.get("by_phase")))
    return [sums(title, values) for title, values in named if values and any(values.values())]


def peak(answer):
    return [*of_groups(answer, f"at the peak, after event {answer['event']}"), *sum_lines(answer)]


def blocks(answer):
    parts = of_groups({**answer, "groups": []}, f"allocated in {len(answer['blocks']):,} blocks")
    columns = ["block", "address", ">size", ">step", "phase", "category", "tensor", "allocated at"]
    rows = []
    for one in answer["blocks"]:
        place, shape = one.get("site") or {}, one.get("shape")
        number = f"#{one['allocated']}" if isinstance(one.get("allocated"), int) else None
        where = f"{place['file']}:{place['line']} in {place['function']}" if place.get("file") else None
        tensor = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''}) {one['dtype']}" if shape is not None and one.get("dtype") else None
        rows.append([number, one["address"], size_text(one["size"]), one.get("step"), one.get("phase"), one.get("category"), tensor, where])
    used = [index for index in range(len(columns)) if any(row[index] not in (None, "") for row in rows)]
    return [*parts, *table([columns[index] for index in used], ([row[index] for index in used] for row in rows)), *sum_lines(answer)]


def steps(answer):
    loop = answer.get("loop")
    parts = [f"{answer['iterations']:,} steps of the loop at {loop['file']}:{loop['line']}" if loop else f"{answer['iterations']:,} steps"]
    columns = [">step", ">at start", ">peak", "in", ">at end", ">allocated", ">blocks", ">kept", ">replaced"]
    rows = (
        [one["step"], *map(size_text, (one["allocated_start"], one["peak"])), one["peak_phase"], size_text(one["allocated_end"])]
        + [size_text(one["bytes"]), one["blocks"], size_text(one["kept"]), "" if one["replaced"] is None else size_text(one["replaced"])]
        for one in answer["steps"]
    )
    growth = answer.get("growth_per_step")
    return [*parts, *table(columns, rows), *([f"Each step keeps {size_text(growth)} more than the one before."] if growth and growth > 0 else [])]


def phases(answer):
    columns = ["phase", ">events", ">allocated", ">blocks", ">kept", ">peak in it", ">at step"]
    rows = (
        [one["phase"], one["events"], size_text(one["bytes"]), one["blocks"], size_text(one["kept"]), size_text(one["peak"]), one["peak_step"]]
        for one in answer["phases"]
    )
    return table(columns, rows)


BOUNDS = {
    "full": "a buffer that is full",
    "by_shape": "a block for each shape of the inputs",
    "limit": "its container has a limit",
}


def leaks(answer):
    ends = bounded(answer.get("bounded") or [])
    if not answer["sites"]:
        return ["No line keeps more memory with each step.", *ends]
    columns = [">a step", ">in all", ">blocks", "category", "allocated at", "held by"]
    rows = []
    for one in answer["sites"]:
        where = f"{one['file']}:{one['line']} in {one['function']}"
        holder = one.get("holder")
        held = holder if isinstance(holder, str) else (holder or {}).get("text", "")
        rows.append([size_text(one["bytes_per_step"]), size_text(one["bytes"]), one["blocks"], one["category"], where, held])
    return [f"The memory of {len(rows)} lines grows with each step.", *table(columns, rows), *ends]


def bounded(sites):
    """Lines whose growth ends by itself: no leaks."""
    if not sites:
        return []
    columns = [">in all", ">blocks", "allocated at", "why it ends"]
    rows = (
        [size_text(one["bytes"]), one["blocks"], f"{one['file']}:{one['line']} in {one['function']}", BOUNDS.get((one.get("bound") or {}).get("kind"), "")]
        for one in sites
    )
    return ["Not counted as leaks, as their growth ends:", *table(columns, rows)]


TABLES = {"peak": peak, "blocks": blocks, "steps": steps, "phases": phases, "leaks": leaks}


def of_json(question, answer):
    """An Answer; None: this one is shown as text."""
    try:
        parts = TABLES[question](answer)
    except (KeyError, TypeError, AttributeError):  # of several recordings, of a tree: they have other fields
        return None
    return Answer(*parts) if parts else None


# ---- cells ----


def cell_names(shell):
    """[(what names a cell's code in files and stacks, "Cell In[3]")], the longest first."""
    known = getattr(shell.compile, "_filename_map", {})
    names = [(str(name), f"Cell In[{number}]") for name, number in known.items()]
    names += [(name.rpartition("/")[2], cell) for name, cell in names if re.search(r"/ipykernel_\d+/\d+\.py$", name)]
    return sorted(names, key=lambda one: -len(one[0]))


def with_cells(value, names):
    """The same, in which the code of cells is named as the notebook names it."""
    if isinstance(value, str):
        for name, cell in names:
            value = value.replace(name, cell)
        return value
    if isinstance(value, list):
        return [with_cells(one, names) for one in value]
    if isinstance(value, dict):
        return {key: with_cells(one, names) for key, one in value.items()}
    return value
