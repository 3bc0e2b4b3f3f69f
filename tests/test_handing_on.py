"""A run that was stopped, however it was, can be gone on with from its messages."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from support.chat_reply import reply_to
from support.http_server import HTTPServer, Request
from support.supervising import is_valid, model_of, scripted, supervisor

from mastra_py import Agent, Budget, Delegation, RunError, TaskCompletion, TripWire, UserError
from mastra_py.messages import Message, dump_messages
from mastra_py.models import OpenAIChatModel, OpenAIResponsesModel
from mastra_py.testing import Turn, api_error

HANGS = Turn(text="so f", hang=True)
USING = Turn(text="using", tool_calls=[("w", "work", {}), ("c1", "agent-kid", {"prompt": "p"})])


async def work() -> str:
    return "worked"


def boss(*turns: Any, kid: Any = "kid says", **options: Any) -> Agent:
    return supervisor(turns[0], scripted("kid", kid), then=turns[1:], tools=[work], **options)


async def cancelled_in_the_first_reply() -> Any:
    return await cancelled(boss(HANGS), lambda e: e.type == "text-delta")


async def cancelled_in_a_later_reply() -> Any:
    return await cancelled(boss(USING, HANGS), lambda e: e.type == "text-delta" and e.step == 2)


async def cancelled_in_a_sub_agent() -> Any:
    return await cancelled(boss(USING, kid=HANGS), lambda e: e.type == "tool-output" and e.event.type == "text-delta")


async def cancelled_in_a_check() -> Any:
    agent = boss("draft", defaults={"is_task_complete": [lambda _: True]})
    return await cancelled(agent, lambda e: e.type == "task-completion-started")


async def cancelled_at_once() -> Any:
    return await cancelled(boss("x"), lambda e: e.type == "start")


async def cancelled(agent: Agent, when: Callable[[Any], bool]) -> Any:
    async with agent.stream("go") as stream:
        async for event in stream:
            if when(event):
                stream.cancel()
        result = await stream.result()
    assert result.stop_reason == "cancelled"
    return result


async def budget_before_a_step() -> Any:
    return await ended(boss(USING), "budget", budget=Budget(max_requests=2))


async def budget_in_a_sub_agent() -> Any:
    return await ended(boss(USING), "budget", budget=Budget(max_requests=1))


async def budget_in_a_judge() -> Any:
    async def judge(_: Any) -> bool:
        await scripted("inner", "x").generate("good?")
        return True

    return await ended(boss("draft"), "budget", is_task_complete=[judge], budget=Budget(max_requests=1))


async def deadline_in_a_tool() -> Any:
    return await ended(boss(USING, kid=HANGS), "budget", budget=Budget(deadline=0.05))


async def max_steps_after_tools() -> Any:
    return await ended(boss(USING), "max_steps", max_steps=1)


async def max_steps_with_a_rejected_draft() -> Any:
    return await ended(boss("bad", "worse"), "max_steps", max_steps=2, is_task_complete=[lambda _: False])


async def max_steps_with_hidden_feedback() -> Any:
    gate = TaskCompletion([lambda _: False], suppress_feedback=True)
    return await ended(boss("bad", "worse"), "max_steps", max_steps=2, is_task_complete=gate)


async def cut_off_with_tools() -> Any:
    return await ended(boss(Turn(text="and th", tool_calls=USING.tool_calls, finish_reason="length")), "length")


async def a_trip_wire_in_a_hook() -> Any:
    def trip(_: object) -> None:
        raise TripWire("no")

    return await ended(boss(USING), "tripwire", delegation=Delegation(on_start=trip))


async def ended(agent: Agent, stop_reason: str, **options: Any) -> Any:
    with anyio.fail_after(5):
        result = await agent.generate("go", **options)
    assert result.stop_reason == stop_reason
    return result


async def an_error_in_the_first_reply() -> Any:
    return await failed(boss(Turn(text="half", error=api_error(400), error_at="mid_stream")))


async def an_error_in_a_later_reply() -> Any:
    return await failed(boss(USING, Turn(error=api_error(400))))


async def failed(agent: Agent) -> RunError:
    with pytest.raises(RunError) as caught:
        await agent.generate("go")
    return caught.value


STOPPED: list[Callable[[], Awaitable[Any]]] = [
    cancelled_at_once,
    cancelled_in_the_first_reply,
    cancelled_in_a_later_reply,
    cancelled_in_a_sub_agent,
    cancelled_in_a_check,
    budget_before_a_step,
    budget_in_a_sub_agent,
    budget_in_a_judge,
    deadline_in_a_tool,
    max_steps_after_tools,
    max_steps_with_a_rejected_draft,
    max_steps_with_hidden_feedback,
    cut_off_with_tools,
    a_trip_wire_in_a_hook,
    an_error_in_the_first_reply,
    an_error_in_a_later_reply,
]


@pytest.mark.parametrize("prompt", [None, "and now?"])
@pytest.mark.parametrize("stop", STOPPED)
async def test_a_stopped_run_is_gone_on_with_from_its_json(stop: Any, prompt: str | None) -> None:
    came = await stop()
    stored = json.loads(json.dumps(dump_messages(came.messages)))
    further = boss(USING, "gone on")
    async with further.stream(prompt, messages=stored) as stream:
        result = await stream.result()
    assert (result.text, result.stop_reason) == ("gone on", "answered")
    is_valid(result.messages)
    given = len(came.messages)
    assert list(result.messages[:given]) == list(came.messages)
    assert model_of(further).requests[0].messages[0] == Message("user", "go")
    assert result.messages[given:][0].text == (prompt or "using")


@pytest.mark.parametrize("model", [OpenAIChatModel, OpenAIResponsesModel])
@pytest.mark.parametrize("stop", STOPPED)
async def test_what_is_gone_on_with_can_be_sent(stop: Any, model: Any) -> None:
    came = await stop()
    with anyio.fail_after(30):
        async with HTTPServer(lambda request: reply_to(request, "gone on")) as server:
            agent = Agent(id="boss", model=model("m", base_url=server.base_url, api_key="none"))
            result = await agent.generate(messages=came.messages)
    assert result.text == "gone on"
    answered(server.requests[0])


def answered(request: Request) -> None:
    """Check that each call in a request has a result."""
    body = request.json
    items = body.get("messages") or body.get("input")
    calls = [c["id"] for m in items for c in m.get("tool_calls") or ()]
    calls += [item["call_id"] for item in items if item.get("type") == "function_call"]
    results = [m["tool_call_id"] for m in items if m.get("role") == "tool"]
    results += [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert calls == results


async def test_a_run_is_stopped_and_gone_on_with_again_and_again_until_it_is_done() -> None:
    turns = [USING, USING, "draft", "good"]
    kid: Any = ["kid says"] * 2
    agent = supervisor(turns[0], scripted("kid", *kid), then=turns[1:], tools=[work])
    result: Any = await agent.generate("go", budget=Budget(max_requests=2))
    rounds = 1
    while result.stop_reason == "budget":
        result = await agent.generate(
            messages=result.messages,
            is_task_complete=[lambda run: run.output == "good"],
            budget=Budget(max_requests=2),
        )
        rounds += 1
        is_valid(result.messages)
    assert (result.text, result.stop_reason) == ("good", "complete")
    assert rounds == 3


async def test_there_has_to_be_something_to_go_on_from() -> None:
    with pytest.raises(UserError, match="nothing to answer"):
        scripted("boss").stream(messages=[])
