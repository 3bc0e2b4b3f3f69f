"""The type that a reply has to have: its JSON Schema for the model, and the reading of what the model wrote.

What can be read without loss is read; anything else is for the model to put right.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, cast

from jiter import from_json
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import TypeVar

from mastra_py._reply_json import Unusable, read_json_reply, refuse_contradictions
from mastra_py._schema_walk import ANYTHING, branches, kinds, resolved, without_nulls
from mastra_py.errors import UserError

T = TypeVar("T", default=Any)
T_co = TypeVar("T_co", covariant=True)

WRAPPER = "result"
"""Key under which a value stands that is no JSON object: providers want an object at the root."""

_NAME_CHARS = 64
"""Providers take no longer name of a form."""

_DECIMAL = re.compile(r"[+-]?\d{1,300}(?:\.\d{1,300})?", re.ASCII)


class Reader(Protocol[T_co]):
    """Reads a reply. ``last`` says that it is not asked for again."""

    def __call__(self, text: str, *, last: bool) -> T_co:
        """Return the value in the reply; raise :class:`Unusable` where it has none."""
        ...


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """The form of a reply as a provider is told: a name and a JSON Schema with an object at its root."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OutputType(Generic[T]):
    """A type that replies are validated into. ``wrapped`` types are no JSON objects and stand under a key of one.

    ``read`` reads a whole reply, by default the JSON in it; ``last`` says that it is not asked for again.
    """

    format: OutputFormat
    wrapped: bool
    validate: Callable[[Any], T]
    reader: Reader[T] | None = None

    def read(self, text: str, *, last: bool = False) -> T:
        """Return the validated value in a reply.

        Raises:
            Unusable: there is no JSON in it, or it does not fit.
        """
        if self.reader is not None:
            return self.reader(text, last=last)
        value, source = read_json_reply(text)
        refuse_contradictions(source)
        if self.wrapped and isinstance(value, dict) and list(found := cast("dict[str, Any]", value)) == [WRAPPER]:
            value = found[WRAPPER]
        return self.validate(cast("Any", value))

    def may_have(self, name: str) -> bool:
        """Return whether a value may have a field ``name``, or is no object at all."""
        return self.wrapped or name in _root(self.format.schema).get("properties", {name: {}})

    def peek(self, text: bytes) -> Any:
        """Return the value in the beginning of a reply, not validated; ``None`` where there is none yet."""
        start = text.find(b"{")
        if start < 0:
            return None
        try:
            value: Any = from_json(text[start:], partial_mode="trailing-strings")
        except ValueError:
            return None
        return value.get(WRAPPER) if self.wrapped else value


class ReadSchema(dict[str, Any]):
    """A JSON Schema that brings its own reader of replies: what a judge that is an agent gets as ``output``."""

    reader: Reader[Any]


def output_type(output: Any, owner: str) -> OutputType[Any]:
    """Return what ``output`` describes: a type, a ``TypeAdapter``, or a JSON Schema as a dict.

    Raises:
        UserError: it is none of these, or no JSON Schema can be made of it; ``owner`` says whose it is.
    """
    if isinstance(output, ReadSchema):
        return OutputType(OutputFormat("output", output), wrapped=False, validate=_as_it_is, reader=output.reader)
    if isinstance(output, Mapping):
        return _from_schema(cast("Mapping[str, Any]", output), owner)
    try:
        if inspect.isroutine(output):  # pydantic would take it for a function to call
            raise TypeError  # noqa: TRY301 -- the message is below
        adapter = cast("TypeAdapter[Any]", output if isinstance(output, TypeAdapter) else TypeAdapter(output))
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as exc:
        msg = (
            f"{owner}: output must be a type, a TypeAdapter or a JSON Schema; of {output!r} no JSON Schema can be made"
        )
        raise UserError(msg) from exc

    def validate(value: Any) -> Any:
        try:
            # Strictly, once what may be coerced is: left to itself, pydantic takes "yes" for True.
            return adapter.validate_json(json.dumps(coerced(value, schema)), strict=True)
        except ValidationError as exc:
            raise Unusable(_problems(exc)) from None

    return _with_object_root(schema, schema.get("title") or getattr(cast("object", output), "__name__", ""), validate)


def _as_it_is(value: Any) -> Any:
    return value


def _from_schema(schema: Mapping[str, Any], owner: str) -> OutputType[Any]:
    from jsonschema import Draft202012Validator, SchemaError  # 80 ms, for those who bring a schema

    root = dict(schema)
    try:
        Draft202012Validator.check_schema(root)
        _check_references(root, root)
        validator = Draft202012Validator(root)
        validator.is_valid({})  # pyright: ignore[reportUnknownMemberType] -- untyped library; finds what never ends
    except (SchemaError, LookupError, RecursionError) as exc:
        what = exc.message if isinstance(exc, SchemaError) else str(exc)
        if isinstance(exc, RecursionError):
            what = "it never ends"
        msg = f"{owner}: output is no valid JSON Schema: {what}"
        raise UserError(msg) from exc

    def validate(value: Any) -> Any:
        value = coerced(value, root)
        problems = [f"{_path(e.absolute_path)}{e.message}" for e in validator.iter_errors(value)]  # pyright: ignore[reportUnknownMemberType] -- untyped library
        if problems:
            raise Unusable("; ".join(problems[:5]))
        return value

    return _with_object_root(root, str(root.get("title", "")), validate)


