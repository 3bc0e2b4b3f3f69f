"""Cases from the field: the schemas and the names of tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from support.http_server import HTTPServer
from support.wire_field import calls, model_at, read_run, says

from mastra_py import Agent, Tool, UserError
from mastra_py.models import ModelProfile
from mastra_py.testing import ScriptedModel

DONE = says("All done.")
GO = {"type": "object", "properties": {}}


class Weighed(BaseModel):
    label: str
    weight: float = 1.0


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


class Order(BaseModel):
    item: Weighed
    note: str | None = None
    shape: Annotated[Circle | Square, Field(discriminator="kind")]
    more: list[Weighed] = []


ORDER = {"item": {"label": "x", "weight": None}, "note": None, "shape": {"kind": "square", "side": 2}, "more": None}


async def test_a36_a_strict_schema_is_strict_at_every_level_and_a_null_means_the_default() -> None:
    got: list[Order] = []

    def place(order: Order) -> str:
        got.append(order)
        return "ok"

    async with HTTPServer(calls(("c1", "place", {"order": ORDER})), DONE) as server:
        model = model_at(server, profile=ModelProfile(strict=True))
        ran = await read_run(Agent(id="a", model=model, tools=[place]), seen=server.requests)
    assert ran.final.text == "All done."
    (function,) = [sent["function"] for sent in ran.requests[0]["tools"]]
    assert function.get("strict") is True
    objects = list(objects_in(function["parameters"]))
    assert len(objects) >= 5, "the arguments, the order, what is weighed, and the two shapes"
    for schema in objects:
        assert schema["additionalProperties"] is False
        assert sorted(schema["required"]) == sorted(schema["properties"])
    assert [(order.item.weight, order.note, order.more, order.shape.kind) for order in got] == [
        (1.0, None, [], "square")
    ]


def objects_in(schema: Any) -> Any:
    if isinstance(schema, dict):
        if "properties" in schema and isinstance(schema["properties"], dict):
            yield schema
        for value in schema.values():
            yield from objects_in(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from objects_in(item)


async def test_a36_a_schema_that_cannot_be_made_strict_is_sent_as_not_strict() -> None:
    def store(by_name: dict[str, int]) -> str:
        return "ok"

    async with HTTPServer(calls(("c1", "store", {"by_name": {"a": 1}})), DONE) as server:
        model = model_at(server, profile=ModelProfile(strict=True))
        ran = await read_run(Agent(id="a", model=model, tools=[store]), seen=server.requests)
    (function,) = [sent["function"] for sent in ran.requests[0]["tools"]]
    assert not function.get("strict")
    assert [part.result for part in ran.results] == ["ok"]


@pytest.mark.parametrize("name", ["Research: EU law", "a.b", "größe", "x" * 65, ""])
def test_a37_a_bad_tool_name_fails_at_construction_and_is_named(name: str) -> None:
    with pytest.raises(UserError) as caught:
        Tool(name=name, parameters=GO, run=lambda **_: "ok")
    assert repr(name) in str(caught.value)


def test_a37_two_tools_of_one_name_fail_before_anything_is_sent_and_are_named() -> None:
    model = ScriptedModel([])
    twice = [Tool(name="look_up", parameters=GO, run=lambda **_: "ok") for _ in range(2)]
    with pytest.raises(UserError, match="look_up"):
        Agent(id="a", model=model, tools=twice)
    assert model.calls == 0
