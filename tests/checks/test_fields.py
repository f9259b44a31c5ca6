"""The table of a row's fields (core/torch/fields.c) has every field of the struct, so that a learned row is whole."""

import re
from pathlib import Path

TORCH = Path(__file__).resolve().parents[2] / "core" / "torch"


def fields_of_the_struct():
    text = re.sub(r"/\*.*?\*/", "", (TORCH / "layout.h").read_text(), flags=re.S)
    body = re.search(r"struct gm_torch_layout \{(.*?)^\};", text, re.M | re.S).group(1)
    found = set()
    for inner, part in re.findall(r"^\tstruct (?:\w+ )?\{(.*?)^\t\} (\w+);", body, re.M | re.S):
        found |= {f"{part}.{name}" for name in declared(inner)}
    outside = re.sub(r"^\tstruct (?:\w+ )?\{.*?^\t\} \w+;", "", body, flags=re.M | re.S)
    return found | declared(outside)


def declared(text):
    names = set()
    for names_text in re.findall(r"\b(?:uint16_t|uint32_t|bool|int)\s+([\w\s,]+);", text):
        names |= {name.strip() for name in names_text.split(",")}
    return names


def test_the_table_has_every_field_of_the_struct_and_no_other():
    versions = {"major", "minor_first", "minor_last"}
    table = set(re.findall(r"^\s+(?:FIELD|MAYBE)\(([\w.]+)", (TORCH / "fields.c").read_text(), re.M))
    assert len(table) > 90
    assert fields_of_the_struct() - versions == table, "core/torch/fields.c: a line for each field of struct gm_torch_layout"
