"""Cases from the field: tools, what they return, what the model reads of it, and the names they have."""

from __future__ import annotations

import contextvars
import dataclasses
import enum
import functools
import json
import threading
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from pydantic import BaseModel
from support.http_server import HTTPServer, Reply, Request
from support.wire_field import (
    ANTHROPIC,
    CHAT,
    FINAL,
    calls,
    failing,
    from_field,
    model_at,
    read_run,
    run_on,
    said_by,
    says,
)

from mastra_py import Agent, Judge, PromptStep, Tool, create_scorer
from mastra_py.events import ToolFailed, ToolResult
from mastra_py.testing import ScriptedModel, Turn

DONE = says("All done.")
GO = {"type": "object", "properties": {}}


async def test_a31_a_tool_that_raises_is_an_error_result_and_its_siblings_give_theirs() -> None:
    raised = anyio.Event()

    async def after_it() -> str:
        await raised.wait()
        return "fine"

    async def failing_tool() -> str:
        raised.set()
        raise LookupError("no such thing")

    async def seen() -> str:
        return "seen"

    made = [Tool(name="slow", run=after_it), Tool(name="failing", run=failing_tool), Tool(name="quick", run=seen)]
    turn = Turn(tool_calls=[("c1", "slow", {}), ("c2", "failing", {}), ("c3", "quick", {})])
    ran = await read_run(Agent(id="a", model=ScriptedModel([turn, "done"]), tools=made))
    outcomes = [event for event in ran.events if isinstance(event, ToolResult | ToolFailed)]
    assert [(event.tool_name, event.type) for event in outcomes] == [
        ("slow", "tool-result"),
        ("failing", "tool-error"),
        ("quick", "tool-result"),
    ]
    assert [(part.result, part.is_error) for part in ran.results][::2] == [("fine", False), ("seen", False)]
    assert ran.results[1].is_error
    assert "no such thing" in ran.results[1].result
    assert ran.final.text == "done"


@pytest.mark.parametrize("how", ["a scope around it", "cancel()", "leaving the block"])
async def test_a31_when_a_run_is_cancelled_every_tool_is_cancelled_and_awaited(how: str) -> None:
    begun, ended = anyio.Event(), anyio.Event()

    async def sleeping() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async def quick() -> str:
        return "quick"

    def raising() -> None:
        raise LookupError

    model = ScriptedModel([Turn(tool_calls=[("c1", "quick", {}), ("c2", "raising", {}), ("c3", "sleeping", {})])])
    agent = Agent(id="a", model=model, tools=[quick, raising, sleeping])

    async def stop_it() -> None:
        await begun.wait()
        await anyio.wait_all_tasks_blocked()
        (scope if how == "a scope around it" else stream).cancel()

    with anyio.fail_after(5), anyio.CancelScope() as scope:
        async with agent.stream("go") as stream:
            async with anyio.create_task_group() as tasks:
                if how != "leaving the block":
                    tasks.start_soon(stop_it)
                async for event in stream:
                    if how == "leaving the block" and event.type == "tool-error":
                        await begun.wait()
                        break
    assert ended.is_set(), "no tool outlives its run"


WHO = contextvars.ContextVar("WHO", default="nobody")


async def test_a32_sync_tools_run_beside_each_other_and_beside_the_loop_with_the_callers_context() -> None:
    both = threading.Barrier(2)
    ticks: list[int] = []
    seen: list[tuple[str, bool]] = []

    async def tick(n: int) -> None:
        await anyio.lowlevel.checkpoint()
        ticks.append(n)

    def blocking(n: int) -> str:
        both.wait(5)  # broken unless both calls are in it at the same time
        anyio.from_thread.run(tick, n)  # fails unless this is no thread of the loop, and the loop goes on
        both.wait(5)
        seen.append((WHO.get(), threading.current_thread() is threading.main_thread()))
        return f"call {n}"

    WHO.set("the caller")
    turn = Turn(tool_calls=[("c1", "blocking", {"n": 1}), ("c2", "blocking", {"n": 2})])
    ran = await read_run(Agent(id="a", model=ScriptedModel([turn, "done"]), tools=[blocking]))
    assert sorted(ticks) == [1, 2]
    assert [part.result for part in ran.results] == ["call 1", "call 2"]
    assert seen == [("the caller", False)] * 2


