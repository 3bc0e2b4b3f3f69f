"""What a function takes becomes a JSON Schema, and JSON arguments become its keyword arguments."""

from __future__ import annotations

import dataclasses
import enum
import functools
import threading
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from mastra_py._schema import Arguments, InvalidArguments, arguments_from, arguments_of, subschemas
from mastra_py.errors import UserError


class Injected:
    """Stands for the type that the caller fills in."""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    label: str
    weight: float = 1.0


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = "Rex"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict):
    limit: int


NEW_LIST = Field(default_factory=list)


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    day: date
    color: Color
    pair: tuple[int, int]


def of(function: Callable[..., Any]) -> Arguments:
    return arguments_of(function, owner="tool 'it'", inject=Injected)


def by_schema(schema: dict[str, Any], function: Callable[..., Any]) -> Arguments:
    return arguments_from(schema, function, owner="tool 'it'", inject=Injected)


def problems(arguments: Arguments, args: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(InvalidArguments) as caught:
        arguments.read(args)
    return caught.value.problems


# --- the schema


def test_annotations_and_defaults_become_a_schema_without_titles() -> None:
    def search(query: str, limit: int = 10, *, exact: bool = False) -> list[str]: ...

    assert of(search).schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
            "exact": {"type": "boolean", "default": False},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_a_property_called_title_stays_though_titles_go() -> None:
    class Book(BaseModel):
        title: str

    def add(title: str, book: Book) -> None: ...

    schema = of(add).schema
    assert list(schema["properties"]) == ["title", "book"]
    assert list(schema["$defs"]["Book"]["properties"]) == ["title"]
    assert not any(isinstance(part.get("title"), str) for part in subschemas(schema))


def test_no_parameters_give_empty_properties() -> None:
    def now() -> str: ...

    assert of(now).schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert of(now).read({}) == {}


def test_a_parameter_without_annotation_takes_any_json_value() -> None:
    def echo(value, other=None): ...

    arguments = of(echo)
    assert arguments.schema["properties"] == {"value": {}, "other": {"default": None}}
    assert arguments.read({"value": [1, {"a": None}], "other": None}) == {"value": [1, {"a": None}], "other": None}


def test_a_default_that_is_no_json_value_is_optional_and_not_shown() -> None:
    marker = object()

    def find(key: str, fallback: Any = marker) -> None: ...

    arguments = of(find)
    assert arguments.schema["properties"]["fallback"] == {}
    assert arguments.schema["required"] == ["key"]
    assert arguments.read({"key": "a"}) == {"key": "a"}


def test_names_that_pydantic_models_cannot_have_are_fine() -> None:
    def odd(model_dump: int, json: int, _hidden: int, schema: int, model_config: int) -> None: ...

    args = {"model_dump": 1, "json": 2, "_hidden": 3, "schema": 4, "model_config": 5}
    assert of(odd).read(args) == args
    assert list(of(odd).schema["properties"]) == list(args)


def test_a_users_model_may_have_the_name_of_ours() -> None:
    class Arguments(BaseModel):
        a: int

    def run(given: Arguments) -> None: ...

    assert of(run).schema["properties"] == {"given": {"$ref": "#/$defs/Arguments"}}


def test_an_alias_is_the_name_the_model_sees() -> None:
    def mail(sender: Annotated[str, Field(alias="from")], to: str = Field(alias="recipient")) -> None:
        """Send.

        Args:
            sender: who writes
            to: who reads
        """

    arguments = of(mail)
    assert arguments.schema["properties"] == {
        "from": {"type": "string", "description": "who writes"},
        "recipient": {"type": "string", "description": "who reads"},
    }
    assert arguments.read({"from": "a", "recipient": "b"}) == {"sender": "a", "to": "b"}


@pytest.mark.parametrize(
    "doc",
    [
        "Find it.\n\nMore about it.\n\nArgs:\n    a (int): the first\n    b: the second\n\nReturns:\n    None",
        (
            "Find it.\n\nMore about it.\n\nParameters\n----------\na : int\n    the first\nb\n    the second\n\n"
            "Returns\n-------\nNone\n"
        ),
        "Find it.\n\nMore about it.\n\n:param a: the first\n:type a: int\n:param int b: the second\n:returns: None",
    ],
    ids=["google", "numpy", "rest"],
)
def test_descriptions_come_from_the_docstring(doc: str) -> None:
    def find(a: int, b: int = 2) -> None: ...

    find.__doc__ = doc
    arguments = of(find)
    assert arguments.description == "Find it.\n\nMore about it."
    assert [p["description"] for p in arguments.schema["properties"].values()] == ["the first", "the second"]


def test_a_field_description_wins_over_the_docstring() -> None:
    def find(a: Annotated[int, Field(description="by field")], b: int = Field(2, description="also")) -> None:
        """Find it.

        Args:
            a: by docstring
            b: by docstring
        """

    assert [p["description"] for p in of(find).schema["properties"].values()] == ["by field", "also"]


def test_a_one_line_docstring_is_the_description() -> None:
    def find() -> None:
        """Find it: now."""

    assert of(find).description == "Find it: now."


def test_a_docstring_that_cannot_be_parsed_is_the_description() -> None:
    def find() -> None:
        """Find it.

        : : what
        """

    assert of(find).description == "Find it.\n\n: : what"


def test_without_a_docstring_there_is_no_description() -> None:
    def find() -> None: ...

    assert of(find).description is None


# --- reading


def test_values_arrive_as_python_objects() -> None:
    def run(
        *,
        inner: Inner,
        many: list[Inner],
        color: Color,
        point: Point,
        options: Options,
        at: datetime,
        amount: Decimal,
        mode: Literal["a", "b"],
        either: int | str,
        note: Optional[str],  # noqa: UP045
    ) -> None: ...

    got = of(run).read(
        {
            "inner": {"label": "x"},
            "many": [{"label": "y", "weight": 2}],
            "color": "blue",
            "point": {"x": 1},
            "options": {"limit": 3},
            "at": "2026-01-02T03:04:05",
            "amount": "1.10",
            "mode": "b",
            "either": "z",
            "note": None,
        }
    )
    assert got == {
        "inner": Inner(label="x"),
        "many": [Inner(label="y", weight=2)],
        "color": Color.BLUE,
        "point": Point(1),
        "options": {"limit": 3},
        "at": datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001
        "amount": Decimal("1.10"),
        "mode": "b",
        "either": "z",
        "note": None,
    }


def test_strict_models_read_what_json_can_say() -> None:
    def run(value: Strict) -> None: ...

    got = of(run).read({"value": {"day": "2026-01-02", "color": "red", "pair": [1, 2]}})
    assert got == {"value": Strict(day=date(2026, 1, 2), color=Color.RED, pair=(1, 2))}


def test_what_is_left_out_is_left_to_the_functions_own_default() -> None:
    shared: list[int] = []

    def run(a: list[int] = shared, b: int = Field(default=4), c: list[str] = NEW_LIST) -> None: ...

    assert of(run).read({}) == {"b": 4, "c": []}


def test_every_bad_field_is_named_with_what_is_wrong() -> None:
    def run(a: int, b: str, inner: Inner, many: list[Inner]) -> None: ...

    found = problems(of(run), {"a": "x", "inner": {}, "many": [{"label": "y"}, {"label": 3}], "more": 1})
    assert [p.partition(":")[0] for p in found] == ["a", "b", "inner.label", "many[1].label", "more"]
    assert "'x'" in found[0]


def test_what_is_said_about_bad_arguments_is_bounded() -> None:
    def run(values: list[int]) -> None: ...

    found = problems(of(run), {"values": ["x" * 10_000] * 50})
    assert len(found) == 11
    assert max(map(len, found)) < 400
    assert found[-1] == "... and 40 more"


def test_a_lone_surrogate_in_the_arguments_is_a_problem_and_no_crash() -> None:
    def run(a: str) -> None: ...

    assert problems(of(run), {"a": "\ud83d"})


@given(st.dictionaries(st.sampled_from("abc"), st.none() | st.integers() | st.text(), min_size=0))
def test_any_json_object_is_read_or_refused(args: dict[str, Any]) -> None:
    def run(a: int, b: str = "b", c: int | None = None) -> None: ...

    try:
        got = of(run).read(args)
    except InvalidArguments as exc:
        assert exc.problems  # noqa: PT017
    else:
        assert isinstance(got["a"], int)
        assert isinstance(got.get("b", ""), str)
        assert isinstance(got.get("c", 0), int | None)


# --- nulls where a strict provider makes the model write every key (A36)


def test_a36_null_for_a_value_with_a_default_counts_as_left_out_at_every_level() -> None:
    def run(
        inner: Inner,
        many: list[Inner],
        pet: Annotated[Cat | Dog, Field(discriminator="kind")],
        maybe: Inner | None = None,
        limit: int = 5,
        note: str | None = "kept",
    ) -> None: ...

    got = of(run).read(
        {
            "inner": {"label": "a", "weight": None},
            "many": [{"label": "b", "weight": None}],
            "pet": {"kind": "dog", "name": None},
            "maybe": {"label": "c", "weight": None},
            "limit": None,
            "note": None,
        }
    )
    assert got == {
        "inner": Inner(label="a"),
        "many": [Inner(label="b")],
        "pet": Dog(kind="dog"),
        "maybe": Inner(label="c"),
        "note": None,
    }


def test_a36_null_for_a_required_value_is_a_problem() -> None:
    def run(a: int, b: int = 1) -> None: ...

    (problem,) = problems(of(run), {"a": None, "b": None})
    assert problem.startswith("a: ")
    assert problem.endswith("(got None)")


def test_a36_holds_for_a_written_schema_too() -> None:
    schema = {
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer"},
            "c": {"enum": ["x", None]},
            "d": {"const": 1},
            "e": {"anyOf": [True, {"type": "null"}]},
            "f": True,
            "g": {"anyOf": [{"type": "integer"}, False]},
        },
        "required": ["a"],
    }
    args = {"g": None, "a": "x", "b": None, "c": None, "d": None, "e": None, "f": None}
    assert by_schema(schema, lambda **given: given).read(args) == {"a": "x", "c": None, "e": None, "f": None}


