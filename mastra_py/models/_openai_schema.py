"""JSON Schemas in the strict dialect of OpenAI's structured outputs and tools.

Every object in it is closed and every key of an object required, at every level. A key that may be left out becomes
one that may be null, which the reader of a reply takes as left out. Limits that the dialect lacks are told in a
description; a schema whose very shape cannot be said goes out as it is, not strict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, TypeAlias, cast

from mastra_py._schema_walk import (
    as_schema,
    branches,
    is_among,
    is_kind,
    kinds,
    literals,
    referred,
    subschemas,
    takes_null,
)

_Schema: TypeAlias = dict[str, Any]

_NULL: Mapping[str, Any] = {"type": "null"}

_KEPT: Mapping[str, tuple[str, ...]] = {
    "string": ("pattern", "format"),
    "number": ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "integer": ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "array": ("minItems", "maxItems"),
    "boolean": (),
    "null": (),
}
"""The types apart from objects, and their limits that are enforced."""
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_ODD_PATTERN = re.compile(r"\(\?(?!:)|\\[1-9kpPAZz]")
"""What is beyond the regular expressions that are taken: lookaround, back references, classes of Unicode."""

_FORMS = frozenset({"$ref", "enum", "const", "anyOf", "oneOf", "allOf"})
"""What a schema can be instead of a type with its keywords."""
_TYPED = frozenset({"type", "properties", "required", "additionalProperties", "items"})
"""Keywords that are translated with their type."""
_SILENT = frozenset(
    {"$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "title", "description", "discriminator"}
    | {"nullable"},  # means nothing in JSON Schema, and whoever reads the reply takes it so
)
"""Keywords that say nothing about which values fit."""
_SHAPES = frozenset(
    {"not", "if", "patternProperties", "prefixItems", "$dynamicRef", "dependentSchemas", "dependencies"},
)
"""Keywords that no description makes up for."""

_MAX_LEVELS = 10
_MAX_PROPERTIES = 5000
_MAX_VALUES = 1000
_MAX_CHARS = 120_000
_LONG_ENUM, _MAX_CHARS_OF_A_LONG_ENUM = 250, 15_000


def strict_schema(schema: Mapping[str, Any]) -> _Schema | None:
    """Return ``schema`` in the dialect; ``None`` where it cannot be said in it.

    A value of the result is one of ``schema`` too, once the nulls for optional keys are out of it and limits such as
    ``minLength`` apart: these are only told, so replies have to be validated all the same.
    """
    try:
        strict = _Translation(schema).whole()
        _check_limits(strict)
    except (_UnsayableError, LookupError):
        return None
    return strict


def schema_under(key: str, schema: Mapping[str, Any], *, strict: bool) -> _Schema:
    """Return a schema under ``key``, marked as strict where that is wanted and can be said.

    A reply that does not fit the schema of a request that is not strict is asked for again.
    """
    said = strict_schema(schema) if strict else None
    return {key: dict(schema)} if said is None else {key: said, "strict": True}


class _UnsayableError(Exception):
    """Something in a schema is beyond the dialect."""


class _Translation:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._names = {"#": ""}  # of what is referred to, by its reference; the root has none
        self._definitions: _Schema = {}
        self._around: list[str] = []  # references that are being followed, since the last step into a value

    def whole(self) -> _Schema:
        root = self._root
        while isinstance(root.get("$ref"), str) and _has_only(root, {"$ref"}) and root["$ref"] not in self._names:
            self._names[root["$ref"]] = ""
            root = as_schema(referred(root["$ref"], self._root))
        strict = self._of(root)
        if strict.get("type") != "object":
            raise _UnsayableError
        return {**strict, "$defs": self._definitions} if self._definitions else strict

    def _of(self, schema: object) -> _Schema:
        if not isinstance(schema, Mapping) or _SHAPES & schema.keys():
            raise _UnsayableError
        found = cast("Mapping[str, Any]", schema)
        forms = _FORMS & found.keys()
        if not forms:
            strict = self._typed(found)
        elif forms <= {"enum", "const"}:
            strict = _listed(found)
        elif len(forms) > 1 or not _has_only(found, forms):  # all of them would hold at once
            raise _UnsayableError
        elif "$ref" in forms:
            strict = self._reference(found["$ref"])
        else:
            strict = self._union(found)
        return _described(strict, found)

    def _reference(self, reference: str) -> _Schema:
        if reference in self._around:
            raise _UnsayableError  # it is nothing but itself
        if reference not in self._names:
            target = referred(reference, self._root)
            self._names[reference] = name = self._name_for(reference)
            self._definitions[name] = {}  # takes its place
            self._around.append(reference)
            self._definitions[name] = self._of(target)
            self._around.pop()
        name = self._names[reference]
        return {"$ref": f"#/$defs/{name}" if name else "#"}

    def _name_for(self, reference: str) -> str:
        name = base = re.sub(r"[^a-zA-Z0-9_-]+", "_", reference.rpartition("/")[2]) or "_"
        number = 1
        while name in self._definitions:
            number += 1
            name = f"{base}_{number}"
        return name

    def _union(self, schema: Mapping[str, Any]) -> _Schema:
        if "allOf" in schema:
            if len(schema["allOf"]) != 1:
                raise _UnsayableError
            return self._of(schema["allOf"][0])
        if "oneOf" in schema and not all(
            _are_apart(a, b)
            for one, other in combinations(schema["oneOf"], 2)
            for a in branches(one, self._root)
            for b in branches(other, self._root)
        ):
            raise _UnsayableError
        return {"anyOf": [self._of(branch) for branch in schema.get("anyOf", schema.get("oneOf", ()))]}

    def _typed(self, schema: Mapping[str, Any]) -> _Schema:
        guessed = "object" if "properties" in schema else "array" if "items" in schema else None
        kind = schema.get("type", guessed)
        if isinstance(kind, list):
            return {"anyOf": [self._of_kind(each, schema) for each in cast("list[str]", kind)]}
        return self._of_kind(kind, schema)

    def _of_kind(self, kind: str | None, schema: Mapping[str, Any]) -> _Schema:
        around, self._around = self._around, []
        try:
            if kind == "object":
                return self._object(schema)
            if kind is None or kind not in _KEPT:
                raise _UnsayableError
            limits = {name: schema[name] for name in _KEPT[kind] if _is_enforced(name, schema)}
            return {"type": kind, **({"items": self._of(schema.get("items"))} if kind == "array" else {}), **limits}
        finally:
            self._around = around

    def _object(self, schema: Mapping[str, Any]) -> _Schema:
        properties: Mapping[str, Any] = schema.get("properties") or {}
        required: list[str] = schema.get("required") or []
        # Closed, an object that may hold any key could hold none of them: it would be a dict without entries.
        is_open = schema.get("additionalProperties", not properties) is not False
        if is_open or not set(required) <= properties.keys():
            raise _UnsayableError
        parts = {name: self._of(part) for name, part in properties.items()}
        for name, part in properties.items():
            if not _is_said(name, schema) and not takes_null(part, self._root):
                parts[name] = _nullable(parts[name])
        # A constant comes first: it says which of several objects is being written, and some servers insist on that.
        order = sorted(parts, key=lambda name: "const" not in parts[name])
        return {
            "type": "object",
            "properties": {name: parts[name] for name in order},
            "required": order,
            "additionalProperties": False,
        }


def _has_only(schema: Mapping[str, Any], forms: Iterable[str]) -> bool:
    """Return whether a schema says what ``forms`` say, and besides only what is told."""
    return not (_FORMS | _TYPED) & (schema.keys() - set(forms))


def _is_said(name: str, schema: Mapping[str, Any]) -> bool:
    """Return whether every value has the key ``name``, or may as well have it: it can hold nothing but its default."""
    part = as_schema(schema["properties"][name])
    return name in schema.get("required", ()) or ("default" in part and literals(part) == [part["default"]])


def _are_apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether no value fits both, so that what fits one of a union's branches fits that one only."""
    if (shared := _kinds(one) & _kinds(other)) != {"object"}:
        return not shared or _have_other_values(one, other)
    properties, others = as_schema(one.get("properties")), as_schema(other.get("properties"))
    tags = [name for name in properties if name in others and _is_said(name, one) and _is_said(name, other)]
    return any(_have_other_values(properties[name], others[name]) for name in tags) or any(
        set(open_.get("required", ())) - as_schema(closed.get("properties")).keys()
        for open_, closed in ((one, other), (other, one))
        if closed.get("additionalProperties") is False
    )


