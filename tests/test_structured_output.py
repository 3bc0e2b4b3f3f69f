"""Structured output: the answer in a type, re-asked once, read while it comes."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from support.streams import read_all, read_failing

from mastra_py import Agent, OutputValidationError, ScorerRun, StreamErrorRetryProcessor, UserError, tool
from mastra_py._output import ReadSchema, output_type
from mastra_py._reply_json import Unusable, read_json_reply, refuse_contradictions
from mastra_py.events import OutputSuperseded
from mastra_py.models.profile import ModelProfile
from mastra_py.testing import ScriptedModel, Turn, api_error


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


OSLO = '{"name": "Oslo", "people": 700000}'


@dataclass
class Point:
    x: int
    y: int


class Colour(enum.Enum):
    RED = "red"


def agent(*turns: Any, native: bool = True, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(turns, profile=ModelProfile(native_output=native))
    return Agent(id="a", model=model, **options), model


async def test_the_answer_comes_validated_and_the_model_is_asked_natively() -> None:
    writer, model = agent(OSLO)
    _, result = await read_all(writer, output=City)
    assert result.output == City(name="Oslo", people=700000)
    assert result.text == OSLO
    (request,) = model.requests
    assert request.output is not None
    assert request.output.name == "City"
    assert request.output.schema["required"] == ["name", "people"]
    assert [m.text for m in request.messages] == ["go"]


async def test_a_model_without_native_output_is_told_the_form_in_the_user_prompt() -> None:
    writer, model = agent(OSLO, native=False)
    _, result = await read_all(writer, output=City)
    assert result.output == City(name="Oslo", people=700000)
    (request,) = model.requests
    assert request.output is None
    told = request.messages[-1]
    assert [p.type for p in told.parts] == ["text", "text"]
    assert '"people"' in told.text
    assert [m.text for m in result.messages] == ["go", OSLO], "the words are part of the request, not of the history"


@pytest.mark.parametrize(
    ("output", "reply", "value"),
    [
        (list[int], '{"result": [1, 2]}', [1, 2]),
        (list[int], "[1, 2]", [1, 2]),
        (int, '{"result": 3}', 3),
        (Point, '{"x": 1, "y": 2}', Point(1, 2)),
        (TypeAdapter(list[City]), f'{{"result": [{OSLO}]}}', [City(name="Oslo", people=700000)]),
        (Colour, '{"result": "red"}', Colour.RED),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, '{"a": 1}', {"a": 1}),
        ({"type": "integer"}, '{"result": 5}', 5),
    ],
)
async def test_types_adapters_and_json_schemas_are_understood(output: Any, reply: str, value: Any) -> None:
    writer, model = agent(reply)
    _, result = await read_all(writer, output=output)
    assert result.output == value
    assert model.requests[0].output is not None
    assert model.requests[0].output.schema["type"] == "object" or "$ref" in model.requests[0].output.schema


async def test_none_stands_for_an_output_that_is_not_given() -> None:
    writer, _ = agent("plain")
    assert (await writer.generate("go", output=None)).output == "plain"  # type: ignore[arg-type]


async def test_an_unusable_answer_is_re_asked_once_within_its_step_and_leaves_no_trace() -> None:
    writer, model = agent('{"name": "Oslo"}', OSLO)
    events, result = await read_all(writer, output=City)
    assert result.output == City(name="Oslo", people=700000)
    assert (len(result.steps), result.steps[0].attempts, result.usage.requests) == (1, 2, 2)
    again = model.requests[1].messages
    assert [m.role for m in again] == ["user", "assistant", "user"]
    assert "people" in again[-1].text
    # A server may take a schema and pay no heed to it: the second time the form is told in words, too.
    assert "JSON Schema" in again[-1].text
    assert [m.text for m in result.messages] == ["go", OSLO]
    (taken,) = [e for e in events if isinstance(e, OutputSuperseded)]
    assert (taken.step, taken.attempt, taken.cause) == (1, 1, "rejected")


async def test_a_second_unusable_answer_fails_the_run_with_what_was_said() -> None:
    writer, model = agent("no json", "still none")
    _, error = await read_failing(writer, output=City)
    assert isinstance(error, OutputValidationError)
    assert (error.text, model.calls) == ("still none", 2)


async def test_a_reply_that_does_not_validate_never_reaches_the_error_processors() -> None:
    asked: list[object] = []

    class Greedy:
        id = "greedy"

        async def process_api_error(self, ctx: object, /) -> None:
            asked.append(ctx)

    writer, _ = agent("no json", "still none", error_processors=[Greedy()])
    await read_failing(writer, output=City)
    assert asked == []


async def test_a_provider_failure_inside_the_re_ask_is_retried() -> None:
    writer, model = agent("no json", Turn(error=api_error(500)), OSLO, error_processors=[StreamErrorRetryProcessor()])
    _, result = await read_all(writer, output=City)
    assert (result.output, model.calls) == (City(name="Oslo", people=700000), 3)


async def test_scorers_see_the_validated_value_and_never_an_unusable_draft() -> None:
    seen: list[Any] = []

    def scorer(run: ScorerRun) -> bool:
        seen.append((run.input.value, run.output))
        return run.input.value.people > 5

    small = '{"name": "Vik", "people": 3}'
    writer, _ = agent("no json", small, OSLO)
    _, result = await read_all(writer, output=City, is_task_complete=scorer)
    assert [v.name for v, _ in seen] == ["Vik", "Oslo"]
    assert (result.stop_reason, result.output) == ("complete", City(name="Oslo", people=700000))


async def test_tools_run_before_the_typed_answer() -> None:
    @tool
    def lookup() -> int:
        return 700000

    writer, _ = agent(Turn(tool_calls=[("c", "lookup", {})]), OSLO, tools=[lookup])
    _, result = await read_all(writer, output=City)
    assert result.output == City(name="Oslo", people=700000)


async def test_a_run_that_ends_without_an_answer_has_no_output() -> None:
    writer, _ = agent(Turn(text='{"name": "Os', finish_reason="length"))
    _, result = await read_all(writer, output=City)
    assert (result.stop_reason, result.output) == ("length", None)


async def test_text_deltas_hold_an_answer_back_until_it_fits() -> None:
    writer, _ = agent("no json", OSLO)
    async with writer.stream("go", output=City) as stream:
        assert "".join([text async for text in stream.text_deltas()]) == OSLO


async def test_partial_outputs_grow_and_end_with_the_whole() -> None:
    writer, _ = agent(Turn(text_chunks=list(OSLO)))
    async with writer.stream("go", output=City) as stream:
        seen = [value async for value in stream.partial_outputs()]
        result = await stream.result()
    assert seen[-1] == {"name": "Oslo", "people": 700000}
    assert result.output == City(name="Oslo", people=700000)


async def test_partial_outputs_start_anew_where_an_answer_is_taken_back() -> None:
    writer, _ = agent('{"name": "Oslo"}', OSLO)
    async with writer.stream("go", output=City) as stream:
        seen = [value async for value in stream.partial_outputs()]
    assert seen == [{"name": "Oslo"}, {"name": "Oslo", "people": 700000}]


async def test_partial_outputs_need_an_output_type() -> None:
    writer, _ = agent("x")
    async with writer.stream("go") as stream:
        with pytest.raises(UserError, match="output="):
            stream.partial_outputs()


def test_an_output_that_is_no_type_is_refused_by_the_call() -> None:
    writer, _ = agent("x")
    with pytest.raises(UserError, match="output must be a type"):
        writer.stream("go", output=lambda: 3)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no valid JSON Schema"):
        writer.stream("go", output={"type": "number or so"})


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('  \n{"a": 1}\n', {"a": 1}),
        ('Sure!\n```json\n{"a": 1}\n```\nBye', {"a": 1}),
        ('first {"a": 1} then {"a": 2} end', {"a": 2}),
        ('{"a": {"b": 1}} and {broken', {"a": {"b": 1}}),
        ('a set {x} and {"a": 1}', {"a": 1}),
        ('text with } and { and {"a": "}{"}', {"a": "}{"}),
        ('Here: {"a": [1, 2], "b": [[], {}]} it is', {"a": [1, 2], "b": [[], {}]}),
        (r'so {"a": "x\"}y"} end', {"a": 'x"}y'}),
        ('so {"a": "", "b": "}"} end', {"a": "", "b": "}"}),
        ('no {"a": "x\\\n"} but {"a": 1}', {"a": 1}),
        ('so {\n  "a" : 1} end', {"a": 1}),
        ('so {"" : 1} end', {"": 1}),
        ('see [1]: {"a": 1} [sic]', {"a": 1}),
        ('{"a": 1} but {"b" or so}', {"a": 1}),
        ("{\"a\": 1} but {'b' or so}", {"a": 1}),
        ('{"a": 1} but {: x}', {"a": 1}),
        ("so {} end", {}),
        ("so { } end", {}),
        ("[1]", [1]),
        ("3", 3),
    ],
)
def test_the_whole_reply_counts_and_else_its_last_top_level_object(reply: str, value: Any) -> None:
    assert read_json_reply(reply)[0] == value


@pytest.mark.parametrize(
    "reply", ["", "  ", "no json", "{", '{"a": {"b": 1}', '{"a": NaN}', '{"a": Infinity}', "{" * 100_000]
)
def test_no_json_no_value(reply: str) -> None:
    with pytest.raises(Unusable):
        read_json_reply(reply)


A_LIST = "its last JSON value is a list, not an object"
BROKEN = "its last JSON object is cut off or broken"


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (" \n ", "it is empty"),
        ("no json", "there is no JSON object in it"),
        ('Scores: [{"a": 0}, {"a": 1}] and so on', A_LIST),
        ('Scores: [ [\n{"a": 0}]] and so on', A_LIST),
        ('Scores: [  {"a": 0}, {"a": 1}] and so on', A_LIST),
        ('Scores: [[{"a": 0}], {"a": 1}] and so on', A_LIST),
        ('{"a": 1} and {"b"  : 1,}', BROKEN),
        ("{\"a\": 1} and {'b'  : 1}", BROKEN),
        ('{"a": 1} and {b  : 1}', BROKEN),
        ('{"a": 1} and {"bcd', BROKEN),
        (r'{"a": 1} and {"b\"c": 1,}', BROKEN),
        ('{"a": 1} and [{"a": 2}]', A_LIST),
        ('Scores: [{"a": 0}, {"a"', A_LIST),
        ('{"a": 1e999}', BROKEN),
        ('{"a": 1} and {"a": -1e999}', BROKEN),
        *[
            (f'{{"a": 1}} and {cut}', BROKEN)
            for cut in (
                "{ ",
                '{"',
                '{ "b',
                '{"b"',
                '{"b" ',
                "{'b",
                "{'b' ",
                "{'b' : 1}",
                "{'' : 1}",
                "{b : 1}",
                "{bcd: 1}",
            )
        ],
    ],
)
def test_a_reply_without_a_usable_object_says_what_it_has_instead(reply: str, found: str) -> None:
    with pytest.raises(Unusable) as caught:
        read_json_reply(reply)
    assert str(caught.value) == found


def test_a_lone_quote_in_the_prose_before_an_object_begins_no_string() -> None:
    assert read_json_reply('A 5" pipe: {"a": 1}')[0] == {"a": 1}


@pytest.mark.parametrize("source", ['{"a": 1, "a": 1}', '[{"a": {"b": 1}, "a": {"b": 1}}]', '{"a": 1, "b": {"a": 2}}'])
def test_a_key_may_be_given_twice_with_one_value(source: str) -> None:
    refuse_contradictions(source)


@pytest.mark.parametrize("source", ['{"a": 1, "a": 1, "a": 2}', '[{"a": {"b": 1}, "a": {"b": 2}}]'])
def test_a_key_with_two_values_is_refused_at_any_depth(source: str) -> None:
    with pytest.raises(Unusable, match="it gives 'a' two different values"):
        refuse_contradictions(source)


@given(st.text(max_size=30), st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3))
def test_prose_round_an_object_does_not_matter(prose: str, value: dict[str, Any]) -> None:
    import json

    clean = re.sub(r'[\[{"]', "(", prose)  # what begins JSON itself
    assert read_json_reply(f"{clean} {json.dumps(value)} {clean}")[0] == value


@pytest.mark.parametrize("reply", ['{"result": 8}', '{"result": "8"}', '{"result": NaN}', "[0.5]"])
def test_a_stated_range_is_checked(reply: str) -> None:
    from typing import Annotated

    output = output_type(Annotated[float, Field(ge=0, le=1)], "test")
    with pytest.raises(Unusable):
        output.read(reply)
    assert output.read('{"result": "0.8"}') == 0.8


FORGED = [
    '{"score": NaN, "best": {"score": 1}}',
    '{"best": {"score": 1}, "score": 0,}',
    '{"best": {"score": 1}, "ok": fals',
    '{"final": False, "first_thought": {"score": 1}}',
    "{'final': 0, 'first_thought': {\"score\": 1}}",
    'Scores: [{"score": 0}, {"score": 1}] and so on',
    'For example {"score": 1}. Mine: {"score": 0, "why": "it',
    'For example {"score": 1}. Mine: {"score": 0,}',
    '{"score": 0, "score": 1}',
    '{"score": "NaN"}',
    '{"score": 1e999}',
    '{"score": "1_0"}',
    '{"score": "yes"}',
    '{"score": true}',
    '{"score": ' + "9" * 5000 + "}",
    '{"a":' * 2000 + '{"score": 1}',
    '{"score": 1' + "{" * 100_000,
]


@pytest.mark.parametrize("reply", FORGED)
async def test_nothing_but_a_whole_last_object_is_a_judges_score(reply: str) -> None:
    from mastra_py import Judge, PromptStep, ScorerRunError, create_scorer

    model = ScriptedModel([reply], repeat_last=True)
    scorer = create_scorer("s", judge=Judge(model=model, instructions="Judge.")).generate_score(
        PromptStep(create_prompt=lambda ctx: "Grade.")
    )
    with pytest.raises(ScorerRunError):
        await scorer.run(output="x")
    assert model.calls == 2


class Finding(BaseModel):
    ok: bool
    score: float


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"ok": true, "score": 1}', Finding(ok=True, score=1)),
        ('{"ok": "True", "score": "0.8"}', Finding(ok=True, score=0.8)),
        ('{"ok": 0, "score": -1.5}', Finding(ok=False, score=-1.5)),
        ('{"ok": "yes", "score": 1}', None),
        ('{"ok": 2, "score": 1}', None),
        ('{"ok": true, "score": "high"}', None),
        ('{"ok": true, "score": "1e5"}', None),
        ('{"ok": true, "score": true}', None),
        ('{"ok": true, "score": 1e999}', None),
        ('{"ok": true, "ok": false, "score": 1}', None),
    ],
)
def test_only_what_is_clear_is_read_in_types_and_schemas_alike(reply: str, value: Finding | None) -> None:
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "score": {"type": "number"}},
        "required": ["ok", "score"],
    }
    typed, plain = output_type(Finding, "test"), output_type(schema, "test")
    if value is None:
        for output in (typed, plain):
            with pytest.raises(Unusable):
                output.read(reply)
    else:
        assert typed.read(reply) == value
        assert plain.read(reply) == value.model_dump()


@pytest.mark.parametrize(
    ("schema", "reply", "value"),
    [
        ({"$ref": "#/definitions/P", "definitions": {"P": {"type": "object"}}}, "{}", {}),
        ({"$ref": "#/definitions/P", "definitions": {"P": {"type": "integer"}}}, '{"result": "3"}', 3),
        ({"type": "array", "items": {"$ref": "#/$defs/P"}, "$defs": {"P": {"type": "integer"}}}, "[1]", [1]),
        ({"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}]}, '{"result": [null]}', [None]),
        ({"properties": {"result": {"type": "integer"}}, "required": ["result"]}, '{"result": 5}', {"result": 5}),
    ],
)
def test_references_of_a_schema_hold_where_it_is_wrapped(schema: dict[str, Any], reply: str, value: Any) -> None:
    from jsonschema import Draft202012Validator

    output = output_type(schema, "test")
    assert output.read(reply) == value
    told = value if not output.wrapped else {"result": value}
    Draft202012Validator(dict(output.format.schema)).validate(told)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/missing"},
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
    ],
)
def test_a_schema_whose_references_lead_nowhere_is_refused_by_the_call(schema: dict[str, Any]) -> None:
    writer, model = agent("x")
    with pytest.raises(UserError, match="no valid JSON Schema"):
        writer.stream("go", output=schema)
    assert model.calls == 0


@pytest.mark.parametrize("reason", ["length", "refusal", "content_filter"])
async def test_a_second_answer_that_is_not_whole_ends_the_run_as_what_it_is(reason: Any) -> None:
    writer, model = agent("no json", Turn(text=OSLO, finish_reason=reason))
    _, result = await read_all(writer, output=City)
    assert (result.stop_reason, result.output, model.calls) == (reason, None, 2)


# --- nulls where a strict provider makes the model write every key (A36)


class Part(BaseModel):
    label: str
    weight: float = 1.0


class Circle(BaseModel):
    kind: Literal["circle"] = "circle"
    size: int = 3


class Square(BaseModel):
    kind: Literal["square"] = "square"
    side: int = 4


class Drawing(BaseModel):
    part: Part
    shape: Circle | Square
    parts: list[Part] = []
    note: str | None = "kept"


STRICT_DRAWING = (
    '{"part": {"label": "a", "weight": null}, "shape": {"kind": "square", "side": null}, "parts": null, "note": null}'
)


async def test_a36_null_in_an_answer_counts_as_left_out_at_every_level() -> None:
    writer, model = agent(STRICT_DRAWING)
    _, result = await read_all(writer, output=Drawing)
    assert result.output == Drawing(part=Part(label="a"), shape=Square(), note=None)
    assert model.calls == 1


@pytest.mark.parametrize(
    ("kind", "reply", "value"),
    [
        (list[Part], '{"result": [{"label": "a", "weight": null}]}', [Part(label="a")]),
        (Part | None, '{"result": {"label": "a", "weight": null}}', Part(label="a")),
        (Part | None, '{"result": null}', None),
        (dict[str, Part], '{"x": {"label": "a", "weight": null}}', {"x": Part(label="a")}),
        (Part, '{"label": "a", "weight": "2"}', Part(label="a", weight=2)),
    ],
)
def test_a36_null_is_left_out_wherever_a_type_has_a_default(kind: Any, reply: str, value: Any) -> None:
    assert output_type(kind, "test").read(reply) == value


WRITTEN = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"type": ["integer", "null"]}, "c": {"type": "boolean"}},
    "required": ["a"],
    "$defs": {"A": {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}},
}


def test_a36_null_is_left_out_for_a_written_schema_too() -> None:
    output = output_type(WRITTEN, "test")
    assert output.read('{"a": {"n": null}, "b": null, "c": null}') == {"a": {}, "b": None}


@pytest.mark.parametrize("reply", ['{"a": null}', '{"a": {"m": null}}'])
def test_a36_null_for_a_required_or_unknown_key_of_an_answer_is_unusable(reply: str) -> None:
    with pytest.raises(Unusable):
        output_type(WRITTEN, "test").read(reply)


@pytest.mark.parametrize("reference", ["#word", "#/prefixItems/1", "#/$defs/a~1b%20c"])
def test_a_reference_may_be_an_anchor_or_any_pointer_into_the_schema(reference: str) -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": reference}},
        "prefixItems": [{}, {"type": "boolean"}],
        "$defs": {"a/b c": {"type": "boolean", "$anchor": "word"}},
    }
    output = output_type(schema, "test")
    assert output.read('{"x": "true"}') == {"x": True}


@pytest.mark.parametrize("reference", ["#other", "#/prefixItems/2", "#/prefixItems/x", "#/type/a"])
def test_a_reference_to_what_is_not_there_is_a_user_error(reference: str) -> None:
    schema = {"type": "object", "prefixItems": [{}, {}], "properties": {"x": {"$ref": reference}}}
    with pytest.raises(UserError, match="leads nowhere"):
        output_type(schema, "test")


# --- what is read without loss, what a schema is called, what is said of a reply that does not fit

BOOLEAN: dict[str, Any] = {"type": "boolean"}
WORD: dict[str, Any] = {"type": "string"}


@pytest.mark.parametrize(
    ("part", "given", "value"),
    [
        (BOOLEAN, '"false"', False),
        (BOOLEAN, "1", True),
        (BOOLEAN, "true", True),
        ({"type": ["boolean", "string"]}, '"true"', "true"),
        ({"type": ["boolean", "number"]}, "1", 1),
        ({"type": ["boolean", "integer"]}, "0", 0),
        ({}, '"5"', "5"),
        ({"type": "integer"}, '"3"', 3),
        ({"type": "integer"}, '"3.0"', 3),
        ({"type": "integer"}, "3.0", 3),
        ({"type": "number"}, '"3"', 3.0),
        ({"type": "number"}, "3.0", 3.0),
        ({"type": ["integer", "number"]}, "3.0", 3.0),
        ({"anyOf": [{"enum": ["true", "maybe"]}, BOOLEAN]}, '"true"', "true"),
        ({"anyOf": [{"const": "true"}, BOOLEAN]}, '"true"', "true"),
        ({"anyOf": [{"const": 7}, BOOLEAN]}, '"true"', True),
        ({"type": "object", "additionalProperties": BOOLEAN}, '{"k": "true"}', {"k": True}),
        ({"properties": {"k": BOOLEAN}}, '{"k": "true", "m": "true"}', {"k": True, "m": "true"}),
        ({"anyOf": [{"type": "null"}, {"properties": {"k": BOOLEAN}}]}, '{"k": "true"}', {"k": True}),
        ({"type": "array", "items": BOOLEAN}, '["true"]', [True]),
        ({"type": "array", "items": {"$ref": "#/$defs/B"}}, '["true"]', [True]),
        ({"anyOf": [{"type": "array", "items": BOOLEAN}, {"type": "array", "items": WORD}]}, '["true"]', ["true"]),
    ],
)
def test_a_value_is_made_what_its_schema_wants_and_nothing_else(part: Any, given: str, value: Any) -> None:
    schema = {"type": "object", "properties": {"a": part}, "$defs": {"B": BOOLEAN}}
    read = output_type(schema, "test").read(f'{{"a": {given}}}')["a"]
    assert repr(read) == repr(value), "3 is not 3.0, and 1 is not True"


@pytest.mark.parametrize("given", ['"2.5"', "2.5"])
def test_a_fraction_is_not_cut_to_a_whole_number(given: str) -> None:
    with pytest.raises(Unusable):
        output_type({"type": "integer"}, "test").read(f'{{"result": {given}}}')


class Titled(BaseModel):
    model_config = ConfigDict(title="Big town")

    name: str


@pytest.mark.parametrize(
    ("output", "name"),
    [
        (City, "City"),
        (Titled, "Big_town"),
        (int, "int"),
        (TypeAdapter(int), "output"),
        ({"type": "object"}, "output"),
        ({"type": "object", "title": "(XmlX)"}, "XmlX"),
        ({"type": "object", "title": "___"}, "output"),
    ],
)
def test_a_schema_is_called_by_the_title_or_the_name_of_its_type(output: Any, name: str) -> None:
    assert output_type(output, "test").format.name == name


@pytest.mark.parametrize(
    "schema", [{"type": "object"}, {"$ref": "#/$defs/P", "$defs": {"P": {"type": "object"}}}, {"properties": {}}]
)
def test_an_object_stands_at_the_root_of_a_reply_whatever_its_keys(schema: dict[str, Any]) -> None:
    output = output_type(schema, "test")
    assert output.format.schema == schema
    assert output.read('{"result": 1}') == {"result": 1}


def test_what_is_no_object_stands_under_a_required_key_of_one() -> None:
    told = output_type(list[int], "test").format.schema
    assert (told["type"], list(told["properties"]), told["required"]) == ("object", ["result"], ["result"])


@pytest.mark.parametrize(
    ("output", "text", "value"),
    [
        (City, b'{"name": "Os', {"name": "Os"}),
        (Drawing, b'So: {"part": {"label": "a"}, "parts": [', {"part": {"label": "a"}, "parts": []}),
        (list[int], b'{"result": [1, 2', [1, 2]),
        (City, b"So: ", None),
    ],
)
def test_the_beginning_of_a_reply_has_a_value_already(output: Any, text: bytes, value: Any) -> None:
    assert output_type(output, "test").peek(text) == value


def test_a_schema_that_brings_its_own_reader_is_told_as_it_is_and_read_by_that() -> None:
    schema = ReadSchema({"type": "object", "properties": {"result": BOOLEAN}})
    schema.reader = lambda text, *, last: (text, last)
    output = output_type(schema, "test")
    assert (output.format.name, output.format.schema) == ("output", schema)
    assert output.read("any words", last=True) == ("any words", True)
    assert output.peek(b'{"result": true}') == {"result": True}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "number or so"}, "'number or so' is not valid under any of the given schemas"),
        ({"type": "object", "allOf": [{"$ref": "#"}]}, "it never ends"),
        ({"anyOf": [{"$ref": "#/$defs/none"}]}, "the reference '#/$defs/none' leads nowhere"),
        ({"$ref": "other.json"}, "the reference 'other.json' leads out of the schema, or in a circle"),
    ],
)
def test_what_is_wrong_with_a_schema_is_said_in_one_line_with_whose_it_is(schema: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        output_type(schema, "agent 'a'")
    assert str(caught.value) == f"agent 'a': output is no valid JSON Schema: {said}"


def test_a_reference_among_alternatives_leads_into_the_whole_schema() -> None:
    schema = {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}], "$defs": {"B": BOOLEAN}}
    assert output_type(schema, "test").read('{"result": "true"}') is True


def complaint(output: Any, reply: str) -> str:
    with pytest.raises(Unusable) as caught:
        output_type(output, "test").read(reply)
    return str(caught.value)


def test_each_fault_of_a_reply_is_told_with_where_it_is_up_to_five() -> None:
    ints = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}
    fault = "'x' is not of type 'integer'"
    assert complaint(ints, '{"a": ["x", 1, "x"]}') == f"a.0: {fault}; a.2: {fault}"
    assert complaint(ints, '{"a": ["x", "x", "x", "x", "x", "x"]}').count(fault) == 5
    assert complaint({"type": "integer"}, '{"result": "x"}') == fault
    fault = "Input should be a valid integer"
    assert complaint(dict[str, list[int]], '{"a": ["x", 1, "x"]}') == f"a.0: {fault}; a.2: {fault}"
    assert complaint(dict[str, list[int]], '{"a": ["x", "x", "x", "x", "x", "x"]}').count(fault) == 5
    assert complaint(int, '{"result": "x"}') == fault