class Noted(BaseModel):
    x: int
    note: str = "none"


class Silent(BaseModel):
    x: int
    note: str | None = "none"
    size: int


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"x": 1, "note": None}, Noted(x=1)),
        ({"x": 1, "note": "yes"}, Noted(x=1, note="yes")),
        ({"x": 1, "note": None, "size": 2}, Silent(x=1, note=None, size=2)),
    ],
)
def test_a36_among_alternatives_without_a_tag_null_means_what_it_means_in_the_one_that_fits(
    given: dict[str, Any], read: BaseModel
) -> None:
    def run(value: Noted | Silent, many: list[Noted | Silent]) -> None: ...

    assert of(run).read({"value": given, "many": [given]}) == {"value": read, "many": [read]}


def test_a36_null_is_left_out_among_tagged_alternatives_even_where_something_else_is_wrong() -> None:
    def run(pet: Annotated[Cat | Dog, Field(discriminator="kind")], many: list[Cat | Dog]) -> None: ...

    args = {"pet": {"kind": "dog", "name": None, "lives": 3}, "many": [{"kind": "cat", "lives": None}]}
    assert of(run).read(args) == {"pet": Dog(kind="dog"), "many": [Cat(kind="cat")]}
    found = problems(of(run), {"pet": {"kind": "cat", "lives": None}, "many": [{"kind": "cow", "lives": None}]})
    assert all(problem.startswith("many[0]") for problem in found)


