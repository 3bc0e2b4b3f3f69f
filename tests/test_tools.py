"""A tool is a function that a model calls: checked arguments in, a JSON value out."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import ipaddress
import json
import math
import threading
import uuid
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_serializer
from pydantic.dataclasses import dataclass as pydantic_dataclass

from mastra_py._jsonable import clean_text
from mastra_py.errors import RunError, ToolError, UserError
from mastra_py.messages import Message
from mastra_py.tools import (
    Tool,
    ToolArgumentsError,
    ToolContext,
    ToolTimeoutError,
    as_tool,
    collect_tools,
    to_json_value,
    tool,
)

CTX = ToolContext(tool_call_id="c1", tool_name="it", run_id="r1", agent_id="a1", step=2, request_context={"user": 7})

variable: ContextVar[str] = ContextVar("variable", default="unset")


class Inner(BaseModel):
    label: str
    weight: float = 1.0


# --- making one


def test_a_decorated_function_gives_name_description_and_parameters() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: the first
            b: the second
        """
        return a + b

    assert add.name == "add"
    assert add.description == "Add two numbers."
    assert add.parameters["properties"]["b"] == {"type": "integer", "description": "the second"}
    assert (add.timeout, add.abandon, add.takes_no_args) == (None, False, False)


def test_the_decorator_takes_options() -> None:
    @tool(name="sum-up", description="Sums.", timeout=2.5, abandon=True)
    def add(a: int) -> int:
        """Add."""
        return a

    assert (add.name, add.description, add.timeout, add.abandon) == ("sum-up", "Sums.", 2.5, True)


def test_a_tool_called_directly_is_its_function() -> None:
    @tool
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    assert add(1, b=5) == 6
    assert (getattr(add, "__name__"), add.__doc__) == ("add", "Add.")  # noqa: B009 -- not a declared attribute
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert repr(add) == "Tool('add')"


async def test_an_async_tool_called_directly_is_its_coroutine() -> None:
    @tool
    async def add(a: int) -> int:
        return a + 1

    assert await add(1) == 2


def test_a_tool_from_a_schema_needs_only_a_name_and_a_function() -> None:
    made = Tool(name="now", parameters={"type": "object", "properties": {}}, run=lambda: "noon")
    assert made.description is None
    assert made.takes_no_args


def test_only_a_tool_without_properties_takes_no_args() -> None:
    assert tool(lambda_named("now", lambda: None)).takes_no_args
    assert not tool(lambda_named("now", lambda at=1: at)).takes_no_args


def lambda_named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = name
    return function


def test_partials_methods_and_callable_objects_have_a_name() -> None:
    class Searcher:
        def find(self, query: str) -> str:
            return query

        def __call__(self, query: str) -> str:
            return query

    assert as_tool(Searcher().find).name == "find"
    assert as_tool(Searcher()).name == "Searcher"
    assert as_tool(functools.partial(Searcher().find, query="x")).name == "find"


@pytest.mark.parametrize("name", ["", "two words", "a.b", "ä", "x" * 65, "a\n"])
def test_a37_a_bad_name_is_a_user_error_with_the_rule(name: str) -> None:
    with pytest.raises(UserError, match="1 to 64 letters, digits") as caught:
        Tool(name=name, run=lambda: None)
    assert repr(name) in str(caught.value)


def test_a37_a_lambda_needs_a_name() -> None:
    with pytest.raises(UserError, match=r"'<lambda>'.*name="):
        tool(lambda: None)


def test_a37_a_name_of_64_characters_is_fine() -> None:
    assert Tool(name="x" * 64, run=lambda: None).name == "x" * 64


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, True, "5"])
def test_d37_a_timeout_that_is_no_finite_number_above_0_is_a_user_error(timeout: Any) -> None:
    async def wait() -> None: ...

    with pytest.raises(UserError, match="tool 'wait': timeout must be a finite number"):
        tool(timeout=timeout)(wait)


