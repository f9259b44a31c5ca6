"""bundle.py OUT.c: makes the page of the files beside it, in two parts, before and behind the columns, as C.

The modules become one script: each is a function that gets what it imports and returns what it exports. A module may
write only `import { a, b } from "./other.js";` and `export` before a function, a class or a const. The content security
policy allows this script and this style sheet by their hashes, and nothing else.
"""

import base64
import hashlib
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.M)
EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.M)


def ordered(name, done):
    """Appends a module behind those that it imports."""
    if name in done:
        return
    for _, other in IMPORT.findall((FOLDER / f"{name}.js").read_text()):
        ordered(other, done)
    done.append(name)


def wrapped(name):
    text = (FOLDER / f"{name}.js").read_text()
    imports = "".join(f"const {{{names}}} = {other}_module;\n" for names, other in IMPORT.findall(text))
    exports = ", ".join(found for _, found in EXPORT.findall(text))
    code = EXPORT.sub(r"\1 \2", IMPORT.sub("", text))
    left = re.search(r"^\s*(import|export)\b.*$", code, re.M)
    if left:
        sys.exit(f"{name}.js: the bundle does not know this form: {left[0].strip()}")
    return f"const {name}_module = (() => {{\n{imports}{code}return {{ {exports} }};\n}})();\n"


def bundle():
    modules = []
    ordered("main", modules)
    unused = {path.stem for path in FOLDER.glob("*.js")} - set(modules)
    if unused:
        sys.exit(f"main.js does not lead to {', '.join(sorted(unused))}")
    return '"use strict";\n' + "".join(wrapped(name) for name in modules)


def allowed(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def page():
    script, style = bundle(), (FOLDER / "style.css").read_text()
    if "</script" in script.lower() or "</style" in style.lower():
        sys.exit("the end of an element stands in the script or the style sheet")
    policy = (
        f"default-src 'none'; script-src {allowed(script)}; style-src {allowed(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    text = (FOLDER / "index.html").read_text()
    for mark, value in (("POLICY", policy), ("STYLE", style), ("SCRIPT", script)):
        assert text.count(f"@{mark}@") == 1, mark
        text = text.replace(f"@{mark}@", value)
    return text.split("@COLUMNS@\n")


def as_c(name, text):
    data = text.encode()
    lines = [",".join(map(str, data[at : at + 32])) for at in range(0, len(data), 32)]
    return f"const char {name}[] = {{\n" + ",\n".join(lines) + f"}};\nconst size_t {name}_size = sizeof({name});\n"


if __name__ == "__main__":
    begin, end = page()
    made = '#include "view/page.h"\n' + as_c("gm_view_page_begin", begin) + as_c("gm_view_page_end", end)
    Path(sys.argv[1]).write_text(made)
