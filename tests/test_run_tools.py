"""The tool calls of a step: side by side, each fault an error result, everything told in call order."""

from __future__ import annotations

import random
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mastra_py._loop.tools import ToolOutcome, run_tools
from mastra_py.errors import ToolError
from mastra_py.events import ToolFailed, ToolResult
from mastra_py.messages import ToolCallPart, ToolResultPart
from mastra_py.tools import Tool, ToolContext, tool

variable: ContextVar[str] = ContextVar("variable", default="unset")


def call(name: str, args: dict[str, Any] | None = None, *, raw: str | None = None, id: str = "c") -> ToolCallPart:
    return ToolCallPart(id, name, args or {}, raw)


def context(part: ToolCallPart) -> ToolContext:
    return ToolContext(tool_call_id=part.tool_call_id, tool_name=part.tool_name, run_id="r1", step=3)


class Ran:
    """Runs calls and keeps what was emitted."""

    def __init__(self, *tools: Tool, concurrency: int = 10) -> None:
        self.tools = {t.name: t for t in tools}
        self.concurrency = concurrency
        self.events: list[ToolOutcome] = []
        self.done: dict[int, ToolResultPart] = {}

    async def emit(self, event: ToolOutcome) -> None:
        self.events.append(event)

    async def __call__(
        self, *calls: ToolCallPart, emit: Callable[[ToolOutcome], Awaitable[None]] | None = None
    ) -> list[ToolResultPart]:
        with anyio.fail_after(5):
            return await run_tools(
                calls,
                tools=self.tools,
                context=context,
                emit=emit or self.emit,
                concurrency=self.concurrency,
                done=self.done,
            )


@tool
async def echo(value: Any = None) -> Any:
    return value


async def one(ran: Ran, part: ToolCallPart) -> ToolFailed:
    """Run a call that fails, and check that event and result tell the same."""
    (result,) = await ran(part)
    (event,) = ran.events
    assert isinstance(event, ToolFailed)
    assert result == ToolResultPart(part.tool_call_id, part.tool_name, event.error, is_error=True)
    assert (event.tool_call_id, event.tool_name, event.args, event.step) == ("c", part.tool_name, part.args, 3)
    return event


# --- results


async def test_a_result_is_returned_kept_and_emitted_with_its_step() -> None:
    ran = Ran(echo)
    assert await ran(call("echo", {"value": [1]}, id="c7")) == [ToolResultPart("c7", "echo", [1])]
    assert ran.done == {0: ToolResultPart("c7", "echo", [1])}
    assert ran.events == [ToolResult(tool_call_id="c7", tool_name="echo", args={"value": [1]}, result=[1], step=3)]


async def test_no_calls_give_no_results() -> None:
    assert await Ran()() == []


async def test_d21_none_is_a_result() -> None:
    assert await Ran(echo)(call("echo")) == [ToolResultPart("c", "echo", None)]


async def test_each_tool_gets_the_context_of_its_own_call() -> None:
    @tool
    async def who(ctx: ToolContext) -> str:
        return ctx.tool_call_id

    results = await Ran(who)(call("who", id="c1"), call("who", id="c2"))
    assert [r.result for r in results] == ["c1", "c2"]


async def test_d35_events_and_results_come_in_call_order_whoever_ends_first() -> None:
    second_done, first_may_end = anyio.Event(), anyio.Event()

    @tool
    async def first() -> str:
        await first_may_end.wait()
        return "first"

    @tool
    async def second() -> str:
        second_done.set()
        msg = "second"
        raise ToolError(msg)

    ran = Ran(first, second, echo)
    seen_before: list[int] = []

    async def release() -> None:
        await second_done.wait()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        seen_before.append(len(ran.events))
        first_may_end.set()

    results: list[ToolResultPart] = []
    async with anyio.create_task_group() as group:
        group.start_soon(release)
        results += await ran(call("first"), call("second"), call("echo", {"value": "third"}))
    assert seen_before == [0]
    assert [r.result for r in results] == ["first", "second", "third"]
    assert [e.type for e in ran.events] == ["tool-result", "tool-error", "tool-result"]
    assert [e.tool_name for e in ran.events] == ["first", "second", "echo"]


async def test_an_event_is_emitted_as_soon_as_the_calls_before_it_are_done() -> None:
    first_emitted = anyio.Event()

    @tool
    async def last() -> str:
        await first_emitted.wait()
        return "last"

    ran = Ran(echo, last)

    async def emit(event: ToolOutcome) -> None:
        ran.events.append(event)
        first_emitted.set()

    await ran(call("echo"), call("last"), emit=emit)
    assert [e.tool_name for e in ran.events] == ["echo", "last"]