def test_a_timeout_on_a_sync_tool_needs_abandon() -> None:
    def wait() -> None: ...

    with pytest.raises(UserError, match=r"tool 'wait'.*abandon=True"):
        tool(timeout=1)(wait)
    assert tool(timeout=1, abandon=True)(wait).timeout == 1


def test_async_tools_are_known_behind_partials_and_calls() -> None:
    class Waiter:
        async def __call__(self, seconds: float = 0) -> None: ...

    assert Tool(run=Waiter(), timeout=1).timeout == 1
    assert Tool(run=functools.partial(Waiter(), seconds=1), timeout=1).timeout == 1


class AClass:
    pass


async def results() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (AClass, "AClass is a class"),
        (5, "5 is no tool"),
        ("name", "'name' is no tool"),
        (results, "'results' yields"),
        (Tool(name="t", run=lambda: None), "is a tool already"),
    ],
)
def test_what_cannot_be_a_tool_is_a_user_error(obj: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Tool(name="x", run=obj)


def test_collect_tools_keeps_tools_and_makes_tools_of_functions() -> None:
    def one() -> None: ...

    two = Tool(name="two", run=lambda: None)
    tools = collect_tools([one, two])
    assert list(tools) == ["one", "two"]
    assert tools["two"] is two


def test_a37_two_tools_of_one_name_are_a_user_error() -> None:
    with pytest.raises(UserError, match="two tools are called 'one'"):
        collect_tools([Tool(name="one", run=lambda: 1), Tool(name="one", run=lambda: 2)])


@pytest.mark.parametrize("obj", [AClass, 5, None])
def test_collecting_what_is_no_tool_is_a_user_error(obj: Any) -> None:
    with pytest.raises(UserError):
        collect_tools([obj])


def test_tool_errors_are_run_errors() -> None:
    assert issubclass(ToolArgumentsError, ToolError)
    assert issubclass(ToolTimeoutError, ToolError)
    assert issubclass(ToolError, RunError)


# --- running one


async def test_arguments_arrive_validated_as_python_objects() -> None:
    seen: list[object] = []

    @tool
    async def store(inner: Inner, many: list[Inner], limit: int = 5) -> int:
        seen.extend([inner, many, limit])
        return limit

    assert await store.invoke({"inner": {"label": "a"}, "many": [{"label": "b"}]}, CTX) == 5
    assert seen == [Inner(label="a"), [Inner(label="b")], 5]


async def test_bad_arguments_name_the_tool_and_each_field_and_do_not_run_it() -> None:
    ran = False

    @tool
    async def add(a: int, b: int) -> None:
        nonlocal ran
        ran = True

    with pytest.raises(ToolArgumentsError) as caught:
        await add.invoke({"a": "x", "c": 1}, CTX)
    text = str(caught.value)
    assert text.startswith("tool 'add' did not run")
    assert [line[2:3] for line in text.splitlines()[1:]] == ["a", "b", "c"]
    assert not ran


async def test_a_tool_from_a_schema_checks_its_arguments() -> None:
    made = Tool(
        name="weather",
        parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        run=lambda city: f"sunny in {city}",
    )
    assert await made.invoke({"city": "Oslo"}, CTX) == "sunny in Oslo"
    with pytest.raises(ToolArgumentsError, match=r"tool 'weather'.*\n- city: 5 is not of type 'string'"):
        await made.invoke({"city": 5}, CTX)


async def test_the_context_reaches_the_parameter_that_asks_for_it() -> None:
    @tool
    async def who(ctx: ToolContext, greeting: str, again: ToolContext | None = None) -> list[Any]:
        assert again is ctx
        return [greeting, ctx.tool_call_id, ctx.run_id, ctx.agent_id, ctx.step, ctx.request_context]

    assert list(who.parameters["properties"]) == ["greeting"]
    assert await who.invoke({"greeting": "hi"}, CTX) == ["hi", "c1", "r1", "a1", 2, {"user": 7}]


async def test_the_model_cannot_put_something_in_place_of_the_context() -> None:
    def who(ctx: ToolContext, **options: str) -> str:
        return ctx.run_id

    made = Tool(name="who", parameters={"type": "object"}, run=who)
    assert await made.invoke({"a": "b"}, CTX) == "r1"
    with pytest.raises(ToolArgumentsError, match="- ctx: "):
        await made.invoke({"ctx": "forged"}, CTX)


def test_the_context_is_read_only() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CTX.step = 3  # type: ignore[misc]
    assert ToolContext(tool_call_id="c", tool_name="t", messages=(Message("user", "x"),)).messages[0].text == "x"


async def test_d21_none_is_a_result_like_any_other() -> None:
    @tool
    async def nothing() -> None: ...

    assert await nothing.invoke({}, CTX) is None


async def test_a_tools_own_exception_passes_as_it_is() -> None:
    error = KeyError("no such thing")

    @tool
    def fail() -> None:
        raise error

    with pytest.raises(KeyError) as caught:
        await fail.invoke({}, CTX)
    assert caught.value is error


async def test_a_sync_tool_that_raises_stop_iteration_does_not_vanish() -> None:
    @tool
    def fail() -> None:
        next(iter(()))

    with pytest.raises((RuntimeError, StopIteration)):
        await fail.invoke({}, CTX)


async def test_a32_sync_tools_run_in_threads_side_by_side_while_the_loop_goes_on() -> None:
    both = threading.Barrier(3)  # two tools and a thread that only the event loop can start
    threads: set[int] = set()

    @tool
    def block() -> str:
        both.wait(timeout=5)
        threads.add(threading.get_ident())
        return "done"

    results: list[str] = []

    async def call() -> None:
        results.append(await block.invoke({}, CTX))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            group.start_soon(call)
            while both.n_waiting < 2:
                await anyio.lowlevel.checkpoint()
            await anyio.to_thread.run_sync(both.wait, 5)
    assert results == ["done", "done"]
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_a32_context_variables_reach_a_sync_tool_and_what_it_sets_stays_there() -> None:
    @tool
    def read() -> str:
        seen = variable.get()
        variable.set("from the thread")
        return seen

    token = variable.set("from the caller")
    try:
        assert await read.invoke({}, CTX) == "from the caller"
        assert variable.get() == "from the caller"
    finally:
        variable.reset(token)


async def test_a32_async_tools_stay_on_the_event_loop() -> None:
    @tool
    async def where() -> bool:
        await anyio.lowlevel.checkpoint()
        return threading.current_thread() is threading.main_thread()

    assert await where.invoke({}, CTX) is (threading.current_thread() is threading.main_thread())


async def test_a32_an_awaitable_that_a_sync_function_returns_is_awaited_on_the_loop() -> None:
    async def work(n: int) -> set[int]:
        await anyio.lowlevel.checkpoint()
        return {n, threading.get_ident()}

    def wrapper(n: int) -> Awaitable[set[int]]:
        return work(n)

    assert await as_tool(wrapper).invoke({"n": 1}, CTX) == sorted({1, threading.get_ident()})


async def test_a32_a_decorated_async_function_is_awaited() -> None:
    async def work(n: int) -> int:
        return n + 1

    @functools.wraps(work)
    def traced(*args: Any, **kwargs: Any) -> Any:
        return work(*args, **kwargs)

    assert await as_tool(traced).invoke({"n": 1}, CTX) == 2


async def test_methods_partials_and_callable_objects_run() -> None:
    class Adder:
        def __init__(self, by: int) -> None:
            self.by = by

        def add(self, n: int, *, times: int = 1) -> int:
            return n + self.by * times

        async def __call__(self, n: int) -> int:
            return n + self.by

    assert await as_tool(Adder(2).add).invoke({"n": 1}, CTX) == 3
    assert await as_tool(functools.partial(Adder(2).add, times=3)).invoke({"n": 1}, CTX) == 7
    assert await as_tool(Adder(2)).invoke({"n": 1}, CTX) == 3


async def test_a_generator_gives_a_list_and_runs_in_the_thread() -> None:
    @tool
    def lines() -> Iterator[str]:
        yield "a"
        yield str(threading.current_thread() is threading.main_thread())

    assert await lines.invoke({}, CTX) == ["a", "False"]


# --- timeouts and cancellation


async def test_an_overrunning_tool_is_cancelled_and_its_error_names_tool_and_seconds() -> None:
    ended = anyio.Event()

    @tool(timeout=0.01)
    async def slow() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with anyio.fail_after(5):
        with pytest.raises(ToolTimeoutError, match=r"^tool 'slow' timed out after 0.01 s$"):
            await slow.invoke({}, CTX)
        assert ended.is_set()


async def test_a_timeout_error_of_the_tools_own_is_not_taken_for_ours() -> None:
    error = TimeoutError("upstream")

    @tool(timeout=5)
    async def fail() -> None:
        raise error

    with pytest.raises(TimeoutError) as caught:
        await fail.invoke({}, CTX)
    assert caught.value is error


async def test_a_tool_within_its_timeout_gives_its_result() -> None:
    @tool(timeout=5)
    async def quick() -> str:
        return "ok"

    assert await quick.invoke({}, CTX) == "ok"


async def test_an_abandoned_thread_is_left_behind_on_a_timeout() -> None:
    go_on = threading.Event()

    @tool(timeout=0.01, abandon=True)
    def slow() -> None:
        go_on.wait(5)

    try:
        with anyio.fail_after(2), pytest.raises(ToolTimeoutError, match="tool 'slow'"):
            await slow.invoke({}, CTX)
        assert not go_on.is_set()
    finally:
        go_on.set()


@pytest.mark.parametrize("abandon", [False, True])
async def test_a_cancel_waits_for_the_thread_unless_it_is_abandoned(abandon: bool) -> None:
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @tool(abandon=abandon)
    def slow() -> None:
        started.set()
        go_on.wait(5)
        ended.set()

    ended_at_exit: list[bool] = []

    async def call() -> None:
        with scope:
            await slow.invoke({}, CTX)
        ended_at_exit.append(ended.is_set())

    try:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                scope = anyio.CancelScope()
                group.start_soon(call)
                while not started.is_set():
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
                assert not ended_at_exit or abandon
                if not abandon:
                    go_on.set()
    finally:
        go_on.set()
    assert ended_at_exit == [not abandon]


# --- results as JSON


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Mood(enum.StrEnum):
    GOOD = "good"


@dataclasses.dataclass(slots=True)
class Record:
    at: datetime
    inner: Any = None


@pydantic_dataclass
class Checked:
    raw: bytes


class Pair(NamedTuple):
    a: int
    b: Any


class Raw(BaseModel):
    raw: bytes
    color: Color = Color.RED
    number: float = 1.0


class OwnRules(BaseModel):
    amount: int

    @field_serializer("amount", when_used="json")
    def in_words(self, amount: int) -> str:
        return f"{amount} EUR"


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


async def test_a33_the_field_case_reaches_the_model_as_json() -> None:
    @tool
    def report() -> dict[str, Any]:
        return {"at": NOON, "sum": Decimal("1.10"), "id": ID, "tags": {"a"}, "raw": b"\xff"}

    assert await report.invoke({}, CTX) == {
        "at": "2026-01-02T12:00:00Z",
        "sum": "1.10",
        "id": str(ID),
        "tags": ["a"],
        "raw": "/w==",
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (1, 1),
        (2**70, 2**70),
        ("text", "text"),
        (1.5, 1.5),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(seconds=90), "PT1M30S"),
        (Decimal("1.10"), "1.10"),
        (Color.RED, "red"),
        (Level.HIGH, 3),
        (Mood.GOOD, "good"),
        (b"\xff", "/w=="),
        (bytearray(b"\xff"), "/w=="),
        (memoryview(b"\xff"), "/w=="),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ((1, (2,)), [1, [2]]),
        (deque([1]), [1]),
        (range(2), [0, 1]),
        ({"a": 1}.keys(), ["a"]),
        (Pair(1, b"\xff"), [1, "/w=="]),
        (Path("a/b"), "a/b"),
        (ipaddress.ip_network("10.0.0.0/8"), "10.0.0.0/8"),
        (OrderedDict(a=Color.RED), {"a": "red"}),
        ({1: "a", Color.RED: "b", ID: "c", None: "d"}, {"1": "a", "red": "b", str(ID): "c", "None": "d"}),
        (Record(NOON, [Pair(1, NOON)]), {"at": "2026-01-02T12:00:00Z", "inner": [[1, "2026-01-02T12:00:00Z"]]}),
        (Raw(raw=b"text"), {"raw": "text", "color": "red", "number": 1.0}),
        (Raw(raw=b"\xff", number=math.nan), {"raw": "/w==", "color": "red", "number": "NaN"}),
        ({"deep": [Raw(raw=b"\xff")]}, {"deep": [{"raw": "/w==", "color": "red", "number": 1.0}]}),
        (Checked(b"\xff"), {"raw": "/w=="}),
        (OwnRules(amount=5), {"amount": "5 EUR"}),
        ([math.nan, math.inf, -math.inf], ["NaN", "Infinity", "-Infinity"]),
    ],
)  # fmt: skip
def test_a33_python_values_become_json_values(value: object, expected: object) -> None:
    got = to_json_value(value)
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    "wrap",
    [lambda x: x, lambda x: [x], lambda x: {"a": {"b": x}}, lambda x: Record(NOON, x), lambda x: {x: 1}],
)
def test_a33_what_has_no_json_form_names_tool_and_type(wrap: Callable[[object], object]) -> None:
    with pytest.raises(ToolError, match=r"tool 'it' returned a .*AClass"):
        to_json_value(wrap(AClass()), owner="tool 'it'")


