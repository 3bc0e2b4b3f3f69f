"""A supervisor's run is cancelled at any task step: it ends, no model is called and no tool starts any more, its
history is valid, and nothing is left of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support import nth_step
from support.http_server import HTTPServer, chunks, sse
from support.supervising import asking, is_valid

from mastra_py import Agent, AgentResult, StreamErrorRetryProcessor
from mastra_py.events import AgentEvent, ModelEvent
from mastra_py.models import OpenAIChatModel
from mastra_py.models.base import ModelRequest
from mastra_py.testing import ScriptedModel, Turn, api_error, assert_well_formed

FAR = 1_000_000
"""More steps than any run takes."""

STRIDES = {"cancel": 1, "cancel and result": 5, "scope": 5, "generate": 5}
"""Ways to cancel, and how many steps apart."""


class Watch:
    """What a run has begun and not yet ended."""

    def __init__(self) -> None:
        self.begun = 0
        self.open = 0


class Watched(ScriptedModel):
    """A scripted model whose calls are watched."""

    def __init__(self, watch: Watch, *turns: Any) -> None:
        super().__init__(turns)
        self._watch = watch

    def stream(self, request: ModelRequest, /) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        opening = super().stream(request)

        @asynccontextmanager
        async def watched() -> AsyncIterator[AsyncIterator[ModelEvent]]:
            self._watch.open += 1
            try:
                async with opening as events:
                    self._watch.begun += 1
                    yield events
            finally:
                self._watch.open -= 1

        return watched()


def build(watch: Watch) -> Agent:
    """Return a supervisor with two sub-agents, tools on both levels, a gate and a retry on both."""

    async def work() -> str:
        watch.begun += 1
        watch.open += 1
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            watch.open -= 1
        return "worked"

    async def judge(run: Any) -> bool:
        watch.begun += 1
        await anyio.lowlevel.checkpoint()
        return "good" in run.output

    retry: dict[str, Any] = {"error_processors": [StreamErrorRetryProcessor()]}
    using = Turn(text="using", tool_calls=[("w", "work", {})])
    broken = Turn(text_chunks=["ha", "lf"], error=api_error(500), error_at="mid_stream")
    first = Agent(id="first", model=Watched(watch, broken, using, "one"), tools=[work], **retry)
    second = Agent(
        id="second", model=Watched(watch, "bad", using, "good"), tools=[work], defaults={"is_task_complete": [judge]}
    )
    both = asking(("first", "1"), ("second", "2"))
    turn = Turn(text="asking", tool_calls=[*both.tool_calls, ("w", "work", {})])
    return Agent(
        id="boss",
        model=Watched(watch, Turn(error=api_error(500)), turn, "a draft", "a good one"),
        agents={"first": first, "second": second},
        tools=[work],
        defaults={"is_task_complete": [judge]},
        **retry,
    )


class Ending:
    """How a run ended."""

    steps = 0
    events: list[AgentEvent]
    result: AgentResult[str] | None = None
    begun_after = 0
    left_open = 0
    tasks_left = 0


async def cancelled(steps: nth_step.Steps, *, backend: str, how: str) -> Ending:
    ending, watch, at_cancel = Ending(), Watch(), list[int]()
    ending.events = []
    tasks_before = nth_step.living_tasks(backend)
    agent = build(watch)
    with anyio.fail_after(5), anyio.CancelScope() as scope:
        if how == "generate":
            steps.start(lambda: (at_cancel.append(watch.begun), scope.cancel()))  # type: ignore[arg-type]
            ending.result = await agent.generate("go", max_steps=9)
        else:
            async with agent.stream("go", max_steps=9) as stream:
                cancel = stream.cancel if how in {"cancel", "cancel and result"} else scope.cancel
                steps.start(lambda: (at_cancel.append(watch.begun), cancel()))  # type: ignore[arg-type]
                if how != "cancel and result":
                    ending.events = [event async for event in stream]
                ending.result = await stream.result()
    steps.stop()
    ending.steps = steps.count
    ending.begun_after = watch.begun - at_cancel[0] if at_cancel else 0
    ending.left_open = watch.open
    ending.tasks_left = nth_step.living_tasks(backend) - tasks_before
    return ending


def play(nth: int, backend: str, how: str) -> Ending:
    async def program(steps: nth_step.Steps) -> Ending:
        return await cancelled(steps, backend=backend, how=how)

    return nth_step.run(program, nth, backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("how", STRIDES)
def test_a_supervisors_run_may_be_cancelled_at_any_step_of_any_task(how: str, backend: str) -> None:
    whole = play(FAR, backend, how)
    assert whole.result is not None
    assert (whole.result.stop_reason, whole.result.text) == ("complete", "a good one")
    assert whole.steps > 50
    reasons: set[str] = set()
    for nth in range(1, whole.steps + STRIDES[how], STRIDES[how]):
        ending = play(nth, backend, how)
        where = f"cancelled at step {nth}"
        assert ending.begun_after == 0, where
        assert (ending.left_open, ending.tasks_left) == (0, 0), where
        if ending.result is None:
            assert how in {"scope", "generate"}, where
            reasons.add("cancelled")
            continue
        reasons.add(ending.result.stop_reason)
        is_valid(ending.result.messages)
        if how == "cancel":
            assert_well_formed(ending.events)
            assert ending.events[-1].type == ("abort" if ending.result.stop_reason == "cancelled" else "finish"), where
    assert "cancelled" in reasons
    assert reasons <= {"cancelled", "complete"}, "whatever comes after the run's last step"


async def test_what_a_cancel_leaves_can_be_gone_on_with() -> None:
    agent = build(Watch())
    async with agent.stream("go", max_steps=9) as stream:
        async for event in stream:
            if event.type == "tool-output" and event.event.type == "tool-call":
                stream.cancel()
        before = await stream.result()
    further = Agent(id="boss", model=ScriptedModel(["gone on"]))
    result = await further.generate(messages=before.messages)
    assert (before.stop_reason, result.text) == ("cancelled", "gone on")
    is_valid(result.messages)


@pytest.mark.parametrize("how", ["break", "cancel", "scope"])
async def test_leaving_a_run_closes_the_connections_of_its_sub_agents(how: str) -> None:
    delta = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]}
    endless = sse(*chunks(delta, done=False), anyio.Event())
    with anyio.fail_after(10):
        async with HTTPServer(endless) as one, HTTPServer(endless) as two:
            kids = {
                key: Agent(id=key, model=OpenAIChatModel("m", base_url=server.base_url, api_key="none"))
                for key, server in (("one", one), ("two", two))
            }
            boss = Agent(id="boss", model=ScriptedModel([asking(("one", "1"), ("two", "2"))]), agents=kids)
            with anyio.CancelScope() as scope:
                async with boss.stream("go") as stream:
                    speaking: set[str] = set()
                    async for event in stream:
                        if event.type == "tool-output" and event.event.type == "text-delta":
                            speaking.add(event.agent_id)
                        if len(speaking) < 2:
                            continue
                        if how == "break":
                            break
                        (stream.cancel if how == "cancel" else scope.cancel)()
            await one.disconnected.wait()
            await two.disconnected.wait()
    assert (len(one.requests), len(two.requests)) == (1, 1)
