"""The strict dialect of OpenAI: what is said in it, what cannot be, and that what comes back fits what was meant."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, RootModel
from strict_servers.openai_schema_rules import NAME, strict_problems

from mastra_py import ToolContext, tool
from mastra_py._output import output_type
from mastra_py._schema_walk import without_nulls
from mastra_py.models._openai_schema import strict_schema

NULL = {"type": "null"}
TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


class Inner(BaseModel):
    label: str
    weight: float = 1.0


class Cat(BaseModel):
    name: str = "Tom"
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    tricks: list[str]
    kind: Literal["dog"]


class Job(BaseModel):
    inner: Inner = Field(description="The core.")
    note: str | None = None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    many: list[Inner] = []


class Tree(BaseModel):
    value: int = 0
    children: list[Tree] = []


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def of(**properties: Any) -> dict[str, Any]:
    """A schema as pydantic writes it, with every key required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def strict(schema: Any) -> dict[str, Any]:
    """The schema in the dialect, which the rules have nothing against."""
    before = copy.deepcopy(schema)
    found = strict_schema(schema)
    assert found is not None
    assert strict_problems(found) == []
    assert schema == before
    assert strict_schema(found) == found
    return found


def part(schema: Any) -> Any:
    """What becomes of a schema in the place of a required value."""
    return strict(of(x=schema))["properties"]["x"]


def optional(schema: Any) -> Any:
    """What becomes of a schema in the place of an optional value."""
    return strict({"type": "object", "properties": {"x": schema}})["properties"]["x"]


def output(kind: Any) -> dict[str, Any]:
    return dict(output_type(kind, "test").format.schema)


# --- the case from the field