@pytest.mark.parametrize("concurrency", [1, 2, 3, 10])
async def test_at_most_so_many_tools_run_at_once_and_start_in_call_order(concurrency: int) -> None:
    running, most = 0, 0
    started: list[int] = []

    @tool
    async def work(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        started.append(n)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        running -= 1
        return n

    results = await Ran(work, concurrency=concurrency)(*[call("work", {"n": n}) for n in range(7)])
    assert [r.result for r in results] == list(range(7))
    assert most == min(concurrency, 7)
    if concurrency == 1:
        assert started == list(range(7))


async def test_a_failed_call_frees_its_place() -> None:
    ran = Ran(echo, concurrency=1)
    results = await ran(call("nope"), call("echo", raw="{"), call("echo", {"value": 1}))
    assert [r.is_error for r in results] == [True, True, False]


@pytest.mark.parametrize("count", [1, 4])
async def test_context_variables_a_tool_sets_reach_neither_the_caller_nor_the_next_tool(count: int) -> None:
    @tool
    async def change() -> str:
        seen = variable.get()
        variable.set("changed")
        return seen

    variable.set("mine")
    results = await Ran(change, concurrency=1)(*[call("change")] * count)
    assert [r.result for r in results] == ["mine"] * count
    assert variable.get() == "mine"


# --- faults


async def test_an_exception_reaches_the_model_as_class_and_message() -> None:
    error = ValueError("no such city")

    @tool
    async def fail() -> None:
        raise error

    event = await one(Ran(fail), call("fail"))
    assert event.error == "tool 'fail' failed: ValueError: no such city"
    assert event.exception is error


async def test_a_tool_error_reaches_the_model_in_its_own_words() -> None:
    @tool
    def fail() -> None:
        msg = "ask for a city in Norway"
        raise ToolError(msg)

    assert (await one(Ran(fail), call("fail"))).error == "ask for a city in Norway"


class Unprintable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (AssertionError(), "AssertionError"),
        (ToolError(), "ToolError"),
        (TimeoutError("upstream"), "TimeoutError: upstream"),
        (Unprintable(), "Unprintable"),
        (ValueError("\ud83d\x00"), "ValueError: \ufffd\ufffd"),
        (ExceptionGroup("two", [ValueError("a"), ExceptionGroup("", [ToolError("b")])]), "ValueError: a; ToolError: b"),
    ],
)
async def test_d35_every_exception_is_a_fault(error: Exception, text: str) -> None:
    @tool
    async def fail() -> None:
        raise error

    assert (await one(Ran(fail), call("fail"))).error == f"tool 'fail' failed: {text}"


async def test_stop_iteration_in_a_thread_is_a_fault() -> None:
    @tool
    def fail() -> None:
        next(iter(()))

    assert "StopIteration" in (await one(Ran(fail), call("fail"))).error


async def test_bad_arguments_are_a_fault_that_names_the_fields() -> None:
    @tool
    async def add(a: int) -> int:
        return a

    event = await one(Ran(add), call("add", {"a": "x"}))
    assert "'add'" in event.error
    assert "- a: " in event.error


async def test_an_unknown_name_is_a_fault_that_lists_the_tools_that_exist() -> None:
    other = Tool(name="other", run=lambda: None)
    event = await one(Ran(echo, other), call("nope"))
    assert event.error == "there is no tool 'nope'; the tools that exist: echo, other"


async def test_an_unknown_name_without_any_tools_says_so() -> None:
    assert (await one(Ran(), call("nope"))).error.endswith("exist: none")


async def test_d20_arguments_that_are_no_json_do_not_run_the_tool_and_are_quoted() -> None:
    event = await one(Ran(echo), call("echo", raw='{"value": '))
    assert "not valid JSON" in event.error
    assert """'{"value": '""" in event.error


async def test_d20_only_a_bounded_part_of_them_is_quoted() -> None:
    event = await one(Ran(echo), call("echo", raw="x" * 100_000))
    assert 200 < len(event.error) < 400


async def test_d20_blank_arguments_are_none_for_a_tool_without_parameters() -> None:
    nothing = Tool(name="nothing", run=lambda: "ran")
    ran = Ran(nothing, echo)
    results = await ran(call("nothing", raw=" \n"), call("echo", raw=""), call("nothing", raw="{"))
    assert [r.is_error for r in results] == [False, True, True]


