"""The life of a stream: reading, pacing, leaving, cancelling, failing."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.streams import read_all, read_failing

from mastra_py import (
    Agent,
    ModelError,
    Score,
    ScorerRun,
    StreamErrorRetryProcessor,
    TaskCompletion,
    Usage,
    UserError,
)
from mastra_py.events import (
    AgentEvent,
    OutputSuperseded,
    RunAborted,
    RunFailed,
    TaskCompletionChecked,
    TextDelta,
    ToolCall,
)
from mastra_py.testing import ScriptedModel, Turn, api_error, assert_well_formed

CALL = Turn(tool_calls=[("c1", "work", {})])


class Work:
    """A tool that says when it starts and ends, and waits to be released."""

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.release = anyio.Event()
        self.ended: list[str] = []

    async def work(self) -> str:
        """Work."""
        self.started.set()
        try:
            await self.release.wait()
        except BaseException:
            self.ended.append("cancelled")
            raise
        self.ended.append("done")
        return "worked"


def plain(*turns: Any) -> Agent:
    return Agent(id="a", model=ScriptedModel(turns or ["hello"]))


async def test_nothing_runs_before_the_first_iteration() -> None:
    model = ScriptedModel(["hello"])
    async with Agent(id="a", model=model).stream("go"):
        await anyio.wait_all_tasks_blocked()
        assert model.calls == 0


async def test_a_stream_that_is_never_entered_leaves_nothing_behind() -> None:
    plain().stream("go")
    gc.collect()


async def test_result_alone_runs_to_the_end() -> None:
    async with plain().stream("go") as stream:
        result = await stream.result()
        assert await stream.result() == result
    assert result.text == "hello"
    assert await stream.result() == result


async def test_result_after_some_events_reads_on_to_the_end_and_the_rest_can_still_be_read() -> None:
    async with plain(Turn(text_chunks=list("abcdef"))).stream("go") as stream:
        seen: list[AgentEvent] = []
        async for event in stream:
            seen.append(event)
            if isinstance(event, TextDelta):
                assert (await stream.result()).text == "abcdef"
    assert_well_formed(seen)


async def test_more_events_than_the_channel_holds_arrive_in_order() -> None:
    chunks = [f"{n} " for n in range(1000)]
    events, result = await read_all(plain(Turn(text_chunks=chunks)))
    assert [e.text for e in events if isinstance(e, TextDelta)] == chunks
    assert result.text == "".join(chunks)


async def test_tools_start_only_when_the_reader_has_asked_for_the_next_event() -> None:
    work = Work()
    work.release.set()
    agent = Agent(id="a", model=ScriptedModel([CALL, "done"]), tools=[work.work])
    async with agent.stream("go") as stream:
        async for event in stream:
            if event.type == "model-finish" and event.step == 1:
                await anyio.wait_all_tasks_blocked()
                assert not work.started.is_set()
    assert work.ended == ["done"]


async def test_scorers_start_only_when_the_reader_has_asked_for_the_next_event() -> None:
    ran: list[str] = []

    def scorer(run: ScorerRun) -> float:
        ran.append(run.output)
        return 1

    async with plain().stream("go", is_task_complete=scorer) as stream:
        async for event in stream:
            if event.type == "task-completion-started":
                await anyio.wait_all_tasks_blocked()
                assert ran == []
    assert ran == ["hello"]


async def test_a_retry_starts_only_when_the_reader_has_asked_for_the_next_event() -> None:
    model = ScriptedModel([Turn(error=api_error(500)), "ok"])
    agent = Agent(id="a", model=model, error_processors=[StreamErrorRetryProcessor()])
    async with agent.stream("go") as stream:
        async for event in stream:
            if event.type == "retry-scheduled":
                await anyio.wait_all_tasks_blocked()
                assert model.calls == 1
    assert model.calls == 2


async def test_leaving_the_block_cancels_and_awaits_a_running_tool() -> None:
    work = Work()
    agent = Agent(id="a", model=ScriptedModel([CALL, "never"]), tools=[work.work])
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks, agent.stream("go") as stream:

            async def read() -> None:
                async for _ in stream:
                    pass

            tasks.start_soon(read)
            await work.started.wait()
            tasks.cancel_scope.cancel()
    assert work.ended == ["cancelled"]


async def test_breaking_out_of_the_loop_ends_the_run_with_the_block() -> None:
    model = ScriptedModel([Turn(text_chunks=["a", "b"], hang=True)])
    with anyio.fail_after(5):
        async with Agent(id="a", model=model).stream("go") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    break
    assert (await stream.result()).stop_reason == "cancelled"


async def test_the_readers_own_exception_leaves_unwrapped() -> None:
    model = ScriptedModel([Turn(text_chunks=["a", "b"], hang=True)])
    with anyio.fail_after(5), pytest.raises(LookupError, match="mine"):
        async with Agent(id="a", model=model).stream("go") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    raise LookupError("mine")


async def test_cancel_ends_the_run_in_good_order() -> None:
    model = ScriptedModel([Turn(text_chunks=["one ", "two"], hang=True)])
    events: list[AgentEvent] = []
    with anyio.fail_after(5):
        async with Agent(id="a", model=model).stream("go") as stream:
            async for event in stream:
                events.append(event)
                if isinstance(event, TextDelta) and event.text == "two":
                    stream.cancel()
            result = await stream.result()
    assert_well_formed(events)
    assert events[-1] == RunAborted(partial_text="one two", step=1)
    assert (result.stop_reason, result.partial_text, result.text) == ("cancelled", "one two", "")
    assert [m.role for m in result.messages] == ["user"]


async def test_cancel_before_the_first_iteration_runs_nothing() -> None:
    model = ScriptedModel(["never"])
    async with Agent(id="a", model=model).stream("go") as stream:
        stream.cancel()
        stream.cancel()
        assert [e.type async for e in stream] == ["abort"]
        assert (await stream.result()).stop_reason == "cancelled"
    assert model.calls == 0


async def test_cancel_while_tools_run_leaves_a_valid_history() -> None:
    work = Work()

    async def quick() -> str:
        """Quick."""
        return "done"

    turn = Turn(tool_calls=[("1", "quick", {}), ("2", "work", {})])
    agent = Agent(id="a", model=ScriptedModel([turn, "never"]), tools=[work.work, quick])
    events: list[AgentEvent] = []
    with anyio.fail_after(5):
        async with agent.stream("go") as stream:
            async for event in stream:
                events.append(event)
                if event.type == "tool-result":
                    await work.started.wait()
                    stream.cancel()
            result = await stream.result()
    assert_well_formed(events)
    assert [m.role for m in result.messages] == ["user", "assistant", "tool"]
    first, second = result.messages[-1].tool_results
    assert (first.result, first.is_error) == ("done", False)
    assert second.is_error
    assert "interrupted" in second.result
    assert work.ended == ["cancelled"]


async def test_cancel_while_scorers_run_keeps_the_draft_and_scores_nothing_more() -> None:
    running = anyio.Event()

    async def scorer(run: ScorerRun) -> float:
        running.set()
        await anyio.sleep_forever()
        return 0

    model = ScriptedModel(["draft one", "never"])
    events: list[AgentEvent] = []
    with anyio.fail_after(5):
        async with Agent(id="a", model=model).stream("go", is_task_complete=scorer) as stream:
            async with anyio.create_task_group() as tasks:

                async def cancel() -> None:
                    await running.wait()
                    stream.cancel()

                tasks.start_soon(cancel)
                events += [event async for event in stream]
            result = await stream.result()
    assert_well_formed(events)
    assert (events[-1].type, result.stop_reason, result.text) == ("abort", "cancelled", "draft one")
    assert result.completion is None
    assert [m.text for m in result.messages] == ["go", "draft one"]


async def test_cancel_during_a_retry_wait_ends_it_at_once_and_sends_nothing_more() -> None:
    model = ScriptedModel([Turn(error=api_error(429, headers={"retry-after": "20"})), "never"])
    agent = Agent(id="a", model=model, error_processors=[StreamErrorRetryProcessor()])
    events: list[AgentEvent] = []
    with anyio.fail_after(5):
        async with agent.stream("go") as stream:
            async with anyio.create_task_group() as tasks:

                async def read() -> None:
                    events.extend([event async for event in stream])

                tasks.start_soon(read)
                await anyio.wait_all_tasks_blocked()
                stream.cancel()
    assert_well_formed(events)
    assert ([e.type for e in events[-2:]], model.calls) == (["retry-scheduled", "abort"], 1)


async def test_a_cancel_from_outside_is_never_swallowed() -> None:
    model = ScriptedModel([Turn(text="a", hang=True)])
    with anyio.fail_after(5), anyio.CancelScope() as scope:
        async with Agent(id="a", model=model).stream("go") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    scope.cancel()
        pytest.fail("the cancel was swallowed")
    assert scope.cancelled_caught


async def test_generate_is_ended_by_a_cancel_from_outside() -> None:
    work = Work()
    agent = Agent(id="a", model=ScriptedModel([CALL]), tools=[work.work])
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.generate, "go")
            await work.started.wait()
            tasks.cancel_scope.cancel()
    assert work.ended == ["cancelled"]


async def test_a_failing_run_yields_one_error_event_and_raises_the_bare_error() -> None:
    with_text = Turn(text="half", error=api_error(500, message="down"), error_at="mid_stream")
    events, error = await read_failing(plain(with_text))
    assert isinstance(error, ModelError)
    assert isinstance(events[-1], RunFailed)
    assert events[-1].error is error
    assert (error.partial_text, error.status, error.provider, error.model) == ("half", 500, "test", "scripted")
    assert [e for e in events if isinstance(e, OutputSuperseded)]


async def test_result_and_generate_raise_what_the_run_failed_with() -> None:
    with pytest.raises(ModelError, match="down"):
        await plain(Turn(error=api_error(500, message="down"))).generate("go")
    async with plain(Turn(error=api_error(500, message="down"))).stream("go") as stream:
        with pytest.raises(ModelError, match="down"):
            await stream.result()


async def test_a_stream_has_one_reader() -> None:
    async with plain().stream("go") as stream:
        stream.text_deltas()
        with pytest.raises(UserError, match="one reader"):
            aiter(stream)
        with pytest.raises(UserError, match="one reader"):
            stream.text_deltas()


async def test_two_tasks_cannot_read_one_stream() -> None:
    model = ScriptedModel([Turn(text="a", hang=True)])
    with anyio.fail_after(5):
        async with Agent(id="a", model=model).stream("go") as stream, anyio.create_task_group() as tasks:
            events = aiter(stream)

            async def read() -> None:
                async for _ in events:
                    pass

            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(UserError, match="two tasks"):
                await anext(events)
            tasks.cancel_scope.cancel()


async def test_reading_may_go_on_after_a_break_with_the_same_iterator() -> None:
    async with plain(Turn(text_chunks=["a", "b"])).stream("go") as stream:
        events = aiter(stream)
        seen: list[AgentEvent] = []
        async for event in events:
            seen.append(event)
            if isinstance(event, TextDelta):
                break
        async for event in events:
            seen.append(event)
        with pytest.raises(UserError, match="one reader"):
            await anext(stream)
    assert_well_formed(seen)


async def test_anext_on_the_stream_reads_it_too() -> None:
    async with plain().stream("go") as stream:
        assert (await anext(stream)).type == "start"
        assert (await anext(stream)).type == "step-start"


async def test_a_stream_outside_its_block_is_a_user_error() -> None:
    stream = plain().stream("go")
    with pytest.raises(UserError, match="async with"):
        async for _ in stream:
            pass
    with pytest.raises(UserError, match="async with"):
        await stream.result()
    with pytest.raises(UserError, match="async with"):
        stream.text_deltas()
    async with stream:
        pass
    with pytest.raises(UserError, match="entered before"):
        await stream.__aenter__()
    with pytest.raises(UserError, match="left before"):
        await stream.result()


async def test_text_deltas_without_scorers_come_live() -> None:
    model = ScriptedModel([Turn(text_chunks=["a", "b"], hang=True)])
    with anyio.fail_after(5):
        async with Agent(id="a", model=model).stream("go") as stream:
            texts = stream.text_deltas()
            assert [await anext(texts), await anext(texts)] == ["a", "b"]


async def test_text_deltas_with_scorers_hold_a_draft_back_until_it_stands() -> None:
    verdicts = iter([Score(0, "no"), Score(1)])
    agent = plain(Turn(text_chunks=["bad ", "draft"]), Turn(text_chunks=["good ", "draft"]))
    async with agent.stream("go", is_task_complete=lambda run: next(verdicts)) as stream:
        assert [text async for text in stream.text_deltas()] == ["good ", "draft"]


async def test_text_deltas_always_yield_the_last_draft() -> None:
    agent = plain("first", "second")
    async with agent.stream("go", is_task_complete=lambda run: 0, max_steps=2) as stream:
        assert [text async for text in stream.text_deltas()] == ["second"]
        assert (await stream.result()).text == "second"


async def test_text_deltas_with_drafts_come_live() -> None:
    agent = plain("first", "second")
    async with agent.stream("go", is_task_complete=lambda run: 0, max_steps=2) as stream:
        assert [text async for text in stream.text_deltas(drafts=True)] == ["first", "second"]


BROKEN = Turn(text="half", error=api_error(500, message="down"), error_at="mid_stream")


def retrying(*turns: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(turns)
    return Agent(id="a", model=model, error_processors=[StreamErrorRetryProcessor()]), model


async def test_a_failure_after_text_is_retried_where_events_take_it_back() -> None:
    agent, model = retrying(BROKEN, "whole")
    events, result = await read_all(agent)
    assert (result.text, model.calls) == ("whole", 2)
    assert [m.text for m in result.messages] == ["go", "whole"]
    kinds = [e.type for e in events]
    assert kinds.index("output-superseded") < kinds.index("retry-scheduled")
    assert kinds.count("step-start") == 1


async def test_a_failure_after_live_text_was_read_is_raised_with_the_partial_text() -> None:
    agent, model = retrying(BROKEN, "never")
    async with agent.stream("go") as stream:
        texts = stream.text_deltas()
        assert await anext(texts) == "half"
        with pytest.raises(ModelError) as caught:
            await anext(texts)
    assert (caught.value.partial_text, model.calls) == ("half", 1)


async def test_a_failure_before_any_live_text_is_retried() -> None:
    agent, model = retrying(Turn(error=api_error(500)), "whole")
    async with agent.stream("go") as stream:
        assert [text async for text in stream.text_deltas()] == ["whole"]
    assert model.calls == 2


async def test_a_failure_in_a_held_back_draft_is_retried_and_never_shown() -> None:
    agent, model = retrying(BROKEN, "whole")
    async with agent.stream("go", is_task_complete=lambda run: 1) as stream:
        assert [text async for text in stream.text_deltas()] == ["whole"]
    assert model.calls == 2


async def test_context_variables_are_those_of_the_stream_call() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")
    seen: list[str] = []

    async def look() -> None:
        """Look."""
        seen.append(variable.get())
        variable.set("tool")

    def scorer(run: ScorerRun) -> float:
        seen.append(variable.get())
        return 1

    agent = Agent(id="a", model=ScriptedModel([Turn(tool_calls=[("c", "look", {})]), "done"] * 2), tools=[look])
    variable.set("at the call")
    stream = agent.stream("go", is_task_complete=scorer)
    variable.set("later")
    async with stream:
        await stream.result()
    assert (seen, variable.get()) == (["at the call", "at the call"], "later")
    await agent.generate("go", is_task_complete=scorer)
    assert (seen[2:], variable.get()) == (["later", "later"], "later")


async def test_a_generator_round_a_stream_is_closed_by_aclosing() -> None:
    work = Work()
    agent = Agent(id="a", model=ScriptedModel([CALL, "never"]), tools=[work.work])

    async def calls() -> AsyncGenerator[str]:
        async with agent.stream("go") as stream:
            async for event in stream:
                if isinstance(event, ToolCall):
                    yield event.tool_name

    with anyio.fail_after(5):
        async with contextlib.aclosing(calls()) as names:
            async for name in names:
                assert name == "work"
                break


async def test_leaving_in_another_task_names_the_way_out() -> None:
    caught: list[Exception] = []
    stream = plain(Turn(text="a", hang=True)).stream("go")

    async def leave() -> None:
        try:
            await stream.__aexit__(None, None, None)
        except UserError as exc:
            caught.append(exc)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            await stream.__aenter__()
            await anext(stream)
            async with anyio.create_task_group() as other:
                other.start_soon(leave)
            await stream.__aexit__(None, None, None)
            tasks.cancel_scope.cancel()
    assert "aclosing" in str(caught[0])


@pytest.mark.parametrize("fatal", [KeyboardInterrupt, SystemExit])
async def test_a_keyboard_interrupt_in_a_tool_leaves_bare(fatal: type[BaseException]) -> None:
    def stop() -> None:
        """Stop."""

    async def die() -> None:
        """Die."""
        raise fatal

    agent = Agent(id="a", model=ScriptedModel([Turn(tool_calls=[("c", "die", {})])]), tools=[die, stop])
    with pytest.raises(fatal):
        async with agent.stream("go") as stream:
            await stream.result()


def valid(messages: tuple[Any, ...]) -> bool:
    """Whether every tool call has its result right after it, and nothing else stands between."""
    for index, message in enumerate(messages):
        if message.tool_calls:
            following = messages[index + 1] if index + 1 < len(messages) else None
            if following is None or [r.tool_call_id for r in following.tool_results] != [
                c.tool_call_id for c in message.tool_calls
            ]:
                return False
    return True


def busy_agent() -> tuple[Agent, dict[str, Any], list[str]]:
    """An agent whose run has tools, a retry, a rejected draft and an accepted one; and a log of what is running."""
    running: list[str] = []

    @contextlib.contextmanager
    def busy(what: str) -> Any:
        running.append(what)
        try:
            yield
        finally:
            running.remove(what)

    async def one() -> str:
        """One."""
        with busy("one"):
            await anyio.lowlevel.checkpoint()
        return "1"

    async def two() -> str:
        """Two."""
        with busy("two"):
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
        return "2"

    scores = iter([Score(0, "no"), Score(1)])

    async def scorer(run: ScorerRun) -> Score:
        with busy("scorer"):
            await anyio.lowlevel.checkpoint()
        return next(scores)

    async def other(run: ScorerRun) -> float:
        with busy("other"):
            await anyio.lowlevel.checkpoint()
        return 1

    turns = [
        Turn(tool_calls=[("1", "one", {}), ("2", "two", {})]),
        Turn(text="half", error=api_error(500), error_at="mid_stream"),
        "draft one",
        "draft two",
    ]
    agent = Agent(
        id="a",
        model=ScriptedModel(turns),
        tools=[one, two],
        error_processors=[StreamErrorRetryProcessor()],
    )
    return agent, {"is_task_complete": TaskCompletion([scorer, other])}, running


@pytest.mark.parametrize("inside", [True, False], ids=["stream.cancel", "scope.cancel"])
async def test_cancelled_after_any_number_of_task_switches_a_run_ends_whole(inside: bool) -> None:
    finished = 0
    for switches in range(160):
        agent, options, running = busy_agent()
        events: list[AgentEvent] = []
        scope = anyio.CancelScope()
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                with scope:
                    async with agent.stream("go", **options) as stream:

                        async def cancel(cancel_it: Any = stream.cancel if inside else scope.cancel) -> None:
                            for _ in range(switches):  # noqa: B023 -- runs within this round
                                await anyio.lowlevel.checkpoint()
                            cancel_it()

                        tasks.start_soon(cancel)
                        async for event in stream:
                            events.append(event)
                        result = await stream.result()
                        assert_well_formed(events)
                        assert valid(result.messages)
                        assert events[-1].type == ("finish" if result.stop_reason == "complete" else "abort")
                        finished += result.stop_reason == "complete"
                tasks.cancel_scope.cancel()
        assert running == []
        if not inside and events and events[-1].type != "finish":
            assert scope.cancelled_caught
    assert finished > 0, "no round was late enough: raise the number of switches"


async def test_a_check_is_reported_before_its_draft_is_taken_back() -> None:
    agent, options, _ = busy_agent()
    events, result = await read_all(agent, **options)
    assert result.text == "draft two"
    kinds = [e.type for e in events if isinstance(e, TaskCompletionChecked | OutputSuperseded)]
    assert kinds == ["output-superseded", "is-task-complete", "output-superseded", "is-task-complete"]


@pytest.mark.parametrize("end", ["read", "failed", "cancelled"])
async def test_what_an_agent_streamed_by_a_scorer_spends_is_the_scorers_however_it_ends(end: str) -> None:
    spent = Usage(input_tokens=100, output_tokens=7)
    second = (
        Turn(error=api_error(500)) if end == "failed" else Turn(text="So", hang=True) if end == "cancelled" else "fine"
    )
    model = ScriptedModel([Turn(usage=spent, tool_calls=[("c1", "look", {})]), second])

    def look() -> str:
        return "seen"

    helper = Agent(id="helper", model=model, tools=[look])

    async def judge(run: ScorerRun) -> bool:
        with contextlib.suppress(ModelError):
            async with helper.stream("check") as stream:
                async for event in stream:
                    if end == "cancelled" and event.type == "text-delta":
                        break
        return True

    with anyio.fail_after(5):
        result = await plain("draft").generate("go", is_task_complete=judge)
    (key,) = [key for key in result.usage.by if key.startswith("judge:")]
    assert result.usage.by[key].input_tokens == (101 if end == "read" else 100)
    assert result.usage.requests == 3