def test_a36_a_nested_tool_argument_is_strict_at_every_level() -> None:
    @tool
    def plan(job: Job) -> str:
        """Plan it."""
        return job.model_dump_json()

    inner = {
        **closed(label=TEXT, weight={"anyOf": [{"type": "number"}, NULL], "description": "(default: 1.0)"}),
    }
    cat = closed(
        kind={"type": "string", "const": "cat"},
        name={"anyOf": [TEXT, NULL], "description": '(default: "Tom")'},
    )
    dog = closed(kind={"type": "string", "const": "dog"}, tricks={"type": "array", "items": TEXT})
    ref = {"$ref": "#/$defs/Inner"}
    job = closed(
        inner={"anyOf": [ref], "description": "The core."},
        note={"anyOf": [TEXT, NULL]},
        pet={"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]},
        many={"anyOf": [{"type": "array", "items": ref}, NULL], "description": "(default: [])"},
    )
    assert strict(plan.parameters) == {
        **closed(job={"$ref": "#/$defs/Job"}),
        "$defs": {"Job": job, "Inner": inner, "Cat": cat, "Dog": dog},
    }


A36_REPLY = {
    "inner": {"label": "a", "weight": None},
    "note": None,
    "pet": {"kind": "cat", "name": None},
    "many": [{"label": "b", "weight": None}, {"label": "c", "weight": 2.0}],
}
A36_VALUE = Job(inner=Inner(label="a"), pet=Cat(), many=[Inner(label="b"), Inner(label="c", weight=2.0)])


async def test_a36_defaults_are_applied_where_the_model_sends_null_to_a_tool() -> None:
    seen: list[Job] = []

    @tool
    def plan(job: Job) -> str:
        """Plan it."""
        seen.append(job)
        return "done"

    Draft202012Validator(strict(plan.parameters)).validate({"job": A36_REPLY})
    await plan.invoke({"job": A36_REPLY}, ToolContext(tool_call_id="c", tool_name="plan"))
    assert seen == [A36_VALUE]


def test_a36_defaults_are_applied_where_the_model_sends_null_in_a_reply() -> None:
    Draft202012Validator(strict(output(Job))).validate(A36_REPLY)
    assert output_type(Job, "test").read(json.dumps(A36_REPLY)) == A36_VALUE


# --- the table of forms


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (TEXT, TEXT),
        ({"type": "string", "title": "X", "description": "d"}, {"type": "string", "description": "d"}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "string", "format": "uri"}, {"type": "string", "description": '(format: "uri")'}),
        ({"type": "string", "pattern": "^@[a-z]+$"}, {"type": "string", "pattern": "^@[a-z]+$"}),
        ({"type": "string", "pattern": "^(?!x)"}, {"type": "string", "description": '(pattern: "^(?!x)")'}),
        ({"type": "string", "pattern": r"\p{Lu}"}, {"type": "string", "description": r'(pattern: "\\p{Lu}")'}),
        (
            {"type": "string", "minLength": 1, "maxLength": 9, "description": "Short."},
            {"type": "string", "description": "Short. (minLength: 1, maxLength: 9)"},
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "maximum": 5, "multipleOf": 0.5},
            {"type": "number", "multipleOf": 0.5, "maximum": 5, "exclusiveMinimum": 0},
        ),
        (
            {"type": "array", "items": WHOLE, "minItems": 1, "maxItems": 3, "uniqueItems": True},
            {"type": "array", "items": WHOLE, "minItems": 1, "maxItems": 3, "description": "(uniqueItems: true)"},
        ),
        ({"type": ["string", "null"], "maxLength": 3}, {"anyOf": [TEXT, NULL], "description": "(maxLength: 3)"}),
        ({"type": ["integer", "null"], "minimum": 3}, {"anyOf": [{**WHOLE, "minimum": 3}, NULL]}),
        ({"const": 3}, {"type": "integer", "const": 3}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"enum": ["a", 1, None]}, {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
        ({"enum": [1, 2.5]}, {"type": "number", "enum": [1, 2.5]}),
        ({"type": "string", "enum": ["a", 1]}, {"type": "string", "const": "a"}),
        ({"enum": [True, False]}, {"type": "boolean", "enum": [True, False]}),
        ({"const": "a", "enum": ["a", "b"]}, {"type": "string", "const": "a"}),
        ({"allOf": [TEXT], "description": "d"}, {"type": "string", "description": "d"}),
        ({"allOf": [{**TEXT, "description": "in"}], "description": "out"}, {**TEXT, "description": "out in"}),
        ({"anyOf": [TEXT, WHOLE]}, {"anyOf": [TEXT, WHOLE]}),
        ({"oneOf": [TEXT, NULL]}, {"anyOf": [TEXT, NULL]}),
        (
            {"oneOf": [{"const": "a", "description": "A."}, {"const": "b"}]},
            {"anyOf": [{"type": "string", "const": "a", "description": "A."}, {"type": "string", "const": "b"}]},
        ),
        (
            {"oneOf": [{**of(a=TEXT), "additionalProperties": False}, of(b=TEXT)]},
            {"anyOf": [closed(a=TEXT), closed(b=TEXT)]},
        ),
        (of(y=TEXT), closed(y=TEXT)),
        ({"properties": {"y": TEXT}, "required": ["y"]}, closed(y=TEXT)),
        ({"type": "object", "properties": {}, "additionalProperties": False}, closed()),
        ({"type": "string", "nullable": True}, TEXT),
    ],
)
def test_what_can_be_said_is_said(schema: Any, said: Any) -> None:
    assert part(schema) == said


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (TEXT, {"anyOf": [TEXT, NULL]}),
        ({"anyOf": [TEXT, NULL]}, {"anyOf": [TEXT, NULL]}),
        ({"anyOf": [TEXT, WHOLE]}, {"anyOf": [TEXT, WHOLE, NULL]}),
        ({"enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": ["string", "null"]}, {"anyOf": [TEXT, NULL]}),
        (NULL, NULL),
        (
            {"type": "integer", "default": 3, "description": "How many."},
            {"anyOf": [WHOLE, NULL], "description": "How many. (default: 3)"},
        ),
        ({"const": "a", "default": "a"}, {"type": "string", "const": "a"}),
        ({"const": True}, {"anyOf": [{"type": "boolean", "const": True}, NULL]}),
    ],
)
def test_an_optional_value_may_be_null_unless_it_can_only_be_its_default(schema: Any, said: Any) -> None:
    assert optional(schema) == said


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        False,
        {"description": "anything"},
        {"type": "object"},
        {"type": "object", "additionalProperties": TEXT},
        {**of(a=TEXT), "additionalProperties": True},
        {"type": "object", "properties": {"a": TEXT}, "required": ["b"]},
        {"type": "object", "properties": {"a": TEXT}, "patternProperties": {"^x": TEXT}},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": "array", "prefixItems": [TEXT, WHOLE]},
        {"type": "array", "items": [TEXT, WHOLE]},
        {"enum": []},
        {"const": {"a": 1}},
        {"type": "string", "enum": [1]},
        {"const": "c", "enum": ["a", "b"]},
        {"type": "nonsense"},
        {"not": TEXT},
        {"if": TEXT, "then": {"minLength": 3}},
        {"allOf": [of(a=TEXT), of(b=TEXT)]},
        {"allOf": [{"additionalProperties": False}], "properties": {"a": TEXT}},
        {"anyOf": [TEXT, {}]},
        {"anyOf": [of(a=TEXT), of(b=TEXT)], "properties": {"c": TEXT}},
        {"anyOf": [TEXT], "oneOf": [TEXT]},
        {"anyOf": [TEXT, WHOLE], "type": "string"},
        {"oneOf": [WHOLE, {"type": "number"}]},
        {"oneOf": [of(a=TEXT), of(b=TEXT)]},
        {"oneOf": [of(a=TEXT), {"properties": {"a": WHOLE}}]},
        {"oneOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]},
        {"$ref": "#/$defs/none"},
        {"$ref": "https://example.org/a.json"},
        {"$ref": "#/properties/x"},
    ],
)
def test_what_cannot_be_said_strictly_is_not_said(schema: Any) -> None:
    assert strict_schema(of(x=schema)) is None
    assert strict_schema(of(y=of(x=schema))) is None
    assert strict_schema(of(y={"type": "array", "items": schema})) is None


