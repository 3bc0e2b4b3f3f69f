"""JSON Schema at the border of Python: how the JSON arguments of a call become a function's keyword arguments.

:func:`arguments_of` derives the schema from a function's signature, through pydantic; :func:`arguments_from` takes one
that was written by hand, and checks against it with ``jsonschema``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaError, to_json

from mastra_py._schema_walk import subschemas, without_nulls
from mastra_py._signature import Signature, read_docstring
from mastra_py.errors import UserError

JsonObject: TypeAlias = dict[str, Any]

_SHOWN_CHARS = 200
_SHOWN_PROBLEMS = 10


class InvalidArguments(Exception):  # noqa: N818 -- a finding, which its reader turns into an error of its own
    """The arguments do not fit. ``problems`` says for each bad field where it is and what is wrong with it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """How a call's JSON arguments become the keyword arguments of a function.

    Attributes:
        schema: the JSON Schema of the arguments, always of an object with ``properties``.
        read: takes the JSON arguments and returns the keyword arguments; raises :class:`InvalidArguments`. A null for
            an optional value that takes none, at any depth, counts as left out.
        injected: the parameters that the caller fills; no schema shows them.
        description: what the docstring says about the function.
    """

    schema: JsonObject
    read: Callable[[JsonObject], dict[str, Any]]
    injected: tuple[str, ...]
    description: str | None


def arguments_of(function: Callable[..., Any], *, owner: str, inject: type) -> Arguments:
    """Derive the arguments from the signature of ``function``.

    A parameter without an annotation takes any JSON value. Parameters annotated with ``inject`` stay out of the schema,
    and so do those that a ``functools.partial`` has filled. A parameter is described by its ``Field(description=)``,
    else by the docstring. Arguments that the function does not have are invalid.

    Raises:
        UserError: a model could not call it; the error names ``owner`` and the parameter.
    """
    signature = Signature(function, owner=owner, inject=inject)
    signature.check_named()
    description, described = read_docstring(function)
    fields = [_Field(f"p{i}", p) for i, p in enumerate(signature.given)]
    model, schema = _model_and_schema(fields, signature.namespace, owner)
    for field in fields:
        if field.parameter.name in described:
            schema["properties"][field.alias].setdefault("description", described[field.parameter.name])

    def read(args: JsonObject) -> dict[str, Any]:
        args = without_nulls(args, schema)
        try:
            # Read as JSON, not as Python objects: only so do strict types accept dates, enums and tuples.
            values = model.__pydantic_validator__.validate_json(to_json(args, inf_nan_mode="constants"))
        except ValidationError as exc:
            raise InvalidArguments(_pydantic_problems(exc)) from exc
        except PydanticSerializationError as exc:
            raise InvalidArguments([f"they cannot be written as JSON: {exc}"]) from exc
        # What was left out is left to the function's own default, unless that is a Field(...).
        return {
            f.parameter.name: getattr(values, f.key)
            for f in fields
            if f.key in values.model_fields_set or isinstance(f.parameter.default, FieldInfo)
        }

    return Arguments(
        schema=schema,
        read=read,
        injected=signature.injected,
        description=description,
    )


def arguments_from(schema: Mapping[str, Any], function: Callable[..., Any], *, owner: str, inject: type) -> Arguments:
    """Take the arguments from a JSON Schema, for a function that gets them as keywords.

    A function with a single parameter that is none of the schema's properties gets all of them in it, as a dict.

    Raises:
        UserError: the schema is not valid or not of an object, or ``function`` cannot take what it describes.
    """
    checked = _object_schema(schema, owner)
    problems_of = _json_schema_check(checked, owner)
    signature = Signature(function, owner=owner, inject=inject)
    whole = signature.whole(checked["properties"])
    if whole is None:
        signature.check_fits(checked)

    def read(args: JsonObject) -> dict[str, Any]:
        args = without_nulls(args, checked)
        if problems := problems_of(args):
            raise InvalidArguments(problems)
        args = copy.deepcopy(args)  # they are part of the conversation, which the function must not change
        if whole is not None:
            return {whole: args}
        if unknown := [name for name in args if not signature.accepts(name)]:
            raise InvalidArguments([f"{name}: there is no such parameter" for name in unknown])
        return args

    return Arguments(
        schema=checked,
        read=read,
        injected=signature.injected,
        description=read_docstring(function)[0],
    )


# --- a signature, through pydantic


