"""What OpenAI takes as a strict schema, in structured outputs and in strict tools: the provider's own rules.

Written from its guide and from the errors it answers with, and from nothing of this package: what sends schemas is
judged by it.
"""

from __future__ import annotations

import re
from typing import Any

TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
EVERYWHERE = {"type", "description", "title", "enum", "const"}
OF_TYPE = {
    "string": {"pattern", "format"},
    "number": {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "integer": {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "boolean": set(),
    "null": set(),
}

MAX_LEVELS = 10
MAX_PROPERTIES = 5000
MAX_ENUM_VALUES = 1000
MAX_CHARS = 120_000

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What a schema, or a tool, may be called."""


def strict_problems(schema: Any) -> list[str]:
    """Return what the API would refuse a schema for, each with where it is; nothing where it takes it."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return ["In context=(), schema must be a JSON Schema of type 'object'"]
    rules = _Rules(schema.get("$defs", {}))
    rules.check({key: value for key, value in schema.items() if key != "$defs"}, ())
    for name, definition in rules.definitions.items():
        rules.check(definition, ("$defs", name))
    return rules.problems + rules.excesses(schema)


class _Rules:
    def __init__(self, definitions: dict[str, Any]) -> None:
        self.definitions = definitions
        self.problems: list[str] = []
        self.properties = 0
        self.enum_values = 0
        self.chars = sum(len(name) for name in definitions)

    def refuse(self, path: tuple[str, ...], why: str) -> None:
        self.problems.append(f"In context={path}, {why}")

    def check(self, schema: Any, path: tuple[str, ...]) -> None:
        if not isinstance(schema, dict):
            self.refuse(path, f"{schema!r} is not a schema")
        elif "$ref" in schema:
            self.reference(schema, path)
        elif "anyOf" in schema:
            self.union(schema, path)
        elif "type" not in schema:
            self.refuse(path, "schema must have a 'type' key")
        else:
            self.typed(schema, path)

    def reference(self, schema: dict[str, Any], path: tuple[str, ...]) -> None:
        if beside := schema.keys() - {"$ref"}:
            self.refuse(path, f"$ref cannot have keywords {sorted(beside)}")
        where = schema["$ref"]
        if where != "#" and where.removeprefix("#/$defs/") not in self.definitions:
            self.refuse(path, f"reference {where!r} can only point to definitions at the top level of the schema")
        if isinstance(where, str) and re.search(r"\s", where):
            self.refuse(path, f"reference {where!r} has spaces")

    def union(self, schema: dict[str, Any], path: tuple[str, ...]) -> None:
        if beside := schema.keys() - {"anyOf", "description", "title"}:
            self.refuse(path, f"anyOf cannot have keywords {sorted(beside)}")
        if not schema["anyOf"]:
            self.refuse(path, "anyOf is empty")
        for number, branch in enumerate(schema["anyOf"]):
            self.check(branch, (*path, "anyOf", str(number)))

    def typed(self, schema: dict[str, Any], path: tuple[str, ...]) -> None:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not types or not set(types) <= TYPES:
            self.refuse(path, f"{schema['type']!r} is no type")
            return
        for keyword in sorted(schema.keys() - EVERYWHERE - set().union(*(OF_TYPE[kind] for kind in types))):
            self.refuse(path, f"{keyword!r} is not permitted")
        if "format" in schema and schema["format"] not in FORMATS:
            self.refuse(path, f"{schema['format']!r} is not a valid format")
        if re.search(r"\(\?<?[=!]", schema.get("pattern", "")):
            self.refuse(path, "regex lookaround is not supported")
        self.listed(schema, path)
        if "object" in types:
            self.object(schema, path)
        if "array" in types:
            if "items" not in schema:
                self.refuse(path, "array schema missing items")
            else:
                self.check(schema["items"], (*path, "items"))

    def listed(self, schema: dict[str, Any], path: tuple[str, ...]) -> None:
        values = schema.get("enum", []) + ([schema["const"]] if "const" in schema else [])
        if "enum" in schema and not schema["enum"]:
            self.refuse(path, "enum is empty")
        if any(isinstance(value, dict | list) for value in values):
            self.refuse(path, "enum values must be scalars")
        self.enum_values += len(values)
        chars = sum(len(value) for value in values if isinstance(value, str))
        self.chars += chars
        if len(values) > 250 and chars > 15_000:
            self.refuse(path, "an enum of more than 250 values has more than 15000 characters")

    def object(self, schema: dict[str, Any], path: tuple[str, ...]) -> None:
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            self.refuse(path, "object schema missing properties")
            return
        if schema.get("additionalProperties") is not False:
            self.refuse(path, "'additionalProperties' is required to be supplied and to be false")
        required = schema.get("required")
        if not isinstance(required, list) or sorted(required) != sorted(properties):
            self.refuse(path, "'required' is required to be supplied and to be an array including every key")
        self.properties += len(properties)
        self.chars += sum(len(name) for name in properties)
        for name, inner in properties.items():
            self.check(inner, (*path, "properties", name))

    def excesses(self, schema: dict[str, Any]) -> list[str]:
        found = [
            (self.properties, MAX_PROPERTIES, "object properties"),
            (self.enum_values, MAX_ENUM_VALUES, "enum values"),
            (self.chars, MAX_CHARS, "characters in names and values"),
            (0 if self.problems else self.levels(schema, ()), MAX_LEVELS, "levels of nesting"),
        ]
        return [f"{count} {what} exceeds limit of {limit}" for count, limit, what in found if count > limit]

    def levels(self, schema: dict[str, Any], inside: tuple[str, ...]) -> int:
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/$defs/")
            return 0 if name == "#" or name in inside else self.levels(self.definitions[name], (*inside, name))
        own = [*schema.get("anyOf", []), *schema.get("properties", {}).values(), schema.get("items", {})]
        deepest = max(self.levels(part, inside) for part in own if part) if any(own) else 0
        return deepest + ("properties" in schema)