@pytest.mark.parametrize(
    "schema",
    [
        TEXT,
        {"type": "array", "items": TEXT},
        {"anyOf": [of(a=TEXT), of(b=TEXT)]},
        {"type": "object", "properties": {}, "allOf": [of(a=TEXT)]},
        {"type": ["object", "null"], "properties": {"a": TEXT}},
        {"$ref": "#"},
    ],
)
def test_a_root_that_is_no_plain_object_is_not_said(schema: Any) -> None:
    assert strict_schema(schema) is None


# --- references


def test_a_root_that_is_a_reference_is_what_it_refers_to_and_may_refer_to_itself() -> None:
    children = {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, NULL], "description": "(default: [])"}
    value = {"anyOf": [WHOLE, NULL], "description": "(default: 0)"}
    assert strict(Tree.model_json_schema()) == closed(value=value, children=children)


def test_a_recursive_definition_below_the_root_refers_to_itself() -> None:
    found = strict(
        of(tree={"$ref": "#/$defs/T"})
        | {
            "$defs": {
                "T": of(kids={"$ref": "#/$defs/L"}),
                "L": {"type": "array", "items": {"$ref": "#/$defs/T", "description": "a child"}},
            }
        }
    )
    assert found["$defs"]["L"]["items"] == {"anyOf": [{"$ref": "#/$defs/T"}], "description": "a child"}


def test_a_reference_to_elsewhere_becomes_a_definition() -> None:
    day = {"type": "integer", "minimum": 1}
    found = strict(
        {
            **of(a=of(day=day), b={"$ref": "#/properties/a/properties/day"}, c={"$ref": "#d"}),
            "definitions": {"A day": {**TEXT, "$anchor": "d"}},
        }
    )
    assert found["properties"]["b"] == {"$ref": "#/$defs/day"}
    assert found["$defs"] == {"day": day, "d": TEXT} or found["$defs"] == {"day": day, "_d": TEXT}


