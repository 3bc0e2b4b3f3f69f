"""The deadline of a budget ends a run wherever it is, in virtual time."""

from __future__ import annotations

from typing import Any, NoReturn

import anyio
import pytest
from support import virtual_time
from support.cancelling import Stubborn
from support.judges import prompt
from support.streams import read_all, types
from support.supervising import asking, is_valid, model_of, nested, scripted, supervisor, told

from mastra_py import Agent, AgentResult, Budget, Judge, StreamErrorRetryProcessor, create_scorer
from mastra_py.testing import FunctionModel, ScriptedModel, Turn, api_error

LONG = 1000.0
HANGS = Turn(text="so far", hang=True)


async def hang(*_: object) -> NoReturn:
    await anyio.sleep_forever()
    raise AssertionError("never")


async def slow() -> str:
    await anyio.sleep(LONG)
    return "slept"


def calling(*tools: str) -> Turn:
    return Turn(text="calling", tool_calls=[(name, name, {}) for name in tools])


async def quick() -> str:
    return "quick"


class Hangs:
    """A processor that never comes back."""

    id = "hangs"
    process_input = staticmethod(hang)
    process_api_error = staticmethod(hang)


def by_judge(model: Any) -> Any:
    return create_scorer("quality", judge=Judge(model=model, instructions="You grade.")).generate_score(prompt())


CASES: dict[str, tuple[Any, Any, str]] = {
    # agent, options, text that stands
    "a reply": (lambda: scripted("a", HANGS), {}, ""),
    "a model that does not answer": (lambda: Agent(id="a", model=FunctionModel(hang)), {}, ""),
    "a model whose cleanup fails": (lambda: Agent(id="a", model=FunctionModel(Stubborn().wait)), {}, ""),
    "a later reply": (lambda: scripted("a", calling("quick"), HANGS, tools=[quick]), {}, "calling"),
    "a tool": (lambda: scripted("a", calling("quick", "slow"), tools=[quick, slow]), {}, "calling"),
    "a scorer": (lambda: scripted("a", "draft"), {"is_task_complete": [hang]}, "draft"),
    "a judge": (
        lambda: scripted("a", "draft"),
        {"is_task_complete": [by_judge(FunctionModel(hang))]},
        "draft",
    ),
    "the wait before a retry": (
        lambda: scripted(
            "a",
            Turn(error=api_error(500)),
            error_processors=[StreamErrorRetryProcessor(delay=LONG, max_retry_after=LONG)],
        ),
        {},
        "",
    ),
    "an error processor": (lambda: scripted("a", Turn(error=api_error(500)), error_processors=[Hangs()]), {}, ""),
    "an input processor": (lambda: scripted("a", input_processors=[Hangs()]), {}, ""),
    "instructions": (lambda: scripted("a", instructions=hang), {}, ""),
    "a hook": (lambda: scripted("a", calling("quick"), tools=[quick]), {"on_step": hang}, "calling"),
    "a condition": (lambda: scripted("a", calling("quick"), tools=[quick]), {"stop_when": hang}, "calling"),
    "a sub-agent": (lambda: supervisor(asking(("kid", "1")), scripted("kid", HANGS), then=()), {}, ""),
    "a sub-agent's sub-agent": (
        lambda: supervisor(
            asking(("kid", "1")),
            scripted("kid", asking(("deep", "2")), agents={"deep": scripted("deep", HANGS)}),
            then=(),
        ),
        {},
        "",
    ),
}


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
@pytest.mark.parametrize("how", ["stream", "generate", "result"])
@pytest.mark.parametrize("name", CASES)
def test_at_its_deadline_a_run_ends_whatever_is_under_way(name: str, how: str, backend: str) -> None:
    make, options, text = CASES[name]

    async def program() -> None:
        agent, begin = make(), anyio.current_time()
        limited = {**options, "budget": Budget(deadline=7.0)}
        if how == "stream":
            events, result = await read_all(agent, **limited)
            assert types(events)[-2:] == ["budget-exceeded", "finish"]
        elif how == "result":
            async with agent.stream("go", **limited) as stream:
                result = await stream.result()
        else:
            result = await agent.generate("go", **limited)
        assert anyio.current_time() - begin == pytest.approx(7)
        over(result)
        assert result.text == text
        assert result.partial_text in {None, "", "so far"}

    virtual_time.run(program, backend=backend)