def _check_references(node: object, root: Mapping[str, Any]) -> None:
    """Raise a ``LookupError`` for a reference that leads nowhere within the schema: nothing is fetched."""
    if isinstance(node, dict):
        found = cast("dict[str, Any]", node)
        if isinstance(found.get("$ref"), str):
            resolved(found, root)
        for value in found.values():
            _check_references(value, root)
    elif isinstance(node, list):
        for value in cast("list[object]", node):
            _check_references(value, root)


def _with_object_root(schema: dict[str, Any], name: str, validate: Callable[[Any], Any]) -> OutputType[Any]:
    """Return the type that ``schema`` describes; where that is no object, it is wrapped in one."""
    root = _root(schema)
    wrapped = root.get("type", "object" if "properties" in root else None) != "object"
    if wrapped:
        inner = cast("dict[str, Any]", _with_moved_root(schema))
        hoisted = {key: inner.pop(key) for key in ("$defs", "definitions") if key in inner}
        schema = {"type": "object", "properties": {WRAPPER: inner}, "required": [WRAPPER], **hoisted}
    clean = re.sub(r"[^a-zA-Z0-9_-]+", "_", name).strip("_")[:_NAME_CHARS] or "output"
    return OutputType(OutputFormat(clean, schema), wrapped, validate)


def _with_moved_root(node: object) -> object:
    """Return a schema that is put under a key: what refers to its root refers to that key."""
    if isinstance(node, dict):
        moved = {key: _with_moved_root(value) for key, value in cast("dict[str, object]", node).items()}
        return {**moved, "$ref": f"#/properties/{WRAPPER}"} if moved.get("$ref") == "#" else moved
    return [_with_moved_root(value) for value in cast("list[object]", node)] if isinstance(node, list) else node


def _root(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return resolved(schema, schema)
    except LookupError:
        return schema


def coerced(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return ``value`` with what can be read without loss made what ``schema`` wants.

    The texts ``true`` and ``false`` in any case, 1 and 0 are read as booleans, decimal texts as numbers; a null for an
    optional value that takes none counts as left out. Anything else is left, for the validation to refuse.
    """
    return without_nulls(_coerced(value, schema, schema), schema)


def _coerced(value: Any, schema: object, root: Mapping[str, Any]) -> Any:
    alternatives = branches(schema, root)
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        objects = [b for b in alternatives if "properties" in b or "additionalProperties" in b]
        if len(objects) != 1:  # which of several is meant is for the validation to find out
            return found
        fields, rest = objects[0].get("properties", {}), objects[0].get("additionalProperties")
        return {key: _coerced(item, fields.get(key, rest), root) for key, item in found.items()}
    if isinstance(value, list):
        items = [b["items"] for b in alternatives if isinstance(b.get("items"), Mapping)]
        each = items[0] if len(items) == 1 else ANYTHING
        return [_coerced(item, each, root) for item in cast("list[Any]", value)]
    return _coerced_scalar(value, {kind for b in alternatives for kind in _wanted_kinds(b)})


def _coerced_scalar(value: Any, wanted: set[str]) -> Any:
    if isinstance(value, str) and "string" not in wanted:
        text = value.strip()
        if "boolean" in wanted and text.lower() in {"true", "false"}:
            return text.lower() == "true"
        if wanted & {"number", "integer"} and _DECIMAL.fullmatch(text):
            number = float(text)
            return int(number) if "number" not in wanted and number.is_integer() else number
    elif isinstance(value, int | float):
        if "boolean" in wanted and not wanted & {"number", "integer"} and value in {0, 1}:
            return value == 1
        if "integer" in wanted and "number" not in wanted and isinstance(value, float) and value.is_integer():
            return int(value)
    return value


def _wanted_kinds(schema: Mapping[str, Any]) -> list[str]:
    if "type" not in schema:  # an enum of texts wants texts
        return ["string"] if any(isinstance(v, str) for v in [*schema.get("enum", ()), schema.get("const")]) else []
    return kinds(schema)


def _problems(error: ValidationError) -> str:
    return "; ".join(f"{_path(e['loc'])}{e['msg']}" for e in error.errors(include_url=False)[:5])


def _path(parts: Any) -> str:
    path = ".".join(str(p) for p in parts)
    return f"{path}: " if path else ""
