"""The columns of a page of `gpumem view`, read as docs/view-format.md describes them, without the page's own script."""

import base64
import json
import re
import zlib

ELEMENT = re.compile(r'<script type="application/x-gpumem-column" data-name="([\w.]+)" data-form="(\w+)">([A-Za-z0-9+/=]*)</script>')


def numbers(data, differences):
    found, before, at = [], 0, 0
    while at < len(data):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                break
        if differences:
            value = before = (before + ((value >> 1) ^ -(value & 1))) & (1 << 64) - 1
        found.append(value)
    return found


def columns_of(path):
    """{name: numbers, or the value of JSON}."""
    read = {}
    for name, form, text in ELEMENT.findall(path.read_text()):
        data = zlib.decompress(base64.b64decode(text, validate=True), wbits=-15)
        assert name not in read
        read[name] = json.loads(data) if form == "json" else numbers(data, {"numbers": False, "differences": True}[form])
    return read