async def test_a_timeout_is_a_fault_that_names_tool_and_seconds() -> None:
    @tool(timeout=0.01)
    async def slow() -> None:
        await anyio.sleep_forever()

    assert (await one(Ran(slow), call("slow"))).error == "tool 'slow' timed out after 0.01 s"


@pytest.mark.asyncio  # trio has no futures that can be cancelled from elsewhere
async def test_a_cancellation_of_the_tools_own_is_a_fault_and_its_siblings_go_on() -> None:
    import asyncio

    sibling_may_end = anyio.Event()

    @tool
    async def lost() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        sibling_may_end.set()
        await future

    @tool
    async def sibling() -> str:
        await sibling_may_end.wait()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        return "done"

    ran = Ran(lost, sibling)
    results = await ran(call("lost"), call("sibling"))
    assert [(r.result, r.is_error) for r in results] == [("tool 'lost' failed: CancelledError", True), ("done", False)]


# --- A31: one raises, siblings finish; a fatal error or a cancel ends them all


async def test_a31_siblings_of_a_raising_tool_finish_and_give_their_results() -> None:
    raised = anyio.Event()

    @tool
    async def fail() -> None:
        raised.set()
        msg = "boom"
        raise RuntimeError(msg)

    @tool
    async def ok() -> str:
        await raised.wait()
        await anyio.lowlevel.checkpoint()
        return "ok"

    results = await Ran(fail, ok)(call("ok"), call("fail"), call("ok"))
    assert [(r.result, r.is_error) for r in results] == [
        ("ok", False),
        ("tool 'fail' failed: RuntimeError: boom", True),
        ("ok", False),
    ]


async def test_a31_a_cancel_ends_the_slow_tool_and_keeps_what_was_finished() -> None:
    started, ended = anyio.Event(), anyio.Event()

    @tool
    async def slow() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    @tool
    async def fail() -> None:
        msg = "boom"
        raise RuntimeError(msg)

    ran = Ran(echo, fail, slow)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                await started.wait()
                while len(ran.done) < 2:
                    await anyio.lowlevel.checkpoint()
                scope.cancel()

            with anyio.CancelScope() as scope:
                group.start_soon(cancel)
                await ran(call("slow"), call("echo", {"value": 1}), call("fail"))
            assert scope.cancelled_caught
            assert ended.is_set()  # awaited before the step ends
    failed = ToolResultPart("c", "fail", "tool 'fail' failed: RuntimeError: boom", True)
    assert ran.done == {1: ToolResultPart("c", "echo", 1), 2: failed}
    assert ran.events == []  # the first call has not ended


async def test_a31_a_sync_tool_that_a_cancel_has_to_wait_for_keeps_its_result() -> None:
    started, go_on = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        started.set()
        go_on.wait(5)
        return "finished"

    ran = Ran(slow)
    scope = anyio.CancelScope()

    async def cancel() -> None:
        while not started.is_set():
            await anyio.lowlevel.checkpoint()
        scope.cancel()
        go_on.set()

    async with anyio.create_task_group() as group:
        group.start_soon(cancel)
        with scope:
            await ran(call("slow"))
    assert scope.cancelled_caught
    assert ran.done == {0: ToolResultPart("c", "slow", "finished")}


async def test_a31_a_tool_that_raises_while_cancelled_does_not_hide_the_cancel() -> None:
    started = anyio.Event()

    async def fail_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            msg = "cleanup"
            raise ValueError(msg)

    @tool
    async def slow() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(fail_when_cancelled)
            group.start_soon(anyio.sleep_forever)
            await anyio.lowlevel.checkpoint()
            started.set()

    ran = Ran(slow)
    async with anyio.create_task_group() as group:

        async def cancel() -> None:
            await started.wait()
            scope.cancel()

        with anyio.CancelScope() as scope:
            group.start_soon(cancel)
            await ran(call("slow"))
        assert scope.cancelled_caught


async def test_no_tool_starts_in_a_run_that_is_cancelled_already() -> None:
    ran_tools: list[str] = []

    @tool
    async def note() -> None:
        ran_tools.append("note")

    with anyio.CancelScope() as scope:
        scope.cancel()
        await Ran(note, concurrency=1)(call("note"), call("note"))
    assert scope.cancelled_caught
    assert ran_tools == []


class Interrupt(BaseException):
    """Something else that is meant to end the program."""


