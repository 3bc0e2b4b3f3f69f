"""Walking a JSON Schema, alone or beside a value: what is in it, what a reference means, what a null stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast
from urllib.parse import unquote

Schema: TypeAlias = Mapping[str, Any]

ANYTHING: Schema = {}
"""The schema that every value fits."""

# Where a schema holds further schemas: one or a list of them, or a dict of them by name.
_INNER = (
    "items",
    "prefixItems",
    "contains",
    "unevaluatedItems",
    "additionalItems",
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "contentSchema",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
)
_NAMED = ("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions")

_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "null": type(None),
    "boolean": bool,
    "string": str,
    "integer": (int, float),
    "number": (int, float),
    "array": list,
    "object": dict,
}


def subschemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield ``schema`` and every schema in it. Data in it, such as a default or an enum, is not taken for one."""
    yield schema
    children: list[Any] = []
    for key in _INNER:
        child = schema.get(key)
        children.extend(cast("list[Any]", child) if isinstance(child, list) else [child])
    for key in _NAMED:
        named = schema.get(key)
        children.extend(cast("dict[str, Any]", named).values() if isinstance(named, dict) else ())
    for child in children:
        if isinstance(child, dict):
            yield from subschemas(cast("dict[str, Any]", child))


def resolved(schema: object, root: Schema) -> Schema:
    """Return ``schema``, or what its reference leads to; :data:`ANYTHING` for what is no dict.

    Raises:
        LookupError: the reference leads nowhere within ``root``, or in a circle.
    """
    seen: set[str] = set()
    found = as_schema(schema)
    while isinstance(reference := found.get("$ref"), str):
        if reference in seen or not reference.startswith("#"):
            msg = f"the reference {reference!r} leads out of the schema, or in a circle"
            raise LookupError(msg)
        seen.add(reference)
        found = as_schema(referred(reference, root))
    return found


def referred(reference: str, root: Schema) -> Any:
    """Return what a reference into ``root`` names: a JSON Pointer, or an anchor, after ``#``.

    Raises:
        LookupError: there is no such thing.
    """
    pointer = unquote(reference.removeprefix("#"))
    target: Any = root
    if pointer and not pointer.startswith("/"):
        anchored = [part for part in subschemas(dict(root)) if part.get("$anchor") == pointer]
        target, pointer = (anchored[0], "") if anchored else (None, f"/{pointer}")
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and key.isdecimal() and int(key) < len(cast("list[Any]", target)):
            target = cast("list[Any]", target)[int(key)]
        elif isinstance(target, Mapping) and key in target:
            target = cast("Any", target[key])
        else:
            msg = f"the reference {reference!r} leads nowhere"
            raise LookupError(msg)
    return target


def branches(schema: object, root: Schema, _around: tuple[Schema, ...] = ()) -> list[Schema]:
    """Return the schemas that a value may fit: ``schema`` itself, or those that it names as alternatives.

    A reference that leads nowhere is none of them, and neither is an alternative that is the whole once more.
    """
    try:
        found = resolved(schema, root)
    except LookupError:
        return []
    alternatives = [*found.get("anyOf", ()), *found.get("oneOf", ())]
    if not alternatives:
        return [found]
    if any(found is other for other in _around):
        return []
    around = (*_around, found)
    return [branch for a in alternatives if a is not False for branch in branches(a, root, around)]


def takes_null(schema: object, root: Schema) -> bool:
    """Return whether null fits ``schema``."""
    return schema is not False and any(_fits(None, branch, root) for branch in branches(schema, root))


def without_nulls(value: Any, schema: object, root: Schema | None = None) -> Any:
    """Return ``value`` without the nulls that stand for what was left out.

    Under a provider's strict mode a model has to write every key of an object. For one that it would leave out it
    writes null; so a null is taken out where the key is optional and its schema takes no null. Of alternatives the
    one counts that the value fits. ``root`` is what references lead into, by default ``schema``.
    """
    if not isinstance(value, list | dict):
        return value
    root = as_schema(schema) if root is None else root
    try:
        found = resolved(schema, root)
    except LookupError:
        return cast("Any", value)
    for part in found.get("allOf", ()):
        value = without_nulls(value, part, root)
    if "anyOf" in found or "oneOf" in found:
        value = without_nulls(value, _meant(value, found, root), root)
    if isinstance(value, list):
        items = found.get("items")
        return [without_nulls(item, items, root) for item in cast("list[Any]", value)]
    return {
        key: without_nulls(item, _property(key, found), root)
        for key, item in cast("dict[str, Any]", value).items()
        if item is not None or not _is_left_out(key, found, root)
    }