async def test_a32_async_tools_stay_on_the_loop_and_a_wrapper_that_returns_an_awaitable_is_awaited() -> None:
    threads: list[threading.Thread] = []

    async def on_loop() -> str:
        threads.append(threading.current_thread())
        return "awaited"

    @functools.wraps(on_loop)
    def wrapper() -> Any:
        return on_loop()

    made = [Tool(name="plain", run=on_loop), Tool(name="wrapped", run=wrapper, parameters=GO)]
    turn = Turn(tool_calls=[("c1", "plain", {}), ("c2", "wrapped", {})])
    ran = await read_run(Agent(id="a", model=ScriptedModel([turn, "done"]), tools=made))
    assert [part.result for part in ran.results] == ["awaited", "awaited"]
    assert threads == [threading.current_thread()] * 2


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    at: datetime


class Inner(BaseModel):
    sum: Decimal


MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = uuid.UUID(int=7)


async def test_a33_whatever_has_a_json_form_reaches_the_model_in_it() -> None:
    def rich() -> dict[str, Any]:
        return {
            "at": MOMENT,
            "sum": Decimal("1.10"),
            "id": ID,
            "tags": {"a"},
            "raw": b"\xff",
            "colour": Colour.RED,
            "nested": [{"point": Point(1, MOMENT), "inner": Inner(sum=Decimal("2.50"))}],
        }

    ran = await run_on(calls(("c1", "rich", {})), DONE, agent={"tools": [rich]})
    (sent,) = said_by("tool", ran.requests[1])
    content = json.loads(sent["content"])
    assert datetime.fromisoformat(content["at"]) == MOMENT
    assert datetime.fromisoformat(content["nested"][0]["point"]["at"]) == MOMENT
    assert (content["sum"], content["id"], content["tags"], content["colour"]) == ("1.10", str(ID), ["a"], "red")
    assert content["nested"][0]["inner"] == {"sum": "2.50"}
    assert isinstance(content["raw"], str)


async def test_a33_what_has_none_is_an_error_result_that_names_the_tool_and_the_type() -> None:
    class Socket:
        pass

    def opened() -> Any:
        return {"socket": Socket()}

    ran = await run_on(calls(("c1", "opened", {})), DONE, agent={"tools": [opened]})
    (result,) = ran.results
    assert result.is_error
    assert "opened" in result.result
    assert "Socket" in result.result
    assert ran.final.text == "All done."


BAD = "bad \ud83d tail\x00"


async def test_a34_a_lone_surrogate_or_a_nul_is_cleaned_before_it_is_in_the_conversation() -> None:
    def scraped() -> dict[str, str]:
        return {"page": BAD, "pair": "\ud83d\ude80"}

    async with (
        HTTPServer(calls(("c1", "scraped", {})), says("first"), says("second")) as server,
        HTTPServer(says('{"score": 1}')) as judge_server,
    ):
        judge = Judge(model=model_at(judge_server), instructions="You grade.")
        scorer = create_scorer("quality", judge=judge).generate_score(
            PromptStep(create_prompt=lambda ctx: f"Grade {ctx.run.input.tool_results[0].result} and {BAD}")
        )
        agent = Agent(id="a", model=model_at(server), tools=[scraped])
        first = await read_run(agent, prompt=f"read it {BAD}", is_task_complete=scorer)
        again = await read_run(agent, prompt="and now?", messages=first.final.messages)
        sent = [request.body.decode() for request in (*server.requests, *judge_server.requests)]
    assert (first.final.text, first.final.stop_reason, again.final.text) == ("first", "complete", "second")
    assert len(sent) == 4
    for body in sent:
        assert "bad \ufffd tail\ufffd" in str(json.loads(body)["messages"])
        assert "\x00" not in str(json.loads(body))
        assert not any(0xD800 <= ord(character) < 0xE000 for character in str(json.loads(body)))
    (result,) = said_by("tool", json.loads(sent[1]))
    assert json.loads(result["content"]) == {"page": "bad \ufffd tail\ufffd", "pair": "\U0001f680"}


