"""The published schemas of all JSON (docs/schema/), and how an answer is compared with one."""

import json

from conftest import ROOT
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

FOLDER = ROOT / "docs" / "schema" / "v1"
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
REGISTRY = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values())


def validator(question, part=""):
    """Of a schema, or of a part of it: "/$defs/steps"."""
    return Draft202012Validator({"$ref": f"{SCHEMAS[question]['$id']}#{part}"}, registry=REGISTRY)


def problems(question, answer, part=""):
    found = sorted(validator(question, part).iter_errors(answer), key=lambda error: -len(error.absolute_path))
    return [f"{error.json_path}: {error.message[:300]}" for error in found[:3]]


def fields(schema):
    """The names of all fields that a schema has."""
    if isinstance(schema, list):
        return set().union(*map(fields, schema))
    if not isinstance(schema, dict):
        return set()
    named = schema.get("properties", {})
    own = set(named) if isinstance(named, dict) and schema.get("type") == "object" else set()
    return own.union(*map(fields, schema.values()))


def keys(value):
    """The names of all fields that an answer has."""
    if isinstance(value, list):
        return set().union(*map(keys, value))
    return set(value).union(*map(keys, value.values())) if isinstance(value, dict) else set()