def test_a36_null_is_left_out_in_the_values_of_a_dict_but_is_never_such_a_value() -> None:
    def run(by_name: dict[str, Inner], counts: dict[str, int]) -> None: ...

    assert of(run).read({"by_name": {"a": {"label": "b", "weight": None}}, "counts": {}}) == {
        "by_name": {"a": Inner(label="b")},
        "counts": {},
    }
    (problem,) = problems(of(run), {"by_name": {}, "counts": {"a": None}})
    assert problem.startswith("counts.a: ")


def test_a36_null_for_a_key_that_is_not_known_is_a_problem() -> None:
    def run(a: int = 1) -> None: ...

    (problem,) = problems(of(run), {"a": None, "b": None})
    assert problem.startswith("b: ")


def test_a36_arguments_are_read_without_changing_them() -> None:
    def run(inner: Inner) -> None: ...

    args = {"inner": {"label": "a", "weight": None}}
    of(run).read(args)
    assert args == {"inner": {"label": "a", "weight": None}}


NUMBERED = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}, "required": ["m"]}


@pytest.mark.parametrize(
    "schema",
    [
        NUMBERED,
        {"allOf": [NUMBERED]},
        {"allOf": [{"$ref": "#/$defs/N"}], "description": "beside"},
        {"anyOf": [{"type": "string"}, NUMBERED]},
        {"oneOf": [{"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]}, NUMBERED]},
        {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]},
        {"anyOf": [{"anyOf": [{"$ref": "#/$defs/N"}]}, {"type": "array", "items": {"$ref": "#/$defs/N"}}]},
        {"$ref": "#n"},
        {"$ref": "#/$defs/N/allOf/0"},
        {**NUMBERED, "properties": {"m": {"type": "integer"}}, "anyOf": [NUMBERED, False]},
        {**NUMBERED, "properties": {"m": {"const": 1}, "n": {"allOf": [{"type": ["integer", "string"]}]}}},
    ],
)
def test_a36_null_is_left_out_in_every_form_that_a_written_schema_may_have(schema: dict[str, Any]) -> None:
    definitions = {"N": {**NUMBERED, "$anchor": "n", "allOf": [NUMBERED]}}
    arguments = by_schema({"properties": {"x": schema}, "$defs": definitions}, lambda **given: given)
    assert arguments.read({"x": {"n": None, "m": 1}}) == {"x": {"m": 1}}
    assert arguments.read({"x": {"n": 2, "m": 1}}) == {"x": {"n": 2, "m": 1}}
    assert problems(arguments, {"x": {"n": None, "m": None}})


def test_an_alternative_that_is_the_whole_once_more_is_none() -> None:
    schema = {"properties": {"x": {"anyOf": [NUMBERED, {"$ref": "#/properties/x"}]}}}
    assert by_schema(schema, lambda **given: given).read({"x": {"n": None, "m": 1}}) == {"x": {"m": 1}}


# --- who is injected, and what a partial has filled


def test_injected_parameters_are_found_in_every_form_and_not_shown() -> None:
    def run(
        plain: Injected,
        a: int,
        optional: Injected | None = None,
        old: Optional[Injected] = None,  # noqa: UP045
        annotated: Annotated[Injected, "note"] = None,  # type: ignore[assignment]
        quoted: "Injected" = None,  # type: ignore[assignment]  # noqa: UP037
    ) -> None: ...

    arguments = of(run)
    assert list(arguments.schema["properties"]) == ["a"]
    assert arguments.injected == ("plain", "optional", "old", "annotated", "quoted")


def test_a_partials_keywords_are_neither_shown_nor_taken_from_the_model() -> None:
    def fetch(url: str, *, key: str, limit: int = 1) -> None:
        """Fetch it."""

    arguments = of(functools.partial(functools.partial(fetch, key="secret"), limit=2))
    assert list(arguments.schema["properties"]) == ["url"]
    assert "secret" not in str(arguments.schema)
    assert arguments.description == "Fetch it."
    assert problems(arguments, {"url": "u", "key": "other"})


def test_a_partials_keywords_cannot_be_given_through_a_written_schema() -> None:
    def fetch(**options: str) -> None: ...

    arguments = by_schema({"type": "object"}, functools.partial(fetch, key="secret"))
    assert arguments.read({"url": "u"}) == {"url": "u"}
    assert problems(arguments, {"key": "other"}) == ("key: there is no such parameter",)


def test_methods_and_callable_objects_are_read_without_self() -> None:
    class Searcher:
        """Knows things."""

        def find(self, query: str) -> None:
            """Find it."""

        def __call__(self, topic: str) -> None: ...

    assert list(of(Searcher().find).schema["properties"]) == ["query"]
    assert of(Searcher().find).description == "Find it."
    assert list(of(Searcher()).schema["properties"]) == ["topic"]
    assert of(Searcher()).description == "Knows things."


def test_a_decorated_function_is_read_through_its_wrapper() -> None:
    def find(inner: Inner, n: int = 1) -> None:
        """Find it."""

    @functools.wraps(find)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    assert list(of(wrapper).schema["properties"]) == ["inner", "n"]
    assert of(wrapper).description == "Find it."


# --- annotations


def test_types_defined_beside_the_function_are_found() -> None:
    class Local(BaseModel):
        a: int

    @dataclasses.dataclass
    class Outer:
        local: Local

    def run(outer: Outer, locals_: list[Local]) -> None: ...

    got = of(run).read({"outer": {"local": {"a": 1}}, "locals_": [{"a": 2}]})
    assert got == {"outer": Outer(Local(a=1)), "locals_": [Local(a=2)]}


def test_types_of_an_outer_function_are_found_from_an_inner_one() -> None:
    class Local(BaseModel):
        a: int

    def inner() -> Arguments:
        def run(local: Local) -> None: ...

        return of(run)

    assert inner().read({"local": {"a": 1}}) == {"local": Local(a=1)}


def test_a_type_the_function_uses_is_found_after_its_scope_has_ended() -> None:
    def make() -> Callable[..., Any]:
        class Local(BaseModel):
            a: int = 1

        def run(local: Local) -> Local:
            return local or Local()

        return run

    run = make()
    assert of(run).read({"local": {"a": 1}})["local"].a == 1


def test_a_function_may_use_names_that_get_their_value_later() -> None:
    def run(n: int) -> object:
        return run, later

    assert of(run).read({"n": 1}) == {"n": 1}
    later = 1
    assert later


def test_an_annotation_that_cannot_be_resolved_names_tool_and_parameter() -> None:
    def run(a: int, b: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(UserError, match=r"tool 'it'.*parameter 'b'.*Nowhere"):
        of(run)


@pytest.mark.parametrize("annotation", [threading.Event, Callable[[int], int], "1 +"])
def test_a_type_that_json_cannot_give_names_tool_and_parameter(annotation: object) -> None:
    def run(a, b): ...

    run.__annotations__ = {"a": int, "b": annotation}
    with pytest.raises(UserError, match=r"tool 'it'.*parameter 'b'"):
        of(run)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda *values: values, r"\*values"),
        (lambda **values: values, r"\*\*values"),
        (lambda value, /: value, "'value' is positional-only"),
        (lambda self, value: value, "'self'"),
        (dict, "signature"),
        (len, "'obj' is positional-only"),
    ],
)
def test_a_signature_that_cannot_be_called_by_name_is_a_user_error(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(UserError, match=f"^tool 'it'.*{said}"):
        of(function)


# --- schemas written by hand


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_a_written_schema_is_kept_and_its_arguments_come_as_keywords() -> None:
    arguments = by_schema(CITY, lambda city: city)
    assert arguments.schema == CITY
    assert arguments.read({"city": "Oslo"}) == {"city": "Oslo"}


def test_a_written_schema_is_copied_and_completed() -> None:
    given: dict[str, Any] = {"description": "nothing"}
    arguments = by_schema(given, lambda: None)
    given["description"] = "changed"
    assert arguments.schema == {"type": "object", "properties": {}, "description": "nothing"}


def test_arguments_that_break_a_written_schema_are_named() -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"$ref": "#/$defs/day"}}},
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {"day": {"type": "integer", "minimum": 1}},
    }
    found = problems(by_schema(schema, lambda city, days=(): None), {"days": [1, 0, "x"], "more": 1})
    assert [p.partition(": ")[0] for p in found if p.startswith("days")] == ["days[1]", "days[2]"]
    assert any("'city'" in p for p in found)
    assert any("'more'" in p for p in found)
    assert len(found) == 4