def over(result: AgentResult[Any]) -> None:
    assert (result.stop_reason, result.limit) == ("budget", "deadline")
    is_valid(result.messages)


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
def test_the_results_of_tools_that_were_in_time_are_kept(backend: str) -> None:
    async def program() -> None:
        boss = supervisor(
            Turn(tool_calls=[*calling("quick", "slow").tool_calls, *asking(("kid", "1"), ("fast", "2")).tool_calls]),
            scripted("kid", HANGS),
            scripted("fast", "fast"),
            then=(),
            tools=[quick, slow],
        )
        result = await boss.generate("go", budget=Budget(deadline=7.0))
        over(result)
        assert [is_error for is_error, _ in told(result)] == [False, True, True, False]
        assert result.usage.requests == 3

    virtual_time.run(program, backend=backend)


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
def test_partial_text_of_a_reply_that_was_cut_off_is_told(backend: str) -> None:
    async def program() -> None:
        result = await scripted("a", HANGS).generate("go", budget=Budget(deadline=7.0))
        assert (result.text, result.partial_text) == ("", "so far")

    virtual_time.run(program, backend=backend)


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
def test_a_sub_agents_earlier_deadline_ends_it_alone(backend: str) -> None:
    async def program() -> None:
        kid = scripted("kid", HANGS, defaults={"budget": Budget(deadline=3.0)})
        begin = anyio.current_time()
        events, result = await read_all(supervisor(asking(("kid", "1")), kid), budget=Budget(deadline=7.0))
        assert anyio.current_time() - begin == pytest.approx(3)
        assert (result.stop_reason, result.text) == ("answered", "done")
        assert [e.event.limit for e in nested(events) if e.event.type == "budget-exceeded"] == ["deadline"]

    virtual_time.run(program, backend=backend)


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
def test_a_sub_agents_later_deadline_does_not_lengthen_the_run(backend: str) -> None:
    async def program() -> None:
        kid = scripted("kid", HANGS, defaults={"budget": Budget(deadline=70.0)})
        begin = anyio.current_time()
        over(await supervisor(asking(("kid", "1")), kid, then=()).generate("go", budget=Budget(deadline=7.0)))
        assert anyio.current_time() - begin == pytest.approx(7)

    virtual_time.run(program, backend=backend)


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
def test_time_runs_from_the_begin_of_the_run_and_an_answer_in_time_stands(backend: str) -> None:
    async def program() -> None:
        async def answer(_: object) -> str:
            await anyio.sleep(6)
            return "in time"

        async with Agent(id="a", model=FunctionModel(answer)).stream("go", budget=Budget(deadline=7.0)) as stream:
            await anyio.sleep(100)
            result = await stream.result()
        assert (result.text, result.stop_reason) == ("in time", "answered")

    virtual_time.run(program, backend=backend)


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
def test_what_the_reader_takes_counts_and_it_still_gets_the_end(backend: str) -> None:
    async def program() -> None:
        agent = scripted("a", Turn(text_chunks=["x"] * 300))
        events: list[Any] = []
        async with agent.stream("go", budget=Budget(deadline=7.0)) as stream:
            async for event in stream:
                events.append(event)
                await anyio.sleep(1)
            result = await stream.result()
        over(result)
        assert types(events)[-2:] == ["budget-exceeded", "finish"]

    virtual_time.run(program, backend=backend)


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
@pytest.mark.parametrize("how", ["cancel", "scope"])
def test_a_cancel_before_the_deadline_is_a_cancel(how: str, backend: str) -> None:
    async def program() -> None:
        kid = scripted("kid", HANGS)
        result: Any = None
        with anyio.CancelScope() as scope:
            async with supervisor(asking(("kid", "1")), kid).stream("go", budget=Budget(deadline=7.0)) as stream:
                async for event in stream:
                    if event.type == "tool-output" and event.event.type == "text-delta":
                        (stream.cancel if how == "cancel" else scope.cancel)()
                result = await stream.result()
        assert scope.cancelled_caught == (how == "scope")
        assert how == "scope" or result.stop_reason == "cancelled"

    virtual_time.run(program, backend=backend)


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
def test_a_scope_that_ends_at_the_same_time_is_not_swallowed(backend: str) -> None:
    async def program() -> None:
        with anyio.move_on_after(7.0) as scope:
            await scripted("a", HANGS).generate("go", budget=Budget(deadline=7.0))
            await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught

    virtual_time.run(program, backend=backend)


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
def test_no_model_is_asked_and_no_tool_starts_once_time_is_over(backend: str) -> None:
    async def program() -> None:
        ran: list[float] = []

        async def stamped() -> str:
            ran.append(anyio.current_time())
            await anyio.sleep(2)
            return "x"

        boss = Agent(
            id="a",
            model=ScriptedModel([calling("stamped")], repeat_last=True),
            tools=[stamped],
            defaults={"max_steps": 99},
        )
        begin = anyio.current_time()
        over(await boss.generate("go", budget=Budget(deadline=7.0)))
        assert [round(at - begin) for at in ran] == [0, 2, 4, 6]
        assert model_of(boss).calls == 4

    virtual_time.run(program, backend=backend)
