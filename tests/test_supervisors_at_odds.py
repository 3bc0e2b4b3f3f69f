"""Supervisors under odd conditions: depth, hooks that cancel, interrupts, context variables, runs inside of tools."""

from __future__ import annotations

import contextvars
from typing import Any

import anyio
import pytest
from support.streams import read_all
from support.supervising import asking, is_valid, model_of, nested, scripted, supervisor, told

from mastra_py import Agent, Budget, Delegation, Replace, Tool
from mastra_py._loop.ledger import CURRENT
from mastra_py.testing import FunctionModel, ScriptedModel, Turn

HANGS = Turn(text="x", hang=True)


async def test_sixty_levels_of_agents_work_and_are_counted() -> None:
    agent = scripted("a0", "bottom")
    for level in range(1, 61):
        agent = scripted(f"a{level}", asking(("next", "p")), f"from {level}", agents={"next": agent})
    with anyio.fail_after(30):
        events, result = await read_all(agent, delegation=Delegation(max_depth=60), budget=Budget(max_requests=121))
    assert (result.text, result.usage.requests) == ("from 60", 121)
    assert max(event.depth for event in nested(events)) == 60


@pytest.mark.parametrize("hook", ["on_start", "message_filter", "on_complete"])
async def test_a_hook_may_cancel_the_run(hook: str) -> None:
    stream: Any = None

    def cancel(_: object) -> list[Any]:
        stream.cancel()
        return []

    given: dict[str, Any] = {hook: cancel}
    first = scripted("first", "1")
    boss = supervisor(asking(("first", "1"), ("second", "2")), first, scripted("second", "2"), then=())
    stream = boss.stream("go", delegation=Delegation(**given))
    with anyio.fail_after(5):
        async with stream:
            result = await stream.result()
    assert result.stop_reason == "cancelled"
    assert model_of(first).calls == (1 if hook == "on_complete" else 0)
    is_valid(result.messages)


async def test_an_interrupt_in_a_sub_agent_ends_the_program_and_not_just_the_sub_agent() -> None:
    def interrupt(_: object) -> str:
        raise KeyboardInterrupt

    boss = supervisor(
        asking(("bad", "1"), ("slow", "2")), Agent(id="bad", model=FunctionModel(interrupt)), scripted("slow", HANGS)
    )
    with anyio.fail_after(5), pytest.raises(KeyboardInterrupt):
        await boss.generate("go")


async def test_nothing_of_a_run_is_left_in_the_context_of_its_caller() -> None:
    own: contextvars.ContextVar[str] = contextvars.ContextVar("own", default="before")

    def change(_: object) -> None:
        assert own.get() == "before"
        own.set("changed")

    rules = Delegation(on_start=change)
    boss = supervisor(asking(("a", "1"), ("a", "2")), Agent(id="a", model=FunctionModel(lambda _: "x")))
    await boss.generate("go", delegation=rules)
    assert (CURRENT.get(), own.get()) == (None, "before")
    boss = supervisor(asking(("a", "1")), Agent(id="a", model=FunctionModel(lambda _: "x")))
    async with boss.stream("go", delegation=rules) as stream:
        async for _ in stream:
            assert (CURRENT.get(), own.get()) == (None, "before")


async def test_context_variables_of_the_caller_and_of_on_start_reach_the_sub_agent() -> None:
    own: contextvars.ContextVar[str] = contextvars.ContextVar("own")
    own.set("caller")
    seen: list[str] = []
    rules = Delegation(on_start=lambda ctx: own.set(f"{own.get()}, {ctx.key}") and None)
    children = [scripted(id, "x", instructions=lambda _: seen.append(own.get()) or "hi") for id in ("a", "b")]
    await supervisor(asking(("a", "1"), ("b", "2")), *children).generate("go", delegation=rules)
    assert sorted(seen) == ["caller, a", "caller, b"]


async def test_a_supervisor_inside_of_a_plain_tool_is_a_run_of_its_own_with_events_of_its_own() -> None:
    inner = supervisor(asking(("a", "1")), scripted("a", "x"))

    async def ask() -> str:
        return (await inner.generate("go")).text

    outer = scripted("outer", Turn(tool_calls=[("t", "ask", {})]), "fine", tools=[ask])
    events, result = await read_all(outer)
    assert nested(events) == []
    assert (told(result), result.usage.requests) == ([(False, "done")], 5)


async def test_a_tools_timeout_ends_the_agent_that_it_runs() -> None:
    inner = scripted("inner", HANGS)

    async def ask() -> str:
        return (await inner.generate("go")).text

    slow = Tool(name="ask", description="", run=ask, timeout=0.01)
    boss = scripted("boss", Turn(tool_calls=[("t", "ask", {})]), "done", tools=[slow])
    with anyio.fail_after(5):
        result = await boss.generate("go")
    assert (told(result)[0][0], result.text, result.usage.requests) == (True, "done", 3)


async def test_one_at_a_time_means_that_sub_agents_wait_for_each_other() -> None:
    chatty = Turn(text_chunks=["x"] * 50)
    boss = supervisor(asking(("a", "1"), ("b", "2")), scripted("a", chatty), scripted("b", chatty))
    events, _ = await read_all(boss, tool_concurrency=1)
    order = [event.agent_id for event in nested(events)]
    assert order == sorted(order)


async def test_a_result_that_has_no_json_form_is_an_error_of_that_call() -> None:
    rules = Delegation(on_complete=lambda _: Replace(object()))
    result = await supervisor(asking(("a", "1")), scripted("a", "x")).generate("go", delegation=rules)
    [(is_error, text)] = told(result)
    assert is_error
    assert "JSON" in text


async def test_a_delegation_may_be_forced_and_left_out() -> None:
    boss = supervisor(asking(("a", "1")), scripted("a", "x"), scripted("b"))
    await boss.generate("go", tool_choice="agent-a", active_tools=["agent-a"])
    first, second = model_of(boss).requests
    assert [tool.name for tool in first.tools] == ["agent-a"]
    assert (first.tool_choice, second.tool_choice) == ("agent-a", "auto")


async def test_two_streams_of_one_supervisor_at_once_keep_apart() -> None:
    kid = Agent(id="kid", model=FunctionModel(lambda request: f"re: {request.messages[-1].text}"))

    def answer(request: Any) -> Any:
        asked = request.messages[0].text
        return f"end of {asked}" if len(request.messages) > 1 else asking(("kid", asked))

    boss = Agent(id="boss", model=FunctionModel(answer), agents={"kid": kid})
    found: dict[str, Any] = {}

    async def run(prompt: str) -> None:
        events, result = await read_all(boss, prompt)
        found[prompt] = ("".join(e.event.text for e in nested(events) if e.event.type == "text-delta"), result.text)

    async with anyio.create_task_group() as tasks:
        for prompt in ("one", "two", "three"):
            tasks.start_soon(run, prompt)
    assert found == {prompt: (f"re: {prompt}", f"end of {prompt}") for prompt in ("one", "two", "three")}


async def test_an_agent_without_sub_agents_refuses_nothing_for_rules_of_delegation() -> None:
    agent = Agent(id="a", model=ScriptedModel(["x"]))
    assert (await agent.generate("go", delegation=Delegation(max_depth=1))).text == "x"