def strict(kind: str) -> Any:
    """Return a server that refuses a conversation in which calls and results do not pair off."""

    def serve(request: Request) -> Reply:
        paired = pairs_off(request.json["messages"])
        return from_field(FINAL[kind]) if paired else failing(400, {"error": {"message": "calls without results"}})

    return serve


def pairs_off(messages: list[Any]) -> bool:
    waiting: list[str] = []
    for message in messages:
        content = message["content"] if isinstance(message.get("content"), list) else []
        answers = [b["tool_use_id"] for b in content if b["type"] == "tool_result"]
        if message["role"] == "tool":
            answers = [message["tool_call_id"]]
        if not set(answers) <= set(waiting):
            return False
        waiting = [call for call in waiting if call not in answers]
        if waiting and not answers:
            return False
        waiting += [c["id"] for c in message.get("tool_calls") or ()]
        waiting += [b["id"] for b in content if b["type"] == "tool_use"]
    return not waiting


@pytest.mark.parametrize("kind", [CHAT, ANTHROPIC])
async def test_a35_a_run_cancelled_in_mid_tools_can_be_gone_on_from(kind: str) -> None:
    begun = anyio.Event()

    async def slow() -> None:
        begun.set()
        await anyio.sleep_forever()

    async def quick() -> str:
        return "real result"

    model = ScriptedModel([Turn(tool_calls=[("c1", "quick", {}), ("c2", "slow", {})])])
    agent = Agent(id="a", model=model, tools=[quick, slow])
    with anyio.fail_after(5):
        async with agent.stream("go") as stream:
            async for event in stream:
                if event.type == "tool-result":
                    await begun.wait()
                    stream.cancel()
            previous = (await stream.result()).messages
    assert [(p.tool_name, p.is_error) for m in previous for p in m.tool_results] == [("quick", False), ("slow", True)]
    async with HTTPServer(strict(kind)) as server:
        after = await read_run(Agent(id="b", model=model_at(server, kind), tools=[quick, slow]), messages=previous)
        assert after.final.text == "All done."
        assert "real result" in server.requests[0].body.decode()


@pytest.mark.parametrize("kind", [CHAT, ANTHROPIC])
async def test_a35_a_history_that_the_user_gives_is_mended_likewise(kind: str) -> None:
    call = {"type": "tool-call", "tool_call_id": "c1", "tool_name": "slow", "args": {}}
    orphan = {"type": "tool-result", "tool_call_id": "c9", "tool_name": "slow", "result": "whose?"}
    kept = {"type": "tool-call", "tool_call_id": "c2", "tool_name": "slow", "args": {}}
    result = {"type": "tool-result", "tool_call_id": "c2", "tool_name": "slow", "result": "real result"}
    history = [
        {"role": "user", "content": "go"},
        {"role": "tool", "parts": [orphan]},
        {"role": "assistant", "parts": [call, kept]},
        {"role": "tool", "parts": [result]},
        {"role": "user", "content": "well?"},
        {"role": "assistant", "parts": [call]},
    ]
    async with HTTPServer(strict(kind)) as server:
        ran = await read_run(Agent(id="b", model=model_at(server, kind)), messages=history)
        assert ran.final.text == "All done."
        body = server.requests[0].body.decode()
        assert "whose?" not in body
        assert "real result" in body
