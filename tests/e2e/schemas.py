"""The published schemas of all JSON (docs/schema/), and how an answer is compared with one."""

import json

from conftest import ROOT
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

FOLDER = ROOT / "docs" / "schema" / "v1"
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
REGISTRY = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values())


def problems(question, answer):
    validator = Draft202012Validator(SCHEMAS[question], registry=REGISTRY)
    found = sorted(validator.iter_errors(answer), key=lambda error: -len(error.absolute_path))
    return [f"{error.json_path}: {error.message[:300]}" for error in found[:3]]