def as_schema(schema: object) -> Schema:
    """Return a schema as a dict: where there is none, or it is just ``true``, it takes everything."""
    return cast("Schema", schema) if isinstance(schema, Mapping) else ANYTHING


def literals(schema: object) -> list[Any] | None:
    """Return the values that a schema lists; ``None`` where it lists none."""
    found = as_schema(schema)
    if "const" not in found:
        return list(found["enum"]) if "enum" in found else None
    return [found["const"]] if is_among(found["const"], found.get("enum", [found["const"]])) else []


def is_among(value: Any, values: Any) -> bool:
    """Return whether ``value`` is one of ``values``: as JSON has it, where true is not 1."""
    return any(value == other and isinstance(value, bool) == isinstance(other, bool) for other in values)


def is_kind(value: Any, kind: str) -> bool:
    """Return whether a value has the JSON Schema type ``kind``."""
    if isinstance(value, bool) and kind != "boolean":
        return False
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS.get(kind, object))


def kinds(schema: Schema) -> list[str]:
    """Return the types that a schema names."""
    kind = schema.get("type", ())
    return [kind] if isinstance(kind, str) else list(kind)


def _property(key: str, schema: Schema) -> object:
    return as_schema(schema.get("properties")).get(key, schema.get("additionalProperties"))


def _is_left_out(key: str, schema: Schema, root: Schema) -> bool:
    """Return whether a null for ``key`` stands for nothing."""
    known = as_schema(schema.get("properties"))
    return key in known and key not in schema.get("required", ()) and not takes_null(known[key], root)


def _meant(value: Any, schema: Schema, root: Schema) -> Schema:
    """Return which of the alternatives a value is meant to be: the one that its constants name, else that it fits."""
    named = [branch for branch in branches(schema, root) if _has_kind(value, branch) and _has_constants(value, branch)]
    fitting = named if len(named) == 1 else [branch for branch in named if _fits(value, branch, root)]
    return fitting[0] if fitting else ANYTHING


def _has_kind(value: Any, schema: Schema) -> bool:
    return not kinds(schema) or any(is_kind(value, kind) for kind in kinds(schema))


def _has_constants(value: Any, schema: Schema) -> bool:
    """Return whether what a schema lists the values of has one of them, where the value is an object."""
    if not isinstance(value, dict):
        return True
    found = cast("dict[str, Any]", value)
    for key, part in as_schema(schema.get("properties")).items():
        values = literals(part)
        if values is not None and found.get(key) is not None and not is_among(found[key], values):
            return False
    return True


def _fits(value: Any, schema: object, root: Schema) -> bool:
    """Return whether a value has the shape of ``schema``, a null for an optional key taken as left out.

    Limits on values, such as a ``maximum``, do not count: they do not say which alternative is meant.
    """
    if isinstance(schema, bool):
        return schema
    own = as_schema(schema)
    if "$ref" in own or "anyOf" in own or "oneOf" in own:
        return any(_fits(value, branch, root) for branch in branches(own, root))
    listed = literals(own)
    if not _has_kind(value, own) or (listed is not None and not is_among(value, listed)):
        return False
    if not all(_fits(value, part, root) for part in own.get("allOf", ())):
        return False
    if isinstance(value, list):
        return all(_fits(item, own.get("items"), root) for item in cast("list[Any]", value))
    return not isinstance(value, dict) or _object_fits(cast("dict[str, Any]", value), own, root)


def _object_fits(value: dict[str, Any], schema: Schema, root: Schema) -> bool:
    known = as_schema(schema.get("properties"))
    if not set(schema.get("required", ())) <= value.keys():
        return False
    if known and "additionalProperties" not in schema and not value.keys() <= known.keys():
        return False  # it may have more keys, but a value that does is rather another alternative's
    return all(
        (item is None and _is_left_out(key, schema, root)) or _fits(item, _property(key, schema), root)
        for key, item in value.items()
    )