@pytest.mark.parametrize("error", [KeyboardInterrupt("k"), SystemExit(3), Interrupt("i")])
@pytest.mark.parametrize("grouped", [False, True])
async def test_a31_an_interrupt_cancels_the_siblings_and_leaves_bare(error: BaseException, grouped: bool) -> None:
    started, ended = anyio.Event(), anyio.Event()

    @tool
    async def stop() -> None:
        await started.wait()
        raise BaseExceptionGroup("", [ValueError(), error]) if grouped else error

    @tool
    async def slow() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    ran = Ran(stop, slow, echo)
    with pytest.raises(type(error)) as caught:
        await ran(call("slow"), call("stop"), call("echo"))
    assert caught.value is error
    assert ended.is_set()
    assert 1 not in ran.done


async def test_the_first_of_two_interrupts_counts() -> None:
    started = anyio.Event()

    @tool
    async def first() -> None:
        await started.wait()
        raise KeyboardInterrupt

    @tool
    async def second() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise SystemExit

    with pytest.raises(KeyboardInterrupt):
        await Ran(first, second)(call("first"), call("second"))


async def test_an_interrupt_in_a_thread_leaves_bare() -> None:
    @tool
    def stop() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit, match="3"):
        await Ran(stop)(call("stop"))


async def test_an_interrupt_wins_over_a_cancel_that_came_before() -> None:
    scope = anyio.CancelScope()
    started = anyio.Event()

    @tool
    async def stop() -> None:
        try:
            started.set()
            await anyio.sleep_forever()
        finally:
            raise KeyboardInterrupt

    async def cancel() -> None:
        await started.wait()
        scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(cancel)
        with scope, pytest.raises(KeyboardInterrupt):
            await Ran(stop)(call("stop"))
    assert not scope.cancelled_caught


@pytest.mark.parametrize("error", [RuntimeError("channel"), KeyboardInterrupt(), ExceptionGroup("g", [ValueError()])])
async def test_an_emit_that_raises_cancels_the_tools_and_its_error_leaves_bare(error: BaseException) -> None:
    ended = anyio.Event()

    @tool
    async def slow() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async def emit(event: ToolOutcome) -> None:
        assert event.tool_name == "echo"
        raise error

    ran = Ran(echo, slow)
    with pytest.raises(type(error)) as caught:
        await ran(call("echo"), call("slow"), emit=emit)
    assert caught.value is error
    assert caught.value.__cause__ is None
    assert ran.done == {0: ToolResultPart("c", "echo", None)}


async def test_a_context_that_cannot_be_made_raises_before_any_tool_runs() -> None:
    def no_context(_: ToolCallPart) -> ToolContext:
        raise LookupError

    ran = Ran(echo)
    with pytest.raises(LookupError):
        await run_tools([call("echo")], tools=ran.tools, context=no_context, emit=ran.emit, concurrency=1)
    assert ran.events == []


# --- any mix of calls


KINDS = st.sampled_from(["ok", "raise", "unknown", "args", "json"])


@settings(max_examples=60)
@given(kinds=st.lists(KINDS, max_size=8), concurrency=st.integers(1, 4), seed=st.integers(0, 10**6))
async def test_any_mix_of_calls_gives_one_result_and_one_event_each_in_order(
    kinds: list[str], concurrency: int, seed: int
) -> None:
    order = random.Random(seed)  # noqa: S311

    @tool
    async def work(n: int, fail: bool = False) -> int:
        for _ in range(order.randrange(6)):
            await anyio.lowlevel.checkpoint()
        if fail:
            msg = str(n)
            raise ValueError(msg)
        return n

    parts = {
        "ok": lambda n: call("work", {"n": n}, id=str(n)),
        "raise": lambda n: call("work", {"n": n, "fail": True}, id=str(n)),
        "unknown": lambda n: call("nope", id=str(n)),
        "args": lambda n: call("work", {"m": n}, id=str(n)),
        "json": lambda n: call("work", raw="{", id=str(n)),
    }
    ran = Ran(work, concurrency=concurrency)
    results = await ran(*[parts[kind](n) for n, kind in enumerate(kinds)])
    ids = [str(n) for n in range(len(kinds))]
    assert [r.tool_call_id for r in results] == ids
    assert [e.tool_call_id for e in ran.events] == ids
    assert [r.is_error for r in results] == [kind != "ok" for kind in kinds]
    assert [e.type == "tool-error" for e in ran.events] == [kind != "ok" for kind in kinds]
    assert ran.done == dict(enumerate(results))