class _Schemas(GenerateJsonSchema):
    """Says nothing about a default that is no JSON value: the function has it all the same."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 -- declared so by pydantic


class _Field:
    """A parameter as a field of a pydantic model.

    The field has a name of our own and the parameter's as its alias: a parameter may be called ``json`` or ``_x``,
    which a field may not.
    """

    __slots__ = ("alias", "key", "parameter")

    def __init__(self, key: str, parameter: Parameter) -> None:
        self.key = key
        self.parameter = parameter
        self.alias = parameter.name

    def definition(self) -> tuple[Any, Any]:
        annotation: Any = Any if self.parameter.annotation is Parameter.empty else self.parameter.annotation
        default: Any = ... if self.parameter.default is Parameter.empty else self.parameter.default
        alias = FieldInfo.from_annotated_attribute(annotation, default).validation_alias
        if isinstance(alias, str):
            self.alias = alias
            return annotation, default
        return Annotated[annotation, Field(alias=self.alias)], default


_UNUSABLE = (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, TypeError, ValueError)


def _model_and_schema(
    fields: Sequence[_Field], namespace: dict[str, Any], owner: str
) -> tuple[type[BaseModel], JsonObject]:
    try:
        return _build(fields, namespace)
    except _UNUSABLE as exc:
        culprits = [repr(f.parameter.name) for f in fields if not _is_usable(f, namespace)]
        why = str(exc).partition("\n")[0]
        msg = f"{owner}: parameter {', '.join(culprits)} cannot be described by a JSON Schema: {why}"
        raise UserError(msg) from exc


def _is_usable(field: _Field, namespace: dict[str, Any]) -> bool:
    try:
        _build([field], namespace)
    except _UNUSABLE:
        return False
    return True


def _build(fields: Sequence[_Field], namespace: dict[str, Any]) -> tuple[type[BaseModel], JsonObject]:
    definitions: dict[str, Any] = {field.key: field.definition() for field in fields}
    model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **definitions)
    model.model_rebuild(_types_namespace=namespace)
    schema = model.model_json_schema(schema_generator=_Schemas)
    for part in subschemas(schema):
        if isinstance(part.get("title"), str):
            del part["title"]
    return model, schema


def _pydantic_problems(error: ValidationError) -> list[str]:
    problems: list[str] = []
    for found in error.errors(include_url=False, include_context=False):
        got = "" if found["type"] == "missing" else f" (got {_short(repr(found['input']))})"
        problems.append(_located(found["loc"], found["msg"] + got))
    return _bounded(problems)


# --- a schema written by hand, through jsonschema


def _object_schema(schema: Mapping[str, Any], owner: str) -> JsonObject:
    """Return a copy of ``schema`` that says that it is an object's and has ``properties``, which changes nothing."""
    try:
        copy: object = json.loads(json.dumps(dict(schema), allow_nan=False))
    except (TypeError, ValueError) as exc:
        msg = f"{owner}: parameters must be a JSON Schema as a dict of JSON values: {exc}"
        raise UserError(msg) from exc
    checked: JsonObject = {"type": "object", "properties": {}}
    checked.update(cast("JsonObject", copy))
    if checked["type"] != "object":
        msg = f"{owner}: parameters must be the JSON Schema of an object, but its type is {checked['type']!r}"
        raise UserError(msg)
    return checked


def _json_schema_check(schema: JsonObject, owner: str) -> Callable[[JsonObject], list[str]]:
    # Imported here: it takes 80 ms, which only tools with a schema of their own should pay.
    from jsonschema import Draft202012Validator, exceptions, validators
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    kind = validators.validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except exceptions.SchemaError as exc:
        msg = f"{owner}: parameters is not a valid JSON Schema: {_located(exc.absolute_path, _short(exc.message))}"
        raise UserError(msg) from exc
    empty: Registry[Any] = Registry()  # nothing is ever fetched
    resolver = empty.with_resource(
        "", Resource[Any].from_contents(schema, default_specification=DRAFT202012)
    ).resolver()
    for part in subschemas(schema):
        for ref in (part.get("$ref"), part.get("$dynamicRef")):
            try:
                if isinstance(ref, str):
                    resolver.lookup(ref)
            except Unresolvable as exc:
                msg = f"{owner}: parameters refers to {ref!r}, which is not in it; only what is inside can be used"
                raise UserError(msg) from exc
    validator = kind(schema, registry=empty)

    def problems_of(args: JsonObject) -> list[str]:
        found = sorted(validator.iter_errors(args), key=lambda e: [str(p) for p in e.absolute_path])
        return _bounded([_located(e.absolute_path, _short(e.message)) for e in found])

    return problems_of


# --- what both need


def _located(path: Iterable[str | int], text: str) -> str:
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).removeprefix(".")
    return f"{where}: {text}" if where else text


def _bounded(problems: list[str]) -> list[str]:
    more = len(problems) - _SHOWN_PROBLEMS
    return [*problems[:_SHOWN_PROBLEMS], f"... and {more} more"] if more > 0 else problems


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
