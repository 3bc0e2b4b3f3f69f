"""The public doubles: the grammar finds what breaks it, scripts fail where they do not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.streams import read_all

from mastra_py import Agent, Score, StreamErrorRetryProcessor, UserError, tool
from mastra_py.events import AgentEvent, ModelFinished, RunFinished, StepFinished, TextDelta, ToolResult
from mastra_py.testing import ScriptedModel, Turn, api_error, assert_well_formed


async def rich_stream() -> list[AgentEvent]:
    """Return a stream with reasoning, tools, a retry, a rejected draft and an accepted one."""

    @tool
    def lookup() -> int:
        return 1

    scores = iter([Score(0, "no"), Score(1)])
    model = ScriptedModel(
        [
            Turn(reasoning="hm", text="let me see", tool_calls=[("1", "lookup", {}), ("2", "lookup", {})]),
            Turn(text="half", error=api_error(500), error_at="mid_stream"),
            "first",
            "second",
        ]
    )
    agent = Agent(id="a", model=model, tools=[lookup], error_processors=[StreamErrorRetryProcessor()])
    events, _ = await read_all(agent, is_task_complete=lambda run: next(scores))
    return events


def first(events: list[AgentEvent], kind: str) -> int:
    return [e.type for e in events].index(kind)


def drop(kind: str) -> Callable[[list[AgentEvent]], None]:
    return lambda events: events.__delitem__(first(events, kind))


def double(kind: str) -> Callable[[list[AgentEvent]], None]:
    return lambda events: events.insert(first(events, kind), events[first(events, kind)])


def wrong_text(events: list[AgentEvent]) -> None:
    finished = events[first(events, "step-finish")]
    assert isinstance(finished, StepFinished)
    finished.text = "something else"


def wrong_step(events: list[AgentEvent]) -> None:
    events[first(events, "text-delta")].step = 9


def foreign_result(events: list[AgentEvent]) -> None:
    result = events[first(events, "tool-result")]
    assert isinstance(result, ToolResult)
    result.tool_call_id = "unknown"


def check_before_the_model_finished(events: list[AgentEvent]) -> None:
    check = first(events, "task-completion-started")
    events[check], events[check - 1] = events[check - 1], events[check]


def something_after_the_end(events: list[AgentEvent]) -> None:
    events.append(TextDelta("late", step=events[-1].step))


@pytest.mark.parametrize(
    "breaks",
    [
        *(drop(k) for k in ("start", "step-start", "text-start", "text-end", "reasoning-end", "tool-call", "finish")),
        *(drop(k) for k in ("tool-result", "step-finish", "model-finish", "is-task-complete", "text-delta")),
        *(drop(k) for k in ("tool-call-input-streaming-start", "task-completion-started", "output-superseded")),
        *(double(k) for k in ("start", "step-start", "text-start", "text-end", "tool-result", "step-finish", "finish")),
        wrong_text,
        wrong_step,
        foreign_result,
        check_before_the_model_finished,
        something_after_the_end,
    ],
)
async def test_the_grammar_finds_what_breaks_it(breaks: Callable[[list[AgentEvent]], None]) -> None:
    events = await rich_stream()
    assert_well_formed(events)
    breaks(events)
    with pytest.raises(AssertionError):
        assert_well_formed(events)


def test_the_complaint_names_the_event_and_what_came_before() -> None:
    events: list[AgentEvent] = [ModelFinished(finish_reason="stop")]
    with pytest.raises(AssertionError, match=r"event 0, ModelFinished.*not allowed while new"):
        assert_well_formed(events)


def test_an_empty_stream_has_no_end() -> None:
    with pytest.raises(AssertionError, match="without a terminal event"):
        assert_well_formed([])


def test_a_turn_is_text_or_chunks() -> None:
    with pytest.raises(UserError):
        Turn(text="a", text_chunks=["b"])
    with pytest.raises(UserError):
        ScriptedModel([3])  # type: ignore[list-item]


async def test_repeat_last_repeats_and_leaves_nothing_over() -> None:
    with ScriptedModel(["a", "b"], repeat_last=True) as model:
        agent = Agent(id="a", model=model)
        assert [(await agent.generate("go")).text for _ in range(4)] == ["a", "b", "b", "b"]


def test_api_error_is_what_a_providers_response_becomes() -> None:
    error = api_error(
        429, headers={"Retry-After": "2"}, body={"error": {"code": "rate_limit_exceeded", "message": "slow"}}
    )
    assert (error.kind, error.status, error.code, error.retry_after, error.message) == (
        "rate_limit",
        429,
        "rate_limit_exceeded",
        2.0,
        "slow",
    )
    assert error.headers == {"retry-after": "2"}


async def test_finish_reports_the_whole_run() -> None:
    finish = (await rich_stream())[-1]
    assert isinstance(finish, RunFinished)
    assert (finish.stop_reason, finish.text, finish.usage.total_tokens) == ("complete", "second", 6)