def test_a_single_other_parameter_takes_all_arguments_as_a_dict() -> None:
    def run(args: dict[str, Any], ctx: Injected) -> None: ...

    arguments = by_schema({"type": "object", "properties": {"user-id": {"type": "integer"}}}, run)
    assert arguments.read({"user-id": 1}) == {"args": {"user-id": 1}}
    assert arguments.injected == ("ctx",)


@pytest.mark.parametrize("function", [lambda args: args, lambda **args: args])
def test_the_function_gets_a_copy_of_the_arguments(function: Callable[..., Any]) -> None:
    args = {"many": [1]}
    given = by_schema({"type": "object"}, function).read(args)
    given.get("args", given)["many"].append(2)
    assert args == {"many": [1]}


def test_a_single_other_parameter_with_a_default_is_left_alone() -> None:
    assert by_schema({"type": "object"}, lambda verbose=False: verbose).read({}) == {}


def test_arguments_the_schema_allows_but_the_function_has_not_are_a_problem() -> None:
    assert problems(by_schema(CITY, lambda city: city), {"city": "Oslo", "x": 1}) == ("x: there is no such parameter",)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "object", "properties": {"a": {"type": "nonsense"}}}, "not a valid JSON Schema.*properties.a.type"),
        ({"type": "string"}, "'string'"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}, "#/\\$defs/none"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}}, "example.org"),
        ({"$schema": DRAFT_7, "properties": {"a": {"items": [{"$ref": "https://example.org/b.json"}]}}}, "example.org"),
        ({"properties": {"a": {"$dynamicRef": "https://example.org/c.json"}}}, "example.org"),
        ({"type": "object", "default": {1, 2}}, "JSON values"),
        ("no mapping", "JSON Schema as a dict"),
    ],
)
def test_a_schema_that_is_not_valid_is_a_user_error(schema: Any, said: str) -> None:
    with pytest.raises(UserError, match=f"^tool 'it': parameters.*{said}"):
        by_schema(schema, lambda **given: given)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda town, country: None, "property 'city'"),
        (lambda city, country: None, "'country' of the function has no default"),
        (lambda city, /, country=1: None, "'city' is positional-only"),
    ],
)
def test_a_function_that_does_not_fit_its_schema_is_a_user_error(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(UserError, match=f"^tool 'it'.*{said}"):
        by_schema(CITY, function)


def test_a_schema_of_combined_parts_may_require_what_is_not_seen_at_the_top() -> None:
    schema = {"allOf": [CITY], "type": "object"}
    arguments = by_schema(schema, lambda city, country="no": None)
    assert arguments.read({"city": "Oslo"}) == {"city": "Oslo"}
    assert problems(arguments, {})


def test_null_is_left_out_behind_references_to_references() -> None:
    chain: dict[str, Any] = {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(3)}
    inner = {"type": "object", "properties": {"a": {"type": "integer"}}}
    schema = {"properties": {"x": {"$ref": "#/$defs/0"}}, "$defs": {**chain, "3": inner}}
    assert by_schema(schema, lambda **given: given).read({"x": {"a": None}}) == {"x": {}}


def test_null_is_left_out_behind_a_reference_to_elsewhere_in_the_schema() -> None:
    schema = {"properties": {"a": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
    schema["properties"]["b"] = {"$ref": "#/properties/a"}
    arguments = by_schema(schema, lambda **given: given)
    assert arguments.read({"a": {"n": None}, "b": {"n": 1}}) == {"a": {}, "b": {"n": 1}}
    assert arguments.read({"b": {"n": None}}) == {"b": {}}


def test_a_draft_7_schema_is_checked_as_such() -> None:
    schema = {
        "$schema": DRAFT_7,
        "type": "object",
        "definitions": {"day": {"type": "integer"}},
        "properties": {"pair": {"items": [{"$ref": "#/definitions/day"}, {"type": "string"}]}},
    }
    arguments = by_schema(schema, lambda pair=(): None)
    assert arguments.read({"pair": [1, "a"]}) == {"pair": [1, "a"]}
    assert problems(arguments, {"pair": ["a", "a"]})[0].startswith("pair[0]")


# --- which of several alternatives a value is, where one of them takes the null and the other does not

WHOLE_NUMBER: dict[str, Any] = {"type": "integer"}
WITH_K: dict[str, Any] = {"type": "object", "properties": {"k": WHOLE_NUMBER}}


@pytest.mark.parametrize(
    ("part", "fits", "does_not"),
    [
        ({"$ref": "#/$defs/I"}, 1, "x"),
        ({"$ref": "#/$defs/L"}, [1], ["x"]),
        ({"anyOf": [WHOLE_NUMBER, {"type": "boolean"}]}, True, "x"),
        ({"oneOf": [WHOLE_NUMBER, {"type": "boolean"}]}, 1, "x"),
        ({"allOf": [{"$ref": "#/$defs/I"}]}, 1, "x"),
        ({"type": "array", "items": WHOLE_NUMBER}, [1], ["x"]),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, ["a", "b"], ["a", "c"]),
        (WITH_K, {"k": 1}, {"k": "x"}),
        ({"type": "object", "properties": {"k": {"$ref": "#/$defs/I"}}}, {"k": 1}, {"k": "x"}),
        ({**WITH_K, "required": ["k"]}, {"k": 1}, {}),
        ({**WITH_K, "additionalProperties": WHOLE_NUMBER}, {"k": 1, "m": 2}, {"k": 1, "m": "x"}),
    ],
)
def test_a36_the_alternative_counts_whose_parts_fit_at_every_level(part: Any, fits: Any, does_not: Any) -> None:
    left_out = {"type": "object", "properties": {"v": part, "n": WHOLE_NUMBER}}
    kept = {"type": "object", "properties": {"v": {}, "n": {"type": ["integer", "null"]}}}
    definitions = {"I": WHOLE_NUMBER, "L": {"type": "array", "items": {"$ref": "#/$defs/I"}}}
    arguments = by_schema(
        {"properties": {"x": {"anyOf": [left_out, kept]}}, "$defs": definitions}, lambda **given: given
    )
    assert arguments.read({"x": {"v": fits, "n": None}}) == {"x": {"v": fits}}
    assert arguments.read({"x": {"v": does_not, "n": None}}) == {"x": {"v": does_not, "n": None}}


def test_a36_an_alternative_may_have_an_optional_part_that_is_the_root_once_more() -> None:
    part = {"type": "object", "properties": {"k": {"$ref": "#"}, "n": {"type": "integer"}}}
    other = {"type": "object", "properties": {"k": {"type": "null"}, "n": {"type": "null"}}, "required": ["k", "n"]}
    arguments = by_schema({"type": "object", "properties": {"x": {"anyOf": [part, other]}}}, lambda **given: given)
    assert arguments.read({"x": {"k": None, "n": 1}}) == {"x": {"n": 1}}
    assert arguments.read({"x": {"k": {"x": {"k": None}}}}) == {"x": {"k": {"x": {}}}}


def test_a36_null_is_left_out_in_a_list_that_is_one_of_several_alternatives() -> None:
    schema = {"properties": {"x": {"anyOf": [{"type": "string"}, {"type": "array", "items": NUMBERED}]}}}
    assert by_schema(schema, lambda **given: given).read({"x": [{"n": None, "m": 1}]}) == {"x": [{"m": 1}]}


def test_a36_null_is_left_out_behind_a_reference_in_an_alternative() -> None:
    outer = {"type": "object", "properties": {"k": {"$ref": "#/$defs/N"}}}
    schema = {"properties": {"x": {"anyOf": [{"type": "string"}, outer]}}, "$defs": {"N": NUMBERED}}
    arguments = by_schema(schema, lambda **given: given)
    assert arguments.read({"x": {"k": {"n": None, "m": 1}}}) == {"x": {"k": {"m": 1}}}


@pytest.mark.parametrize("part", [{"$ref": "#/$defs/M"}, {"allOf": [{"$ref": "#/$defs/M"}]}, {"$ref": "#/$defs/a~0b"}])
def test_a36_null_is_kept_where_it_is_behind_a_reference_that_it_may_be_null(part: dict[str, Any]) -> None:
    maybe = {"type": ["integer", "null"]}
    arguments = by_schema({"properties": {"x": part}, "$defs": {"M": maybe, "a~b": maybe}}, lambda **given: given)
    assert arguments.read({"x": None}) == {"x": None}


def test_a36_a_null_behind_a_schema_that_is_known_by_its_address_is_left_to_the_check() -> None:
    address = "https://example.org/numbered.json"
    schema = {"properties": {"x": {"$ref": address}}, "$defs": {"N": {**NUMBERED, "$id": address}}}
    arguments = by_schema(schema, lambda **given: given)
    assert arguments.read({"x": {"n": 2, "m": 1}}) == {"x": {"n": 2, "m": 1}}
    (problem,) = problems(arguments, {"x": {"n": None, "m": 1}})
    assert problem.startswith("x.n: ")
