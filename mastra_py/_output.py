"""The type that a reply has to have: its JSON Schema for the model, and the reading of what the model wrote.

A reply is parsed whole first; otherwise the last top-level JSON object in it counts, fenced or not. What a model says
around its answer, or quotes before it, is not the answer.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, cast

from jiter import from_json
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import TypeVar

from mastra_py.errors import UserError

T = TypeVar("T", default=Any)

WRAPPER = "result"
"""Key under which a value stands that is no JSON object: providers want an object at the root."""

NAME_CHARS = 64


class Unusable(Exception):  # noqa: N818 -- a finding that leads to a re-ask, not an error of the program
    """A reply does not have the wanted form; the text says what is wrong, to the model."""


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """The form of a reply as a provider is told: a name and a JSON Schema with an object at its root."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OutputType(Generic[T]):
    """A type that replies are validated into. ``wrapped`` types are no JSON objects and stand under a key of one."""

    format: OutputFormat
    wrapped: bool
    validate: Callable[[str], T]

    def read(self, text: str) -> T:
        """Return the validated value in a reply.

        Raises:
            Unusable: there is no JSON in it, or it does not fit.
        """
        value, source = read_json_reply(text)
        if self.wrapped and isinstance(value, dict) and list(cast("dict[str, Any]", value)) == [WRAPPER]:
            source = json.dumps(value[WRAPPER])
        return self.validate(source)

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


def output_type(output: Any, owner: str) -> OutputType[Any]:
    """Return what ``output`` describes: a type, a ``TypeAdapter``, or a JSON Schema as a dict.

    Raises:
        UserError: it is none of these, or no JSON Schema can be made of it; ``owner`` says whose it is.
    """
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

    def validate(source: str) -> Any:
        try:
            return adapter.validate_json(source)
        except ValidationError as exc:
            raise Unusable(_problems(exc)) from None

    return _wrapped(schema, schema.get("title") or getattr(cast("object", output), "__name__", ""), validate)


def _from_schema(schema: Mapping[str, Any], owner: str) -> OutputType[Any]:
    from jsonschema import Draft202012Validator, SchemaError  # 80 ms, for those who bring a schema

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as exc:
        msg = f"{owner}: output is no valid JSON Schema: {exc.message}"
        raise UserError(msg) from exc
    validator = Draft202012Validator(schema)

    def validate(source: str) -> Any:
        value = json.loads(source)
        problems = [f"{_path(e.absolute_path)}{e.message}" for e in validator.iter_errors(value)]  # pyright: ignore[reportUnknownMemberType] -- untyped library
        if problems:
            raise Unusable("; ".join(problems[:5]))
        return value

    return _wrapped(dict(schema), str(schema.get("title", "")), validate)


def _wrapped(schema: dict[str, Any], name: str, validate: Callable[[str], Any]) -> OutputType[Any]:
    wrapped = not _is_object(schema)
    if wrapped:
        definitions = schema.pop("$defs", None)
        schema = {"type": "object", "properties": {WRAPPER: schema}, "required": [WRAPPER]}
        if definitions:
            schema["$defs"] = definitions
    clean = re.sub(r"[^a-zA-Z0-9_-]+", "_", name).strip("_")[:NAME_CHARS] or "output"
    return OutputType(OutputFormat(clean, schema), wrapped, validate)


def _is_object(schema: Mapping[str, Any]) -> bool:
    return _root(schema).get("type") == "object"


def _root(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    return schema.get("$defs", {}).get(name, schema)


def _problems(error: ValidationError) -> str:
    return "; ".join(f"{_path(e['loc'])}{e['msg']}" for e in error.errors(include_url=False)[:5])


def _path(parts: Any) -> str:
    path = ".".join(str(p) for p in parts)
    return f"{path}: " if path else ""


def read_json_reply(text: str) -> tuple[Any, str]:
    """Return the JSON value of a reply and its source text: the whole reply, else its last top-level object.

    Raises:
        Unusable: there is none.
    """
    whole = text.strip()
    try:
        return _DECODER.decode(whole), whole
    except (ValueError, RecursionError):
        pass
    found: tuple[Any, str] | None = None
    position = whole.find("{")
    while position >= 0:
        try:
            value, end = _DECODER.raw_decode(whole, position)
        except json.JSONDecodeError as exc:
            if exc.pos >= len(whole) or exc.msg.startswith("Unterminated string"):
                break  # an object that was cut off: what stands in it is not top-level
            end = position + 1
        except (ValueError, RecursionError):
            end = position + 1
        else:
            found = value, whole[position:end]
        position = whole.find("{", end)
    if found is None:
        msg = "there is no JSON object in it" if whole else "it is empty"
        raise Unusable(msg)
    return found


def _no_constant(name: str) -> Any:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
