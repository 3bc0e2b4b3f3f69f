"""The grammar of a stream holds for the events of sub-agents too: whatever breaks it is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.streams import read_all
from support.supervising import asking, nested, scripted, supervisor

from mastra_py.events import AgentEvent, BudgetExceeded, RunFinished, RunStarted, StepStarted, SubAgentEvent
from mastra_py.testing import Turn, assert_well_formed
from mastra_py.usage import RunUsage

USING = Turn(tool_calls=[("w", "work", {})])


async def work() -> str:
    return "worked"


async def recorded() -> list[AgentEvent]:
    second = scripted("second", asking(("third", "3"), call_id="b"), "2", agents={"third": scripted("third", "x")})
    boss = supervisor(
        asking(("second", "2"), ("other", "o"), call_id="a"), second, scripted("other", USING, "y", tools=[work])
    )
    events, _ = await read_all(boss)
    return events


def is_broken(events: list[AgentEvent]) -> None:
    with pytest.raises(AssertionError):
        assert_well_formed(events)


async def test_the_grammar_refuses_a_stream_that_lacks_what_the_events_of_a_sub_agent_need() -> None:
    events = await recorded()
    needed = {"start", "step-start", "text-start", "text-delta", "text-end", "tool-call", "step-finish", "finish"}
    for index, event in enumerate(events):
        if isinstance(event, SubAgentEvent) and event.event.type in needed | {"tool-result"}:
            is_broken([*events[:index], *events[index + 1 :]])


async def test_the_grammar_refuses_events_of_a_sub_agent_outside_of_its_call() -> None:
    events = await recorded()
    inside = [i for i, e in enumerate(events) if isinstance(e, SubAgentEvent)]
    called = next(i for i, e in enumerate(events) if e.type == "tool-call")
    ended = max(i for i, e in enumerate(events) if e.type == "tool-result")
    for index in inside:
        without = [*events[:index], *events[index + 1 :]]
        is_broken([*without[:called], events[index], *without[called:]])
        is_broken([*without[:ended], events[index], *without[ended:]])


async def test_the_grammar_refuses_doubled_events_of_a_sub_agent() -> None:
    events = await recorded()
    for index, event in enumerate(events):
        if isinstance(event, SubAgentEvent) and event.event.type != "tool-call-delta":
            is_broken([*events[: index + 1], event, *events[index + 1 :]])


@pytest.mark.parametrize(
    "wrong",
    [
        {"depth": 2},
        {"depth": 0},
        {"path": ()},
        {"path": (), "depth": 0},
        {"path": ("a1", "b9")},
        {"path": ("zz",), "tool_call_id": "zz"},
        {"tool_call_id": "zz"},
        {"path": ("a1", "zz"), "tool_call_id": "zz", "depth": 2},
    ],
)
async def test_the_grammar_refuses_an_event_that_says_a_wrong_way(wrong: dict[str, Any]) -> None:
    events = await recorded()
    index = next(i for i, e in enumerate(events) if isinstance(e, SubAgentEvent))
    events[index] = dataclasses.replace(events[index], **wrong)
    is_broken(events)


async def test_the_grammar_refuses_an_event_wrapped_twice() -> None:
    events = await recorded()
    index = next(i for i, e in enumerate(events) if isinstance(e, SubAgentEvent))
    events[index] = dataclasses.replace(events[index], event=events[index])
    is_broken(events)


async def test_the_grammar_refuses_a_call_that_ends_well_before_its_sub_agent() -> None:
    events = await recorded()
    for id in ("second", "other"):
        kept = [
            e for e in events if not (isinstance(e, SubAgentEvent) and e.agent_id == id and e.event.type == "finish")
        ]
        is_broken(kept)


async def test_the_grammar_refuses_a_second_run_for_one_call() -> None:
    events = await recorded()
    for id in ("second", "other"):
        inside = [e for e in events if isinstance(e, SubAgentEvent) and e.path[0] == nested(events, id)[0].path[0]]
        last = events.index(inside[-1])
        is_broken([*events[: last + 1], *inside, *events[last + 1 :]])


def test_the_grammar_wants_the_end_right_after_a_budget_is_used_up() -> None:
    usage = RunUsage(by={})
    begin = [RunStarted(run_id="r", agent_id="a"), StepStarted(step=1)]
    exceeded = BudgetExceeded(limit="max_requests", usage=usage, step=1)
    end = RunFinished(stop_reason="budget", finish_reason=None, text="", usage=usage, step=1)
    assert_well_formed([*begin, exceeded, end])
    is_broken([*begin, exceeded])
    is_broken([*begin, exceeded, exceeded, end])
    is_broken([exceeded, *begin, end])
    is_broken([*begin, end, exceeded])