def _have_other_values(one: object, other: object) -> bool:
    values, others = literals(one), literals(other)
    return values is not None and others is not None and not any(is_among(value, others) for value in values)


def _nullable(strict: _Schema) -> _Schema:
    outside = {"description": strict.pop("description")} if "description" in strict else {}
    alternatives: list[Any] = strict.get("anyOf", [strict])
    return {"anyOf": [*alternatives, dict(_NULL)], **outside}


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """Return of which types a value can be that fits ``schema``; integers are numbers."""
    possible = [*_KEPT, "object"]
    if (values := literals(schema)) is not None:
        possible = [kind for kind in possible if any(is_kind(value, kind) for value in values)]
    return {"number" if kind == "integer" else kind for kind in kinds(schema) or possible}


def _listed(schema: Mapping[str, Any]) -> _Schema:
    """Return a schema of the values that one lists, with their type, which the dialect wants."""
    wanted = kinds(schema)
    values = [v for v in literals(schema) or () if not wanted or any(is_kind(v, kind) for kind in wanted)]
    if not values or any(isinstance(value, dict | list) for value in values):
        raise _UnsayableError
    found = [kind for kind in ("string", "boolean", "number", "null") if any(is_kind(v, kind) for v in values)]
    if all(is_kind(v, "integer") for v in values if is_kind(v, "number")):
        found = ["integer" if kind == "number" else kind for kind in found]
    kind = found[0] if len(found) == 1 else found
    return {"type": kind, "const": values[0]} if len(values) == 1 else {"type": kind, "enum": values}


