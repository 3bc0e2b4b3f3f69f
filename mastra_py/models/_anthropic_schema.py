"""JSON Schemas in the dialect that Anthropic's structured output takes.

It knows closed objects only, no recursion and no limits on values. What a schema has beyond that is told in a
description where that does; a schema whose very shape cannot be said is for words instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

_Schema: TypeAlias = dict[str, Any]

_REF = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"},
)
_SCALARS = frozenset({"string", "integer", "number", "boolean", "null"})

_SAID = frozenset(
    {"type", "enum", "const", "anyOf", "oneOf", "properties", "required", "additionalProperties", "items"},
)
"""Keywords that are translated, or make the schema one that cannot be."""
_SILENT = frozenset(
    {"$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "discriminator"},
)
"""Keywords that say nothing about which values fit."""
_SHAPES = frozenset({"allOf", "not", "if", "patternProperties", "prefixItems", "$dynamicRef"})
"""Keywords that no description makes up for."""


def closed_schema(schema: Mapping[str, Any]) -> _Schema | None:
    """Return ``schema`` in the dialect; ``None`` where it cannot be said in it.

    A value of the result is one of ``schema`` too, limits such as ``maximum`` apart: these are only told, so replies
    have to be validated all the same.
    """
    translation = _Translation({**schema.get("definitions", {}), **schema.get("$defs", {})})
    try:
        closed = translation.of(dict(schema))
    except _UnsayableError:
        return None
    return {**closed, "$defs": translation.definitions} if translation.definitions else closed


class _UnsayableError(Exception):
    """Something in a schema is beyond the dialect."""


class _Translation:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self.definitions: _Schema = {}
        """What is referred to, translated."""
        self._named = named
        self._open: set[str] = set()  # definitions that are being translated: who refers to one is recursive

    def of(self, schema: object) -> _Schema:
        if not isinstance(schema, dict) or _SHAPES & schema.keys():
            raise _UnsayableError
        schema = cast("_Schema", schema)
        if "$ref" in schema:
            return self._reference(schema["$ref"])
        if "enum" in schema or "const" in schema:
            closed = _literals(schema)
        elif "anyOf" in schema or "oneOf" in schema:
            closed = self._union(schema)
        elif isinstance(schema.get("type"), list):
            return {"anyOf": [self.of({**schema, "type": kind}) for kind in schema["type"]]}
        else:
            closed = self._typed(schema)
        return _described(closed, schema)

    def _reference(self, ref: str) -> _Schema:
        found = _REF.fullmatch(ref)
        name = found[1] if found else ""
        if name not in self._named or name in self._open:
            raise _UnsayableError
        if name not in self.definitions:
            self._open.add(name)
            self.definitions[name] = self.of(self._named[name])
            self._open.remove(name)
        return {"$ref": f"#/$defs/{name}"}

    def _union(self, schema: _Schema) -> _Schema:
        if "properties" in schema or "items" in schema:  # they hold beside the union
            raise _UnsayableError
        branches: Sequence[Any] = schema.get("anyOf") or schema["oneOf"]
        return {"anyOf": [self.of(branch) for branch in branches]}

    def _typed(self, schema: _Schema) -> _Schema:
        kind = schema.get("type", "object" if "properties" in schema else None)
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            return {"type": kind, "items": self.of(schema.get("items"))}
        if kind not in _SCALARS:
            raise _UnsayableError
        return {"type": kind}

    def _object(self, schema: _Schema) -> _Schema:
        properties: _Schema = schema.get("properties") or {}
        required: list[str] = schema.get("required") or []
        # Closed, an object that may hold any key could hold none of them: it would be a dict without entries.
        is_open = schema.get("additionalProperties", not properties) is not False
        if is_open or not set(required) <= properties.keys():
            raise _UnsayableError
        closed: _Schema = {
            "type": "object",
            "properties": {name: self.of(part) for name, part in properties.items()},
            "additionalProperties": False,
        }
        return {**closed, "required": list(required)} if required else closed


def _literals(schema: _Schema) -> _Schema:
    values: list[Any] = schema["enum"] if "enum" in schema else [schema["const"]]
    if not values or any(isinstance(value, dict | list) for value in values):
        raise _UnsayableError
    return {"enum": list(values)}


def _described(closed: _Schema, schema: _Schema) -> _Schema:
    """Add what is told rather than enforced."""
    told: list[str] = []
    for name, value in schema.items():
        if name in _SAID or name in _SILENT:
            continue
        if (name == "format" and value in _FORMATS) or (name == "minItems" and value in (0, 1)):
            closed[name] = value
        else:
            told.append(f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}")
    limits = f"({', '.join(told)})" if told else ""
    if description := " ".join(filter(None, [schema.get("description"), limits])):
        closed["description"] = description
    return closed
