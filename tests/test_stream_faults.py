"""A stream under odd conditions: cancels that race, errors that replace cancels, models that misbehave."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.streams import read_all, read_failing

from mastra_py import Agent, ModelError, RunError, ScorerRun, StreamError, StreamErrorRetryProcessor, TripWire
from mastra_py.events import AgentEvent, ModelFinished, RunAborted, TextDelta, TextEnd, TextStart, ToolCall
from mastra_py.messages import Usage
from mastra_py.testing import FunctionModel, ScriptedModel, Turn, api_error, assert_well_formed

BROKEN = Turn(text_chunks=["ha", "lf"], error=api_error(500), error_at="mid_stream")


def agent(*turns: Any, **options: Any) -> Agent:
    return Agent(id="a", model=ScriptedModel(turns), **options)


async def whole_length() -> int:
    def scorer(run: ScorerRun) -> bool:
        return run.output == "two"

    events, _ = await read_all(agent("one", "two"), is_task_complete=scorer)
    return len(events)


async def test_cancelled_at_any_event_a_run_ends_with_one_abort() -> None:
    for index in range(await whole_length() - 1):
        events: list[AgentEvent] = []
        async with agent("one", "two").stream("go", is_task_complete=lambda run: run.output == "two") as stream:
            async for event in stream:
                events.append(event)
                if len(events) == index + 1:
                    stream.cancel()
            result = await stream.result()
        assert_well_formed(events)
        assert len(events) == index + 2, "what waits is not delivered after a cancel"
        assert isinstance(events[-1], RunAborted)
        assert result.stop_reason == "cancelled"


async def test_partial_text_is_what_the_reader_has_seen() -> None:
    async def flood(request: object) -> Any:
        yield TextStart()
        for text in ("one ", "two ", "three"):
            yield TextDelta(text)
        await anyio.sleep_forever()

    with anyio.fail_after(5):
        async with Agent(id="a", model=FunctionModel(flood)).stream("go") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    await anyio.wait_all_tasks_blocked()
                    stream.cancel()
            result = await stream.result()
    assert result.partial_text == "one "


async def test_text_that_was_taken_back_is_no_partial_text() -> None:
    limited = Turn(text="half", error=api_error(429, headers={"retry-after": "20"}), error_at="mid_stream")
    runner = agent(limited, error_processors=[StreamErrorRetryProcessor()])
    with anyio.fail_after(5):
        async with runner.stream("go") as stream, anyio.create_task_group() as tasks:

            async def read() -> None:
                async for _ in stream:
                    pass

            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            stream.cancel()
    assert (await stream.result()).partial_text is None


async def test_a_cancel_from_a_callback_of_the_last_step_counts() -> None:
    stream: Any = None

    def cancel(step: object) -> None:
        stream.cancel()

    stream = agent("done").stream("go", on_step=cancel)
    async with stream:
        assert [e.type async for e in stream][-1] == "abort"


async def test_nothing_is_scored_after_a_cancel() -> None:
    ran: list[str] = []
    stream: Any = None

    def first(run: ScorerRun) -> float:
        ran.append("first")
        stream.cancel()
        return 1

    def second(run: ScorerRun) -> float:
        ran.append("second")
        return 1

    from mastra_py import TaskCompletion

    gate = TaskCompletion([first, second], parallel=False)
    stream = agent("draft").stream("go", is_task_complete=gate)
    async with stream:
        result = await stream.result()
    assert (ran, result.stop_reason, result.text) == (["first"], "cancelled", "draft")


async def test_the_draft_that_a_cancel_during_its_check_leaves_is_yielded() -> None:
    stream: Any = None
    stream = agent("draft").stream("go", is_task_complete=lambda run: stream.cancel() or 0)
    async with stream:
        assert [text async for text in stream.text_deltas()] == ["draft"]
        assert (await stream.result()).text == "draft"


async def test_live_text_read_after_result_holds_nothing_that_was_taken_back() -> None:
    runner = agent(BROKEN, "whole", error_processors=[StreamErrorRetryProcessor()])
    async with runner.stream("go") as stream:
        texts = stream.text_deltas()
        result = await stream.result()
        assert [text async for text in texts] == ["whole"]
    assert result.text == "whole"


async def test_an_empty_delta_is_nothing_shown() -> None:
    runner = agent(
        Turn(text_chunks=["", ""], error=api_error(500), error_at="mid_stream"),
        "whole",
        error_processors=[StreamErrorRetryProcessor()],
    )
    async with runner.stream("go") as stream:
        assert [text async for text in stream.text_deltas()] == ["whole"]


async def test_usage_of_a_reply_that_was_whole_is_counted_though_the_run_was_cancelled() -> None:
    async with agent(Turn(text="x", usage=Usage(input_tokens=5))).stream("go") as stream:
        async for event in stream:
            if event.type == "model-finish":
                stream.cancel()
        assert (await stream.result()).usage.input_tokens == 5


class Fatal(BaseException):
    """Ends the program, like KeyboardInterrupt."""


async def test_what_ends_the_program_leaves_a_model_bare() -> None:
    def fails(request: object) -> str:
        raise Fatal

    with pytest.raises(Fatal):
        async with Agent(id="a", model=FunctionModel(fails)).stream("go") as stream:
            async for _ in stream:
                pass
    with pytest.raises(Fatal):
        async with Agent(id="a", model=FunctionModel(fails)).stream("go") as stream:
            await stream.result()


@pytest.mark.asyncio  # a native cancellation is said only once
async def test_an_error_that_replaces_a_native_cancel_is_not_retried() -> None:
    async def stubborn(request: object) -> Any:
        yield TextStart()
        try:
            await anyio.sleep_forever()
        finally:
            raise ConnectionResetError("cleanup")

    model = FunctionModel(stubborn)
    runner = Agent(id="a", model=model, error_processors=[StreamErrorRetryProcessor()])
    task = asyncio.create_task(runner.generate("go"))
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    task.cancel()
    with pytest.raises(ConnectionResetError):
        await task
    assert model.calls == 1


@pytest.mark.asyncio  # trio has no futures that are cancelled from elsewhere
async def test_a_cancellation_that_nobody_asked_for_is_an_error() -> None:
    async def lost(request: object) -> str:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        future.cancel()
        return await future

    events, error = await read_failing(Agent(id="a", model=FunctionModel(lost)))
    assert isinstance(error, RunError)
    assert events[-1].type == "error"


async def test_a_reply_that_says_it_failed_is_no_answer_and_its_tools_do_not_run() -> None:
    ran: list[str] = []

    def work() -> None:
        """Work."""
        ran.append("work")

    async def failing(request: object) -> Any:
        yield ToolCall("c", "work", {})
        yield ModelFinished(finish_reason="error")

    _, error = await read_failing(Agent(id="a", model=FunctionModel(failing), tools=[work]))
    assert isinstance(error, StreamError)
    assert ran == []


async def test_a_model_that_goes_on_after_it_has_finished_is_at_fault() -> None:
    async def endless(request: object) -> Any:
        yield ModelFinished(finish_reason="stop")
        yield TextStart()
        yield TextDelta("more")
        yield TextEnd()

    _, error = await read_failing(Agent(id="a", model=FunctionModel(endless)))
    assert isinstance(error, StreamError)
    assert "after it had finished" in str(error)


async def test_a_close_that_raises_does_not_throw_a_whole_reply_away(caplog: pytest.LogCaptureFixture) -> None:
    async def untidy(request: object) -> Any:
        yield TextStart()
        yield TextDelta("whole")
        yield TextEnd()
        try:
            yield ModelFinished(finish_reason="stop")
        finally:
            raise OSError("close")

    _, result = await read_all(Agent(id="a", model=FunctionModel(untidy)))
    assert result.text == "whole"
    assert "it is whole" in caplog.text


async def test_the_finish_reason_of_a_failed_last_call_is_error() -> None:
    class Guard:
        id = "guard"

        async def process_api_error(self, ctx: object, /) -> None:
            raise TripWire("no more")

    runner = agent(Turn(text="half", error=api_error(500), error_at="mid_stream"), error_processors=[Guard()])
    _, result = await read_all(runner)
    assert (result.stop_reason, result.finish_reason, result.partial_text) == ("tripwire", "error", None)


@pytest.mark.parametrize("answer", [True, {"retry": True}, "yes"])
async def test_an_error_processor_that_answers_nonsense_is_passed_over(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd:
        id = "odd"

        async def process_api_error(self, ctx: object, /) -> Any:
            return answer

    _, error = await read_failing(agent(Turn(error=api_error(500)), error_processors=[Odd()]))
    assert isinstance(error, ModelError)
    assert "odd" in caplog.text


async def test_an_error_that_is_raised_again_does_not_grow() -> None:
    async with agent(Turn(error=api_error(500))).stream("go") as stream:
        depths: list[int] = []
        for _ in range(3):
            with pytest.raises(ModelError) as caught:
                await stream.result()
            depths.append(len(caught.traceback))
    assert len(set(depths)) == 1


async def test_finished_and_cancelled_streams_need_no_garbage_collector() -> None:
    async def one(turn: Any, *, cancel: bool = False) -> weakref.ref[Any]:
        stream = agent(turn).stream("go")
        async with stream:
            if cancel:
                await anext(stream)
            else:
                async for _ in stream:
                    pass
        return weakref.ref(stream)

    gc.collect()
    gc.disable()
    try:
        streams = [await one("x"), await one("x", cancel=True)]
        await anyio.lowlevel.checkpoint()
        assert [ref() for ref in streams] == [None, None]
    finally:
        gc.enable()
