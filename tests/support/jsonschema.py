"""The part of JSON Schema that the exported schemas use, checked without any of our parsers.

A keyword that is not known here is an error: a constraint nobody checks is no constraint.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
ANNOTATIONS = {"$schema", "$id", "title", "properties", "additionalProperties", "items"}
CHECKS: dict[str, Callable[[Any, Any], bool]] = {
    "type": lambda value, name: TYPES[name](value),
    "const": lambda value, wanted: bool(value == wanted),
    "enum": lambda value, words: value in words,
    "pattern": lambda value, pattern: re.search(pattern, value, re.ASCII) is not None,
    "minLength": lambda value, least: len(value) >= least,
    "maxLength": lambda value, most: len(value) <= most,
    "minItems": lambda value, least: len(value) >= least,
    "maxItems": lambda value, most: len(value) <= most,
    "minimum": lambda value, least: bool(value >= least),
    "maximum": lambda value, most: bool(value <= most),
    "uniqueItems": lambda value, _: all(value.count(item) == 1 for item in value),
    "required": lambda value, keys: set(keys) <= set(value),
    "anyOf": lambda value, schemas: any(not list(problems(value, s)) for s in schemas),
}


def problems(value: Any, schema: dict[str, Any], path: str = "$") -> Iterator[str]:
    """Yield where `value` does not fit `schema`."""
    unknown = set(schema) - set(CHECKS) - ANNOTATIONS
    if unknown:
        raise ValueError(f"keywords nobody checks: {sorted(unknown)}")
    for keyword, wanted in schema.items():
        if keyword in CHECKS and not CHECKS[keyword](value, wanted):
            yield f"{path}: {keyword}"
            return
    if isinstance(value, dict) and "properties" in schema:
        if schema["additionalProperties"] is not False or not set(value) <= set(
            schema["properties"]
        ):
            yield f"{path}: additionalProperties"
        for key in set(value) & set(schema["properties"]):
            yield from problems(value[key], schema["properties"][key], f"{path}.{key}")
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from problems(item, schema["items"], f"{path}[{number}]")
