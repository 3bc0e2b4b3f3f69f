from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
from anthropic import transform_schema
from pydantic import BaseModel, ConfigDict, Field, RootModel, TypeAdapter

from mastra_py._output import output_type
from mastra_py.models._anthropic_schema import closed_schema


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    city: str
    population: int | None = None


class Trip(BaseModel):
    """A journey."""

    start: Place
    stops: list[Place] = []
    on: date
    colour: Colour
    kind: Literal["train", "boat"] = "train"
    rating: float = Field(ge=0, le=5, description="How good it is")


class Tree(BaseModel):
    children: list[Tree]


class Extras(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Wrapped(RootModel[Place]):
    pass


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def schema_of(output: Any) -> Any:
    return closed_schema(output_type(output, "test").format.schema)


def test_a_models_schema_is_closed_all_the_way_down() -> None:
    place = {
        **closed(city={"type": "string"}, population={"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        "required": ["city"],
    }
    ref = {"$ref": "#/$defs/Place"}
    assert schema_of(Trip) == {
        **closed(
            start=ref,
            stops={"type": "array", "items": ref},
            on={"type": "string", "format": "date"},
            colour={"$ref": "#/$defs/Colour"},
            kind={"enum": ["train", "boat"]},
            rating={"type": "number", "description": "How good it is (maximum: 5, minimum: 0)"},
        ),
        "required": ["start", "on", "colour", "rating"],
        "description": "A journey.",
        "$defs": {"Place": place, "Colour": {"enum": ["red", "blue"]}},
    }


@pytest.mark.parametrize("output", [Trip, Place, Wrapped, int, list[Place], Place | Trip])
def test_what_is_sent_is_what_the_sdk_would_leave_as_it_is(output: Any) -> None:
    """The SDK's own translation is the word on what the API takes."""
    found = schema_of(output)
    assert transform_schema(found) == found


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string", "minLength": 2}, {"type": "string", "description": "(minLength: 2)"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "format": "isbn"}, {"type": "string", "description": '(format: "isbn")'}),
        (
            {"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 3},
            {"type": "array", "items": {"type": "null"}, "minItems": 1, "description": "(maxItems: 3)"},
        ),
        (
            {"type": "array", "items": {"type": "null"}, "minItems": 2},
            {"type": "array", "items": {"type": "null"}, "description": "(minItems: 2)"},
        ),
        ({"const": 5, "title": "Five", "default": 5}, {"enum": [5]}),
        ({"oneOf": [{"type": "null"}, {"const": "x"}]}, {"anyOf": [{"type": "null"}, {"enum": ["x"]}]}),
        ({"type": ["number", "null"]}, {"anyOf": [{"type": "number"}, {"type": "null"}]}),
        ({"properties": {"a": {"type": "boolean"}}}, closed(a={"type": "boolean"})),
        ({"type": "object", "additionalProperties": False}, closed()),
        ({"type": "string", "default": "x", "description": "A text."}, {"type": "string", "description": "A text."}),
    ],
)
def test_limits_are_told_and_shapes_kept(schema: dict[str, Any], said: dict[str, Any]) -> None:
    found = closed_schema({"type": "object", "properties": {"a": schema}, "required": ["a"]})
    assert found == {**closed(a=said), "required": ["a"]}


def test_definitions_may_have_their_old_name() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/A", "description": "dropped: a reference stands alone"}},
        "definitions": {"A": {"type": "string"}, "unused": {"type": "object"}},
    }
    assert closed_schema(schema) == {**closed(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"type": "string"}}}


@pytest.mark.parametrize(
    "schema",
    [
        *(TypeAdapter(kind).json_schema() for kind in (dict[str, int], Tree, Extras, Any, list[Any], tuple[int, str])),
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]},
        {"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": False},
        {"type": "array"},
        {"type": "array", "items": True},
        {"enum": []},
        {"enum": [{"a": 1}]},
        {"allOf": [{"type": "string"}]},
        {"not": {"type": "string"}},
        {"anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}},
        {"$ref": "#/$defs/missing"},
        {"$ref": "https://elsewhere/schema"},
        {"$ref": "#"},
    ],
)
def test_a_shape_that_cannot_be_said_is_none(schema: dict[str, Any]) -> None:
    assert closed_schema({"type": "object", "properties": {"a": schema}, "$defs": schema.get("$defs", {})}) is None


def test_the_schema_that_is_given_stays_as_it_is() -> None:
    schema = TypeAdapter(Trip).json_schema()
    closed_schema(schema)
    assert schema == TypeAdapter(Trip).json_schema()
