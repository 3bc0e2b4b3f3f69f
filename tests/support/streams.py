"""Reading whole streams in tests: every one is checked against the grammar."""

from __future__ import annotations

from typing import Any

from mastra_py import Agent, AgentResult
from mastra_py.events import AgentEvent
from mastra_py.testing import assert_well_formed


async def read_all(agent: Agent, prompt: str = "go", **options: Any) -> tuple[list[AgentEvent], AgentResult]:
    """Read a run to its end and return its events, checked, and its result."""
    async with agent.stream(prompt, **options) as stream:
        events = [event async for event in stream]
        result = await stream.result()
    assert_well_formed(events)
    return events, result


async def read_failing(agent: Agent, prompt: str = "go", **options: Any) -> tuple[list[AgentEvent], Exception]:
    """Read a run that fails and return its events, checked, and the error it raised."""
    events: list[AgentEvent] = []
    try:
        async with agent.stream(prompt, **options) as stream:
            async for event in stream:
                events.append(event)
    except Exception as exc:  # noqa: BLE001 -- whatever it is, it is handed to the test
        assert_well_formed(events)
        return events, exc
    raise AssertionError("the run did not fail")


def types(events: list[AgentEvent]) -> list[str]:
    """Return the events' types, deltas of a kind in a row as one."""
    names: list[str] = []
    for event in events:
        if not (names and names[-1] == event.type and event.type.endswith("-delta")):
            names.append(event.type)
    return names
