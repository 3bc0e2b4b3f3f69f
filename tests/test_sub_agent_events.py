"""The events of sub-agents in their supervisor's stream: order, pace, borders, and ways of reading."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel
from support.streams import read_all, types
from support.supervising import asking, model_of, nested, scripted, supervisor, told

from mastra_py import Agent, StreamErrorRetryProcessor
from mastra_py._loop.channel import LIMIT
from mastra_py.events import AgentEvent, ModelFinished, SubAgentEvent, TextDelta, TextEnd, TextStart
from mastra_py.messages import Usage
from mastra_py.testing import FunctionModel, ScriptedModel, Turn, api_error, assert_well_formed


async def work() -> str:
    return "worked"


USING = Turn(tool_calls=[("w", "work", {})])


# --- order


async def test_events_of_a_sub_agent_come_between_the_call_and_its_result() -> None:
    events, _ = await read_all(supervisor(asking(("writer", "w")), scripted("writer", USING, "text", tools=[work])))
    outer = types(events)
    called, answered = outer.index("tool-call"), outer.index("tool-result")
    assert set(outer[called + 1 : answered]) == {"model-finish", "tool-output"}
    assert "tool-output" not in outer[:called] + outer[answered:]
    inner = types([e.event for e in nested(events)])
    assert inner[0] == "start"
    assert inner[-1] == "finish"
    assert inner == types((await read_all(scripted("writer", USING, "text", tools=[work])))[0])


async def test_an_event_names_the_agent_the_call_the_depth_and_the_step() -> None:
    boss = supervisor(USING, scripted("writer", "text"), then=[asking(("writer", "w")), "done"], tools=[work])
    events, _ = await read_all(boss)
    for event in nested(events):
        assert (event.agent_id, event.tool_call_id, event.depth, event.path) == ("writer", "c1", 1, ("c1",))
        assert event.step == 2
        assert event.event.step in {0, 1}


async def test_events_of_deeper_agents_are_wrapped_once_and_say_the_way_to_them() -> None:
    third = scripted("third", "bottom")
    second = scripted("second", asking(("third", "3"), call_id="b"), "2", agents={"third": third})
    then = [asking(("second", "2"), call_id="a"), "done"]
    events, _ = await read_all(supervisor(USING, second, then=then, tools=[work]))
    assert {event.step for event in nested(events)} == {2}
    assert {(e.depth, e.path, e.tool_call_id, type(e.event) is SubAgentEvent) for e in nested(events, "third")} == {
        (2, ("a1", "b1"), "b1", False)
    }
    order = [(e.agent_id, e.event.type) for e in nested(events) if e.event.type in {"start", "finish", "tool-result"}]
    assert order == [
        ("second", "start"),
        ("third", "start"),
        ("third", "finish"),
        ("second", "tool-result"),
        ("second", "finish"),
    ]


async def test_siblings_speak_at_once_and_each_in_its_own_order() -> None:
    chunks = [f"{n}" for n in range(20)]
    turn = Turn(text_chunks=chunks)
    boss = supervisor(asking(("a", "1"), ("b", "2")), scripted("a", turn), scripted("b", turn))
    events, _ = await read_all(boss)
    texts = [(e.agent_id, e.event.text) for e in nested(events) if isinstance(e.event, TextDelta)]
    for id in ("a", "b"):
        assert [text for agent, text in texts if agent == id] == chunks
    assert [agent for agent, _ in texts] != sorted(agent for agent, _ in texts), "one waited for the other"


async def test_calls_of_one_id_in_two_steps_are_two_runs() -> None:
    boss = supervisor(
        asking(("a", "1")), Agent(id="a", model=ScriptedModel(["x"], repeat_last=True)), then=[asking(("a", "2")), "."]
    )
    events, _ = await read_all(boss)
    assert [e.step for e in nested(events) if e.event.type == "finish"] == [1, 2]


# --- the supervisor's own text


async def test_text_deltas_are_the_supervisors_text_alone() -> None:
    for drafts in (False, True):
        boss = supervisor(Turn(text="I ask. ", tool_calls=asking(("a", "1")).tool_calls), scripted("a", "secret"))
        async with boss.stream("go") as stream:
            assert [text async for text in stream.text_deltas(drafts=drafts)] == ["I ask. ", "done"]


async def test_a_draft_that_a_sub_agent_takes_back_takes_nothing_of_the_supervisors_back() -> None:
    child = scripted("a", "bad", "good", defaults={"is_task_complete": [lambda run: run.output == "good"]})
    boss = supervisor(Turn(text="I ask. ", tool_calls=asking(("a", "1")).tool_calls), child)
    async with boss.stream("go", is_task_complete=[lambda _: True]) as stream:
        assert [text async for text in stream.text_deltas()] == ["I ask. ", "done"]


async def test_a_sub_agent_retries_after_text_though_the_supervisors_text_is_read_live() -> None:
    broken = Turn(text="half", error=api_error(500), error_at="mid_stream")
    child = scripted("a", broken, "whole", error_processors=[StreamErrorRetryProcessor()])
    boss = supervisor(Turn(text="I ask. ", tool_calls=asking(("a", "1")).tool_calls), child)
    async with boss.stream("go") as stream:
        assert [text async for text in stream.text_deltas(drafts=True)] == ["I ask. ", "done"]
        assert told(await stream.result()) == [(False, "whole")]


class Answer(BaseModel):
    value: int


async def test_partial_outputs_are_the_supervisors_alone() -> None:
    boss = supervisor(asking(("a", "1")), scripted("a", '{"value": 7}'), then=['{"value": 1}'])
    async with boss.stream("go", output=Answer) as stream:
        values = [value async for value in stream.partial_outputs()]
    assert values[-1] == {"value": 1}
    assert {"value": 7} not in values


# --- pace


def flood(count: int, said: list[int]) -> Callable[[Any], AsyncIterator[Any]]:
    async def model(_: object) -> AsyncIterator[Any]:
        yield TextStart()
        for number in range(count):
            said.append(number)
            yield TextDelta(str(number))
            await anyio.lowlevel.checkpoint()
        yield TextEnd()
        yield ModelFinished(finish_reason="stop", usage=Usage(input_tokens=1, output_tokens=1))

    return model


class Passes:
    """An output processor that changes nothing."""

    id = "passes"

    def process_output_stream(self, event: Any, ctx: object) -> Any:
        return event


@pytest.mark.parametrize("processors", [[], [Passes()]])
async def test_a_reader_that_stops_reading_holds_all_sub_agents_back(processors: list[Any]) -> None:
    said: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    agents = [Agent(id=i, model=FunctionModel(flood(500, said[i])), output_processors=processors) for i in said]
    boss = supervisor(asking(("a", "1"), ("b", "2"), ("c", "3")), *agents)
    with anyio.fail_after(10):
        async with boss.stream("go") as stream:
            events: list[AgentEvent] = []
            waited = False
            async for event in stream:
                events.append(event)
                if not waited and event.type == "tool-output" and event.event.type == "text-delta":
                    waited = True
                    await anyio.wait_all_tasks_blocked()
                    assert sum(map(len, said.values())) <= LIMIT + len(said)
                    assert all(said.values()), "each has had a share"
            assert_well_formed(events)
    assert all(len(numbers) == 500 for numbers in said.values())


async def test_a_tool_of_a_sub_agent_starts_only_when_the_reader_has_asked_for_the_next_event() -> None:
    ran: list[str] = []
    at_work = False

    async def touch() -> str:
        assert not at_work, "the reader was at work"
        ran.append("touch")
        return "ok"

    child = scripted("a", Turn(tool_calls=[("w", "touch", {})]), "x", tools=[touch])
    seen_call = False
    with anyio.fail_after(5):
        async with supervisor(asking(("a", "1")), child).stream("go") as stream:
            async for event in stream:
                at_work = True
                await anyio.wait_all_tasks_blocked()
                if isinstance(event, SubAgentEvent) and event.event.type == "tool-call":
                    seen_call = True
                    assert ran == []
                at_work = False
    assert (seen_call, ran) == (True, ["touch"])


@pytest.mark.parametrize("reading", ["events", "slow events", "text", "drafts", "result", "break and result", "anext"])
async def test_borders_of_one_sub_agent_neither_starve_nor_block_while_others_stream(reading: str) -> None:
    chatty = Turn(text_chunks=["x"] * 400)
    busy = [Turn(text="t", tool_calls=[("w", "work", {})])] * 3
    error = Turn(text="half", error=api_error(500), error_at="mid_stream")
    retry: Any = {"error_processors": [StreamErrorRetryProcessor()], "tools": [work]}
    gate = {"is_task_complete": [lambda run: run.output == "good"]}
    children = [
        scripted("chatty", chatty),
        scripted("chatter", chatty),
        scripted("busy", *busy, error, "bad", "good", defaults={**gate, "max_steps": 9}, **retry),
    ]
    calls = asking(*[(child.id, "go") for child in children]).tool_calls
    boss = supervisor(Turn(text="I ask. ", tool_calls=calls), *children)
    with anyio.fail_after(20):
        async with boss.stream("go") as stream:
            await READINGS[reading](stream)
            result = await stream.result()
    assert [is_error for is_error, _ in told(result)] == [False, False, False]
    assert model_of(children[2]).calls == 6


async def _events(stream: Any) -> None:
    assert_well_formed([event async for event in stream])


async def _slow_events(stream: Any) -> None:
    events: list[AgentEvent] = []
    async for event in stream:
        events.append(event)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
    assert_well_formed(events)


async def _text(stream: Any) -> None:
    assert [text async for text in stream.text_deltas()] == ["I ask. ", "done"]


async def _drafts(stream: Any) -> None:
    assert [text async for text in stream.text_deltas(drafts=True)] == ["I ask. ", "done"]


async def _nothing(stream: Any) -> None:
    del stream


async def _some(stream: Any) -> None:
    seen = 0
    async for event in stream:
        seen += event.type == "tool-output"
        if seen == 20:
            break


async def _anext(stream: Any) -> None:
    while True:
        try:
            await anext(stream)
        except StopAsyncIteration:
            return


READINGS: dict[str, Any] = {
    "events": _events,
    "slow events": _slow_events,
    "text": _text,
    "drafts": _drafts,
    "result": _nothing,
    "break and result": _some,
    "anext": _anext,
}


async def test_a_tool_of_one_sub_agent_starts_though_another_never_stops_streaming() -> None:
    ran = anyio.Event()

    async def touch() -> str:
        ran.set()
        return "touched"

    async def until_then(_: object) -> AsyncIterator[Any]:
        yield TextStart()
        while not ran.is_set():
            yield TextDelta("x")
            await anyio.lowlevel.checkpoint()
        yield TextEnd()
        yield ModelFinished(finish_reason="stop", usage=Usage())

    toucher = scripted("toucher", Turn(tool_calls=[("t", "touch", {})]), "done", tools=[touch])
    boss = supervisor(
        asking(("chatty", "1"), ("toucher", "2")), Agent(id="chatty", model=FunctionModel(until_then)), toucher
    )
    with anyio.fail_after(5):
        async with boss.stream("go") as stream:
            await _slow_events(stream)
    assert ran.is_set()


async def test_leaving_the_block_among_the_events_of_a_sub_agent_ends_everything() -> None:
    closed: list[str] = []

    async def endless(_: object) -> AsyncIterator[Any]:
        try:
            yield TextStart()
            while True:
                yield TextDelta("x")
                await anyio.lowlevel.checkpoint()
        finally:
            closed.append("a")

    boss = supervisor(asking(("a", "1"), ("b", "2")), *[Agent(id=i, model=FunctionModel(endless)) for i in "ab"])
    with anyio.fail_after(5):
        async with boss.stream("go") as stream:
            speaking: set[str] = set()
            async for event in stream:
                if event.type == "tool-output" and event.event.type == "text-delta":
                    speaking.add(event.agent_id)
                if len(speaking) == 2:
                    break
    assert len(closed) == 2