async def test_a33_an_unserialisable_result_is_a_tool_error_in_the_thread_and_on_the_loop() -> None:
    def sync() -> object:
        return object()

    async def on_loop() -> object:
        return object()

    for function in (sync, on_loop):
        with pytest.raises(ToolError, match=f"tool '{function.__name__}' returned a object"):
            await as_tool(function).invoke({}, CTX)


def test_a33_what_contains_itself_is_a_tool_error() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ToolError, match="tool 'it' returned a list"):
        to_json_value(loop, owner="tool 'it'")


def test_a33_a_model_whose_own_rules_fail_is_a_tool_error() -> None:
    class Broken(BaseModel):
        a: int = 1

        @field_serializer("a")
        def fail(self, _: int) -> str:
            msg = "cannot"
            raise ValueError(msg)

    with pytest.raises(ToolError, match=r"Broken.*cannot"):
        to_json_value(Broken())


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("bad \ud83d tail\x00", "bad \ufffd tail\ufffd"),
        ("pair \ud83d\ude00", "pair \U0001f600"),
        ("fine \U0001f600 ä", "fine \U0001f600 ä"),
    ],
)
def test_a34_texts_are_cleaned_wherever_they_are(text: str, clean: str) -> None:
    assert clean_text(text) == clean
    assert to_json_value({text: [text, Record(NOON, text)]}) == {
        clean: [clean, {"at": "2026-01-02T12:00:00Z", "inner": clean}]
    }


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]))
    | st.binary()
    | st.decimals()
    | st.datetimes()
    | st.uuids()
    | st.sampled_from([Color.RED, Level.HIGH, Mood.GOOD])
    | st.frozensets(st.integers() | st.text()),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.dictionaries(st.text() | st.integers() | st.none() | st.binary(), inner)
        | st.builds(Record, at=st.datetimes(), inner=inner)
    ),
    max_leaves=10,
)


@given(VALUES)
def test_whatever_comes_out_is_json_that_can_be_sent_and_stays_as_it_is(value: object) -> None:
    got = to_json_value(value)
    text = json.dumps(got, allow_nan=False, ensure_ascii=False)
    assert json.loads(text.encode()) == got
    assert to_json_value(got) == got