def test_definitions_get_names_that_every_server_takes_and_that_are_apart() -> None:
    schema = of(a={"$ref": "#/$defs/My%20T"}, b={"$ref": "#/definitions/My%20T"}, c={"$ref": "#/$defs/Box[int]"})
    schema |= {"$defs": {"My T": TEXT, "Box[int]": of(y=WHOLE)}, "definitions": {"My T": WHOLE}}
    found = strict(schema)
    assert all(NAME.fullmatch(name) for name in found["$defs"])
    assert [found["$defs"][p["$ref"].removeprefix("#/$defs/")] for p in found["properties"].values()] == [
        TEXT,
        WHOLE,
        closed(y=WHOLE),
    ]


@pytest.mark.parametrize(
    "definitions",
    [
        {"A": {"$ref": "#/$defs/A"}},
        {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
        {"A": {"anyOf": [TEXT, {"$ref": "#/$defs/A"}]}},
    ],
)
def test_a_definition_that_is_nothing_but_itself_is_not_said(definitions: Any) -> None:
    assert strict_schema({**of(x={"$ref": "#/$defs/A"}), "$defs": definitions}) is None


# --- limits


def nested(levels: int) -> dict[str, Any]:
    return of(x=nested(levels - 1)) if levels > 1 else of(x=TEXT)


@pytest.mark.parametrize(
    ("fits", "too_much"),
    [
        (nested(10), nested(11)),
        (
            {**nested(9), "$defs": {}},
            {**of(a={"$ref": "#/$defs/D"}), "$defs": {"D": nested(10)}},
        ),
        (of(**{f"p{n}": WHOLE for n in range(5000)}), of(**{f"p{n}": WHOLE for n in range(5001)})),
        (of(x={"enum": list(range(1000))}), of(x={"enum": list(range(1001))})),
        (of(**{"x" * 120_000: TEXT}), of(**{"x" * 120_001: TEXT})),
        (
            of(x={"enum": [f"{n:060}" for n in range(250)]}),
            of(x={"enum": [f"{n:060}" for n in range(251)]}),
        ),
    ],
)
def test_a_schema_beyond_the_providers_limits_is_not_said(fits: Any, too_much: Any) -> None:
    strict(fits)
    assert strict_schema(too_much) is None


# --- what pydantic writes


class Generic(RootModel[Inner]):
    pass


class Extras(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


@pytest.mark.parametrize("kind", [Job, Tree, Generic, int, list[Inner], Inner | Cat, Colour, Decimal, str | None])
def test_what_pydantic_makes_of_types_can_be_said(kind: Any) -> None:
    strict(output(kind))


@pytest.mark.parametrize("kind", [dict[str, int], Extras, Any, tuple[int, str], list[dict[str, Any]]])
def test_types_with_free_keys_or_any_value_cannot_be_said(kind: Any) -> None:
    assert strict_schema(output(kind)) is None


@pytest.mark.parametrize("title", ["", "A b", "Box[int]", "x" * 100, "ä", "___"])
def test_the_name_of_a_schema_is_one_that_the_provider_takes(title: str) -> None:
    assert NAME.fullmatch(output_type({**of(a=TEXT), "title": title}, "test").format.name)


# --- the property: whatever the schema, what comes back is what was meant

LEAVES: list[Any] = [
    TEXT,
    WHOLE,
    {"type": "number"},
    {"type": "boolean"},
    {"type": "string", "format": "date"},
    {"anyOf": [TEXT, NULL]},
    {"type": ["integer", "null"]},
    {"enum": ["red", "blue"]},
    {"enum": [1, None]},
    {"const": "k"},
    {"const": 1, "default": 1},
    {"allOf": [TEXT], "description": "d"},
]
BEYOND: list[Any] = [{}, True, {"type": "object"}, {"type": "array"}, {"not": TEXT}, {"oneOf": [TEXT, TEXT]}]
NOTES: list[dict[str, Any]] = [{}, {"default": None}, {"default": "x"}, {"title": "T", "description": "D"}]


@dataclass
class Writer:
    """Writes schemas as pydantic would: ``leaves`` are what every nesting ends in."""

    draw: Callable[[Any], Any]
    leaves: list[Any]

    def part(self, depth: int) -> Any:
        forms = ["leaf", "leaf", "object", "list", "union", "tagged"] if depth < 2 else ["leaf"]
        match self.draw(st.sampled_from(forms)):
            case "object":
                return self.object(depth)
            case "list":
                return {"type": "array", "items": self.part(depth + 1)}
            case "union":
                return {"anyOf": [self.part(depth + 1) for _ in range(self.draw(st.integers(1, 3)))]}
            case "tagged":
                return {"oneOf": [self.tagged(depth, number) for number in range(self.draw(st.integers(2, 3)))]}
            case _:
                return self.draw(st.sampled_from(self.leaves))

    def object(self, depth: int) -> dict[str, Any]:
        properties = {name: self.part(depth + 1) for name in "abcd"[: self.draw(st.integers(1, 4))]}
        return {
            "type": "object",
            "properties": {
                name: {**self.draw(st.sampled_from(NOTES)), **part} if isinstance(part, dict) else part
                for name, part in properties.items()
            },
            "required": [name for name in properties if self.draw(st.booleans())],
            **self.draw(st.sampled_from([{}, {"additionalProperties": False}])),
        }

    def tagged(self, depth: int, number: int) -> dict[str, Any]:
        """A branch of a tagged union: its tag is required, or its default is all that it can be."""
        found = self.object(depth)
        tag = {"const": f"t{number}", "type": "string"}
        found["properties"]["kind"] = {**tag, "default": f"t{number}"} if number % 2 else tag
        found["required"] += [] if number % 2 else ["kind"]
        return found


@st.composite
def schemas(draw: Any, *, beyond: bool = False) -> dict[str, Any]:
    """A schema whose definitions refer to later ones anywhere, and to any one where a value can still end."""
    count = draw(st.integers(0, 3))
    more = BEYOND if beyond else []
    refs: list[Any] = [{"$ref": f"#/$defs/D{number}"} for number in range(count)]
    ending = [{"type": "array", "items": ref} for ref in refs] + [{"anyOf": [ref, NULL]} for ref in refs]
    definitions: dict[str, Any] = {}
    for number in range(count):
        later = refs[number + 1 :]
        leaves = [*LEAVES, *more, *ending, *later, *({**ref, "description": "r"} for ref in later)]
        definitions[f"D{number}"] = Writer(draw, leaves).object(1)
    return {**Writer(draw, [*LEAVES, *more, *ending, *refs * 3]).object(0), "$defs": definitions}


def instance(draw: Callable[[Any], Any], schema: Any, root: Any, depth: int = 0) -> Any:
    """Draw a value of a strict schema; deep down the shortest one."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return instance(draw, root if name == "#" else root["$defs"][name], root, depth + 1)
    if "anyOf" in schema:
        if depth > 4 and NULL in schema["anyOf"]:
            return None
        return instance(draw, draw(st.sampled_from(schema["anyOf"])), root, depth + 1)
    if "enum" in schema or "const" in schema:
        return draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
    match schema["type"]:
        case "object":
            return {key: instance(draw, inner, root, depth + 1) for key, inner in schema["properties"].items()}
        case "array":
            length = draw(st.integers(0, 2)) if depth < 5 else 0
            return [instance(draw, schema["items"], root, depth + 1) for _ in range(length)]
        case kind:
            values = {
                "string": ["", "k", "red"],
                "integer": [0, 1],
                "number": [1, 0.5],
                "boolean": [True],
                "null": [None],
            }
            return draw(st.sampled_from(values[kind]))


@given(schemas(beyond=True))
def test_any_schema_is_said_strictly_or_not_at_all(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    if strict_schema(schema) is not None:
        strict(schema)


@given(schemas(), st.data())
def test_whatever_fits_the_strict_schema_fits_its_source_without_the_nulls(
    schema: dict[str, Any], data: st.DataObject
) -> None:
    found = strict(schema)
    value = instance(data.draw, found, found)
    Draft202012Validator(found).validate(value)
    before = copy.deepcopy(value)
    meant = without_nulls(value, schema)
    assert value == before
    Draft202012Validator(schema).validate(meant)
