"""Reading whole streams in tests: every one is checked against the grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from mastra_py import Agent, AgentResult
from mastra_py.errors import ModelError
from mastra_py.events import AgentEvent, ModelEvent, TextDelta
from mastra_py.models import Model, ModelRequest
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


async def read_reply(model: Model, request: ModelRequest) -> tuple[list[ModelEvent], ModelError | None]:
    """Return the events of one reply, and the error that it ended in."""
    events: list[ModelEvent] = []
    try:
        with anyio.fail_after(30):  # a real model may be asked, on a busy machine
            async with model.stream(request) as stream:
                async for event in stream:
                    events.append(event)
    except ModelError as exc:
        return events, exc
    return events, None


def text_of(events: Sequence[ModelEvent]) -> str:
    """Return the text in the events of a reply."""
    return "".join([event.text for event in events if isinstance(event, TextDelta)])
