"""What becomes of a delegation that fails: its supervisor is told which agent and how, and everything else goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NoReturn

import anyio
import pytest
from pydantic import BaseModel
from support.cancelling import Stubborn
from support.chat_reply import chat_reply
from support.http_server import HTTPServer, Reply
from support.judges import graded
from support.streams import read_all, read_failing
from support.supervising import asking, is_valid, model_of, nested, results, scripted, supervisor, told

from mastra_py import (
    Agent,
    Budget,
    Delegation,
    DelegationError,
    StreamErrorRetryProcessor,
    TaskCompletion,
    TripWire,
    UserError,
)
from mastra_py.errors import ModelError, ModelTimeoutError
from mastra_py.messages import Message
from mastra_py.models import OpenAIChatModel
from mastra_py.testing import FunctionModel, Turn, api_error

SECRET = "traceback and provider text"


class Facts(BaseModel):
    facts: list[str]


class Trip:
    """An input processor that stops every run."""

    id = "trip"

    def process_input(self, messages: Any, ctx: object) -> NoReturn:
        raise TripWire(SECRET)


async def again() -> str:
    return "again"


def crash(*_: Any) -> NoReturn:
    raise RuntimeError(SECRET)


def broken_scorer(_: Any) -> NoReturn:
    raise ValueError(SECRET)


def failing(*turns: Any, **options: Any) -> Agent:
    return scripted("bad", *turns, **options)


FAILURES: dict[str, tuple[Callable[[], Agent], str, str]] = {
    "a function of its own raises": (lambda: failing(instructions=crash), "failed", "error"),
    "its provider answers 500": (lambda: failing(Turn(error=api_error(500, message=SECRET))), "failed", "server"),
    "its provider answers 429": (lambda: failing(Turn(error=api_error(429, message=SECRET))), "failed", "rate_limit"),
    "its key is refused": (lambda: failing(Turn(error=api_error(401, message=SECRET))), "failed", "auth"),
    "its provider times out": (lambda: failing(Turn(error=ModelTimeoutError(SECRET))), "failed", "timeout"),
    "its reply breaks off": (lambda: failing(Turn(text="half", error_at="stream_broken")), "failed", "stream"),
    "its model raises something": (lambda: Agent(id="bad", model=FunctionModel(crash)), "failed", "model_error"),
    "its judge gives no verdict": (
        lambda: failing(
            "text",
            defaults={"is_task_complete": TaskCompletion([graded("no", "none")[0]], on_scorer_error="raise")},
        ),
        "failed",
        "scorer_error",
    ),
    "its output is invalid": (lambda: failing("no JSON", "none either"), "failed", "invalid_output"),
    "its scorer raises": (
        lambda: failing(
            "text", defaults={"is_task_complete": TaskCompletion([broken_scorer], on_scorer_error="raise")}
        ),
        "failed",
        "scorer_error",
    ),
    "its scorer fails": (
        lambda: failing("text", defaults={"is_task_complete": [broken_scorer]}),
        "unfinished",
        "scorer_error",
    ),
    "it runs out of steps": (
        lambda: failing(Turn(tool_calls=[("t", "again", {})]), tools=[again], defaults={"max_steps": 1}),
        "unfinished",
        "max_steps",
    ),
    "no draft of it is accepted": (
        lambda: failing("one", "two", defaults={"max_steps": 2, "is_task_complete": [lambda _: False]}),
        "unfinished",
        "max_steps",
    ),
    "it is refused": (lambda: failing(Turn(text="no", finish_reason="refusal")), "unfinished", "refusal"),
    "it is filtered": (lambda: failing(Turn(finish_reason="content_filter")), "unfinished", "content_filter"),
    "it is cut off": (lambda: failing(Turn(text="and th", finish_reason="length")), "unfinished", "length"),
    "it is stopped by a processor": (lambda: failing(input_processors=[Trip()]), "unfinished", "tripwire"),
    "its budget is used up": (
        lambda: failing(
            Turn(tool_calls=[("t", "again", {})]), tools=[again], defaults={"budget": Budget(max_requests=1)}
        ),
        "unfinished",
        "budget",
    ),
    "its time is over": (
        lambda: failing(Turn(text="so far", hang=True), defaults={"budget": Budget(deadline=0.01)}),
        "unfinished",
        "budget",
    ),
}


@pytest.mark.parametrize("how", ["stream", "generate"])
@pytest.mark.parametrize("name", FAILURES)
async def test_a47_when_one_of_several_fails_the_others_keep_their_results_and_the_run_goes_on(
    name: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, kind, detail = FAILURES[name]
    outcomes: list[Any] = []
    boss = supervisor(
        asking(("first", "1"), ("bad", "2"), ("last", "3")), scripted("first", "one"), make(), scripted("last", "three")
    )
    rules = Delegation(on_complete=outcomes.append, output={"bad": Facts} if "output" in name else {})
    with anyio.fail_after(5), caplog.at_level(logging.CRITICAL, "mastra_py"):
        if how == "generate":
            result = await boss.generate("go", delegation=rules)
        else:
            events, result = await read_all(boss, delegation=rules)
            assert [e.type for e in events if e.type in {"tool-result", "tool-error"}] == [
                "tool-result",
                "tool-error",
                "tool-result",
            ]
            assert nested(events, "bad")[-1].event.type in {"finish", "error"}
    assert (result.text, result.stop_reason) == ("done", "answered")
    first, (is_error, text), last = told(result)
    assert (first, last, is_error) == ((False, "one"), (False, "three"), True)
    assert text.startswith("agent 'bad' ")
    assert detail in text
    assert SECRET not in repr([request.messages for request in model_of(boss).requests])
    assert "Traceback" not in text
    [error] = [outcome.error for outcome in outcomes if outcome.error]
    assert isinstance(error, DelegationError)
    assert (error.agent_id, error.kind, error.detail) == ("bad", kind, detail)
    is_valid(result.messages)


async def test_a47_over_http_a_500_of_one_sub_agents_provider_leaves_the_other_its_result() -> None:
    body = Reply(b'{"error": {"message": "traceback and provider text"}}', status=500)

    def agent(id: str, server: HTTPServer, **options: Any) -> Agent:
        return Agent(id=id, model=OpenAIChatModel("m", base_url=server.base_url, api_key="none"), **options)

    with anyio.fail_after(5):
        async with HTTPServer(body) as broken, HTTPServer(chat_reply("a text")) as sound:
            boss = supervisor(asking(("bad", "1"), ("good", "2")), agent("bad", broken), agent("good", sound))
            result = await boss.generate("go")
    assert told(result) == [(True, "agent 'bad' failed: server"), (False, "a text")]
    assert result.text == "done"


async def test_the_last_words_of_a_sub_agent_that_did_not_finish_are_told_as_what_they_are() -> None:
    child = failing("a draft", defaults={"max_steps": 1, "is_task_complete": [lambda _: False]})
    [(is_error, text)] = told(await supervisor(asking(("bad", "p")), child).generate("go"))
    assert is_error
    assert text.startswith("agent 'bad' did not finish: max_steps. Its last words")
    assert text.endswith("\na draft")


async def test_the_cause_of_a_failure_is_kept_for_the_program() -> None:
    events, _ = await read_all(supervisor(asking(("bad", "p")), failing(Turn(error=api_error(500, message=SECRET)))))
    [failed] = [e for e in events if e.type == "tool-error"]
    cause = failed.exception.__cause__  # type: ignore[union-attr]
    assert isinstance(cause, ModelError)
    assert cause.status == 500
    assert SECRET in str(cause)


async def test_a_sub_agent_that_recovers_has_not_failed() -> None:
    child = failing(Turn(error=api_error(500)), "fine", error_processors=[StreamErrorRetryProcessor()])
    events, result = await read_all(supervisor(asking(("bad", "p")), child))
    assert told(result) == [(False, "fine")]
    assert "retry" in " ".join(e.event.type for e in nested(events))


async def test_the_failure_of_a_deeper_agent_reaches_its_own_supervisor_only() -> None:
    middle = scripted("middle", asking(("bad", "p")), "I managed", agents={"bad": failing(Turn(error=api_error(500)))})
    result = await supervisor(asking(("middle", "p")), middle).generate("go")
    assert told(result) == [(False, "I managed")]
    assert "agent 'bad' failed: server" in repr(model_of(middle).requests[-1].messages)


# --- misuse is loud


@pytest.mark.parametrize("depth", [1, 2])
async def test_misuse_in_a_sub_agent_ends_the_run_loudly_once_its_siblings_are_done(depth: int) -> None:
    agent = failing(instructions=lambda _: 5)
    for _ in range(depth - 1):
        agent = scripted("bad", asking(("bad", "p")), agents={"bad": agent})
    sibling = scripted("good", "a text")
    boss = supervisor(asking(("bad", "p"), ("good", "p")), agent, sibling, then=())
    events, error = await read_failing(boss)
    assert isinstance(error, UserError)
    assert "instructions of agent 'bad'" in str(error)
    assert [e.type for e in events][-2:] == ["tool-result", "error"]
    assert (model_of(sibling).calls, model_of(boss).calls) == (1, 1)


async def test_a_script_that_runs_out_in_a_sub_agent_is_as_loud_as_in_any_agent() -> None:
    boss = supervisor(asking(("bad", "p")), scripted("bad"), then=())
    _, error = await read_failing(boss)
    assert isinstance(error, AssertionError)
    assert "script has only 0 turns" in str(error)


# --- cancelled from inside


async def cancelled_natively(*_: object) -> NoReturn:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    raise AssertionError("it was not cancelled")


async def awaits_what_was_cancelled(*_: object) -> Any:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return await future


INSIDE = {"task": cancelled_natively, "future": awaits_what_was_cancelled}
WHERE = ("model", "instructions", "tool", "scorer", "on_start", "on_complete")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("how", INSIDE)
async def test_what_is_cancelled_inside_of_a_sub_agent_fails_alone(where: str, how: str) -> None:
    cancelled: Any = INSIDE[how]
    agents: dict[str, Agent] = {
        "model": Agent(id="bad", model=FunctionModel(cancelled)),
        "instructions": failing("x", instructions=cancelled),
        "tool": failing(Turn(tool_calls=[("t", "cancelled", {})]), "x", tools=[make_tool(cancelled)]),
        "scorer": failing("x", defaults={"is_task_complete": [cancelled]}),
    }
    hook: dict[str, Any] = {where: lambda ctx: cancelled() if (getattr(ctx, "context", ctx)).key == "bad" else None}
    rules: Any = Delegation(**hook) if where.startswith("on_") else Delegation()
    bad = agents.get(where) or failing("x")
    boss = supervisor(asking(("bad", "p"), ("good", "p")), bad, scripted("good", "a text"))
    with anyio.fail_after(5):
        _, result = await read_all(boss, delegation=rules)
    assert (result.text, result.stop_reason) == ("done", "answered")
    (is_error, text), good = told(result)
    assert good == (False, "a text")
    assert is_error == (where != "tool"), text
    if where in {"model", "instructions"}:
        assert text == "agent 'bad' failed: cancelled"
    is_valid(result.messages)


def make_tool(function: Any) -> Any:
    async def cancelled() -> None:
        await function()

    return cancelled


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancellation_of_the_caller_ends_everything_though_a_sub_agent_loses_it() -> None:
    stubborn = Stubborn()
    child = Agent(id="bad", model=FunctionModel(stubborn.wait))
    task = asyncio.create_task(supervisor(asking(("bad", "p")), child).generate("go"))
    with anyio.fail_after(5):
        await stubborn.started.wait()
        task.cancel()
        with pytest.raises((asyncio.CancelledError, ConnectionResetError)):
            await task


async def test_a_scope_around_the_call_is_never_taken_for_a_cancellation_from_inside() -> None:
    started = anyio.Event()

    async def wait(_: object) -> str:
        started.set()
        await anyio.sleep_forever()
        return "never"

    child = Agent(id="bad", model=FunctionModel(wait))
    boss = supervisor(asking(("bad", "p")), child, then=())
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(boss.generate, "go")
            await started.wait()
            tasks.cancel_scope.cancel()
    assert (model_of(child).calls, model_of(boss).calls) == (1, 1)


async def test_an_error_of_cleanup_at_the_end_of_a_sub_agents_time_is_told_to_nobody() -> None:
    child = Agent(id="bad", model=FunctionModel(Stubborn().wait), defaults={"budget": Budget(deadline=0.01)})
    with anyio.fail_after(5):
        result = await supervisor(asking(("bad", "p")), child).generate("go")
    assert (told(result), result.text) == ([(True, "agent 'bad' did not finish: budget (deadline)")], "done")


@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.parametrize("how", ["cancel", "deadline"])
async def test_a_delegation_that_ends_with_its_supervisors_run_is_told_to_nobody(how: str, stubborn: bool) -> None:
    outcomes: list[Any] = []
    child = Agent(id="bad", model=FunctionModel(Stubborn().wait)) if stubborn else failing(Turn(text="x", hang=True))
    limit: Any = {"budget": Budget(deadline=0.05)} if how == "deadline" else {}
    boss = supervisor(asking(("bad", "p")), child, then=())
    with anyio.fail_after(5):
        events: list[Any] = []
        async with boss.stream("go", delegation=Delegation(on_complete=outcomes.append), **limit) as stream:
            async for event in stream:
                events.append(event)
                if how == "cancel" and event.type == "tool-output" and event.event.type == "step-start":
                    stream.cancel()
            result = await stream.result()
    assert result.stop_reason == ("cancelled" if how == "cancel" else "budget")
    assert outcomes == []
    assert "error" not in {event.event.type for event in nested(events)}


async def test_results_hold_the_messages_of_the_supervisor_alone() -> None:
    result = await supervisor(asking(("bad", "p")), failing("a text")).generate("go")
    assert [m.text for m in result.messages if m.text] == ["go", "done"]
    assert isinstance(result.messages[0], Message)
    assert len(results(result)) == 1