def _is_enforced(name: str, schema: Mapping[str, Any]) -> bool:
    value = schema.get(name)
    if name == "format":
        return value in _FORMATS
    if name == "pattern":
        return isinstance(value, str) and not _ODD_PATTERN.search(value)
    return is_kind(value, "number")


def _described(strict: _Schema, schema: Mapping[str, Any]) -> _Schema:
    """Add what is told rather than enforced."""
    enforced: set[str] = set() if _FORMS & schema.keys() else {n for b in [strict, *strict.get("anyOf", ())] for n in b}
    silent = _FORMS | _TYPED | _SILENT | enforced
    if schema.get("default") is None or literals(schema) == [schema["default"]]:
        silent |= {"default"}
    told = [f"{n}: {json.dumps(v, ensure_ascii=False, default=str)}" for n, v in schema.items() if n not in silent]
    limits = f"({', '.join(told)})" if told else ""
    if description := " ".join(filter(None, [schema.get("description"), strict.get("description"), limits])):
        strict = {"anyOf": [strict]} if "$ref" in strict else strict  # nothing may stand beside a reference
        strict["description"] = description
    return strict


def _check_limits(strict: _Schema) -> None:
    """Raise :class:`_UnsayableError` where a schema is larger than the dialect lets it be."""
    definitions: _Schema = strict.get("$defs", {})
    properties, values, chars = 0, 0, sum(map(len, definitions))
    for part in subschemas(strict):
        names: _Schema = part.get("properties", {})
        listed = literals(part) or []
        listed_chars = sum(len(value) for value in listed if isinstance(value, str))
        if len(listed) > _LONG_ENUM and listed_chars > _MAX_CHARS_OF_A_LONG_ENUM:
            raise _UnsayableError
        properties += len(names)
        values += len(listed)
        chars += sum(map(len, names)) + listed_chars
    if properties > _MAX_PROPERTIES or values > _MAX_VALUES or chars > _MAX_CHARS:
        raise _UnsayableError
    if _levels(strict, definitions, {}) > _MAX_LEVELS:
        raise _UnsayableError


def _levels(part: _Schema, definitions: _Schema, known: dict[str, int]) -> int:
    """Return how deep objects stand in each other, recursion apart. ``known`` holds the levels of definitions."""
    if "$ref" in part:
        name = part["$ref"].removeprefix("#").removeprefix("/$defs/")
        if name and name not in known:
            known[name] = 0
            known[name] = _levels(definitions[name], definitions, known)
        return known.get(name, 0)
    inner = [
        *part.get("anyOf", ()),
        *part.get("properties", {}).values(),
        *([part["items"]] if "items" in part else ()),
    ]
    return max((_levels(each, definitions, known) for each in inner), default=0) + (part.get("type") == "object")
