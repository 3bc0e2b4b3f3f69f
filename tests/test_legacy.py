"""Legacy models: text in, text out, with retries of their own."""

from __future__ import annotations

import contextvars
import functools
import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel
from support.cancelling import Stubborn, is_not_swallowed
from support.judges import prompt
from support.streams import read_all
from tenacity import AsyncRetrying, RetryCallState, wait_fixed, wait_none
from tenacity.wait import wait_base

from mastra_py import (
    Agent,
    FeedbackPart,
    ImagePart,
    Judge,
    JudgeError,
    LegacyModel,
    Message,
    ModelConnectionError,
    ModelError,
    ReasoningPart,
    Retry,
    ScorerRun,
    ScorerRunError,
    TextPart,
    ToolCallPart,
    ToolError,
    UserError,
    create_scorer,
    tool,
)
from mastra_py.models.base import Model
from mastra_py.testing import ScriptedModel, api_error


class Function:
    """A plain function that plays a script, errors among it, and records what it was asked."""

    def __init__(self, *script: str | BaseException) -> None:
        self.script = script
        self.prompts: list[str] = []

    def __call__(self, text: str) -> str:
        self.prompts.append(text)
        entry = self.script[min(len(self.prompts), len(self.script)) - 1]
        if isinstance(entry, BaseException):
            raise entry
        return entry


def legacy(*script: str | BaseException, **options: Any) -> tuple[Agent, Function]:
    function = Function(*script)
    return Agent(id="old", model=LegacyModel(function, **{"wait": 0, **options})), function


class Greedy:
    id = "greedy"

    def __init__(self) -> None:
        self.asked = 0

    async def process_api_error(self, ctx: Any, /) -> Retry:
        self.asked += 1
        return Retry()


# --- text in, text out


async def test_a_prompt_goes_in_and_a_text_comes_out() -> None:
    agent, function = legacy("Hello.")
    result = await agent.generate_legacy("Say hello")
    assert (result.text, result.output, result.stop_reason, result.finish_reason) == (
        "Hello.",
        "Hello.",
        "answered",
        "stop",
    )
    assert function.prompts == ["Say hello"]
    assert [(m.role, m.text) for m in result.messages] == [("user", "Say hello"), ("assistant", "Hello.")]
    assert (result.usage.total_tokens, result.usage.requests) == (0, 1)


async def test_the_instructions_come_before_the_prompt() -> None:
    function = Function("ok")
    agent = Agent(id="old", model=LegacyModel(function), instructions="Be brief.")
    await agent.generate_legacy("Say hello")
    assert function.prompts == ["Be brief.\n\nSay hello"]


async def test_a_conversation_says_who_said_what() -> None:
    agent, function = legacy("blue")
    earlier = [Message("user", "A colour?"), Message("assistant", [ReasoningPart("hm"), TextPart("red")])]
    await agent.generate_legacy("Another?", messages=earlier)
    assert function.prompts == ["User: A colour?\n\nAssistant: red\n\nUser: Another?\n\nAssistant:"]


async def test_an_empty_text_is_an_answer() -> None:
    agent, _ = legacy("")
    result = await agent.generate_legacy("go")
    assert (result.text, result.stop_reason) == ("", "answered")


def is_here(run: ScorerRun) -> bool:
    return "here" in run.output


async def test_scorers_judge_a_legacy_agents_answer_and_feedback_reaches_its_prompt() -> None:
    agent, function = legacy("gone", "here")
    result = await agent.generate_legacy("Where?", is_task_complete=is_here)
    assert (result.text, result.stop_reason, len(result.attempts)) == ("here", "complete", 2)
    assert function.prompts[1].startswith("User: Where?\n\nAssistant: gone\n\nUser: ")
    assert "is_here" in function.prompts[1]
    assert any(isinstance(p, FeedbackPart) for m in result.messages for p in m.parts)


# --- the function


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


async def test_a_plain_function_runs_in_a_worker_thread_with_the_callers_context() -> None:
    seen: list[Any] = []

    def function(text: str) -> str:
        seen.append((threading.get_ident() == here, VARIABLE.get()))
        return "ok"

    here = threading.get_ident()
    VARIABLE.set("set")
    await Agent(id="old", model=LegacyModel(function)).generate_legacy("go")
    assert seen == [(False, "set")]


async def answer_later(text: str) -> str:
    await anyio.lowlevel.checkpoint()
    return f"{text}!"


class Later:
    async def __call__(self, text: str) -> str:
        return await answer_later(text)


def answer_with_an_awaitable(text: str) -> Any:
    return answer_later(text)


@pytest.mark.parametrize("function", [answer_later, functools.partial(answer_later), Later(), answer_with_an_awaitable])
async def test_an_async_function_is_awaited(function: Any) -> None:
    assert (await Agent(id="old", model=LegacyModel(function)).generate_legacy("go")).text == "go!"


async def test_a_cancel_ends_an_async_function() -> None:
    started, ended = anyio.Event(), anyio.Event()

    async def function(text: str) -> str:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    agent = Agent(id="old", model=LegacyModel(function))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.generate_legacy, "go")
            await started.wait()
            tasks.cancel_scope.cancel()
    assert ended.is_set()


@pytest.mark.parametrize("value", [None, 3, b"text", ["text"]])
async def test_a_function_that_returns_no_text_is_a_user_error_and_not_called_again(value: Any) -> None:
    calls: list[str] = []

    def function(text: str) -> Any:
        calls.append(text)
        return value

    with pytest.raises(UserError, match="the function of legacy model 'davinci' must return a text, got"):
        await Agent(id="old", model=LegacyModel(function, id="davinci")).generate_legacy("go")
    assert calls == ["go"]


# --- retries of its own


@pytest.mark.parametrize("max_retries", [0, 1, 2, 5])
async def test_it_makes_max_retries_and_one_attempts_and_each_is_counted(max_retries: int) -> None:
    agent, function = legacy(api_error(503, message="busy"), max_retries=max_retries)
    with pytest.raises(ModelError, match="legacy/legacy: busy") as caught:
        await agent.generate_legacy("go")
    assert len(function.prompts) == max_retries + 1
    assert (caught.value.provider, caught.value.model) == ("legacy", "legacy")


async def test_two_retries_are_the_default_and_their_requests_are_counted() -> None:
    agent, function = legacy(api_error(429), ConnectionResetError("reset"), "Hello.")
    result = await agent.generate_legacy("go")
    assert (result.text, len(function.prompts)) == ("Hello.", 3)
    assert (result.usage.requests, result.steps[0].attempts) == (3, 3)


class ClientError(Exception):
    """What a client of its own kind may raise."""

    def __init__(self, **facts: Any) -> None:
        super().__init__("failed")
        vars(self).update(facts)


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (api_error(429), 3),
        (api_error(500), 3),
        (ConnectionError("no route"), 3),
        (TimeoutError("slow"), 3),
        (ClientError(code="ECONNRESET"), 3),
        (ClientError(status_code=503), 3),
        (ClientError(is_retryable=True), 3),
        (ClientError(is_retryable=False, status_code=503), 1),
        (ClientError(status_code=400), 1),
        (ClientError(), 1),
        (ValueError("a bug"), 1),
        (api_error(401), 1),
        (api_error(400, body={"error": {"code": "context_length_exceeded"}}), 1),
        (api_error(429, body={"error": {"code": "insufficient_quota"}}), 1),
    ],
)
async def test_only_failures_that_may_pass_are_retried(error: Exception, calls: int) -> None:
    agent, function = legacy(error)
    with pytest.raises(ModelError):
        await agent.generate_legacy("go")
    assert len(function.prompts) == calls


@pytest.mark.parametrize("error", [UserError("misused"), ToolError("odd"), AssertionError("a test's")])
async def test_errors_of_the_package_and_assertions_leave_as_they_are(error: Exception) -> None:
    agent, function = legacy(error)
    with pytest.raises(type(error)) as caught:
        await agent.generate_legacy("go")
    assert (caught.value, len(function.prompts)) == (error, 1)


async def test_a_foreign_exception_is_the_cause_of_a_model_error() -> None:
    reset = ConnectionResetError("reset")
    agent, _ = legacy(reset, max_retries=0)
    with pytest.raises(ModelConnectionError) as caught:
        await agent.generate_legacy("go")
    assert caught.value.__cause__ is reset


@pytest.mark.parametrize(
    ("wait", "headers", "seconds"),
    [
        (0, {}, 0.0),
        (7, {}, 7.0),
        (0, {"retry-after": "3"}, 3.0),
        (7, {"retry-after": "3"}, 7.0),
        (0, {"retry-after": "900"}, 30.0),
        (wait_fixed(4), {"retry-after-ms": "500"}, 4.0),
        (None, {}, 4.0),
    ],
)
def test_the_wait_is_its_own_or_what_the_provider_asks_for_up_to_a_limit(
    wait: Any, headers: dict[str, str], seconds: float
) -> None:
    state = RetryCallState(AsyncRetrying(), fn=None, args=(), kwargs={})
    state.attempt_number = 3
    error = api_error(429, headers=headers)
    state.set_exception((type(error), error, None))
    assert LegacyModel(Function("x"), wait=wait).wait(state) == seconds


async def test_a_cancel_ends_the_wait_at_once() -> None:
    waiting = anyio.Event()

    class Long(wait_base):
        def __call__(self, retry_state: Any) -> float:
            waiting.set()
            return 1000.0

    agent, function = legacy(api_error(503), wait=Long())
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.generate_legacy, "go")
            await waiting.wait()
            tasks.cancel_scope.cancel()
    assert len(function.prompts) == 1


@pytest.mark.asyncio
async def test_an_error_in_the_place_of_a_cancel_is_not_retried() -> None:
    stubborn = Stubborn()
    agent = Agent(id="old", model=LegacyModel(stubborn.wait, wait=0))
    await is_not_swallowed(agent.generate_legacy("go"), stubborn)


async def test_error_processors_are_bypassed() -> None:
    greedy = Greedy()
    function = Function(api_error(503))
    agent = Agent(
        id="old",
        model=LegacyModel(function, max_retries=1, wait=0),
        error_processors=[greedy],
        max_processor_retries=5,
    )
    with pytest.raises(ModelError):
        await agent.generate_legacy("go", max_processor_retries=3)
    assert (greedy.asked, len(function.prompts)) == (0, 2)


# --- as judge


async def test_a_legacy_model_judges() -> None:
    function = Function('{"score": 0.8}', "It is dull.")
    judge = Judge(model=LegacyModel(function, id="davinci"), instructions="You grade.")
    scorer = create_scorer("s", judge=judge).generate_score(prompt()).generate_reason(prompt("Why?"))
    result = await scorer.run()
    assert (result.score, result.reason) == (0.8, "It is dull.")
    assert function.prompts[0].startswith("You grade.\n\nGrade it.\n\nAnswer with one JSON object")
    assert function.prompts[1] == "You grade.\n\nWhy?"
    record = result.judge["generate_score"]
    assert (record.model, record.provider, record.model_calls) == ("davinci", "legacy", 1)


async def test_a_legacy_judge_bypasses_error_processors_and_retries_itself() -> None:
    greedy = Greedy()
    function = Function(api_error(503), api_error(503), '{"score": 1}', api_error(503))
    judge = Judge(
        model=LegacyModel(function, wait=0),
        instructions="You grade.",
        error_processors=[greedy],
        max_processor_retries=9,
    )
    scorer = create_scorer("s", judge=judge).generate_score(prompt()).generate_reason(prompt("Why?"))
    result = await scorer.run()
    assert (result.score, greedy.asked) == (1, 0)
    assert [record.model_calls for record in result.judge.values()] == [3, 3]
    assert isinstance(result.error, ScorerRunError)


async def test_a_legacy_judge_is_re_asked_once_in_one_text() -> None:
    function = Function("It is good.", "Very good.")
    judge = Judge(model=LegacyModel(function), instructions="You grade.", json_prompt_injection="system")
    with pytest.raises(ScorerRunError) as caught:
        await create_scorer("s", judge=judge).generate_score(prompt()).run()
    assert isinstance(caught.value.__cause__, JudgeError)
    again = function.prompts[1]
    assert again.startswith("You grade.\n\nAnswer with one JSON object")
    assert "User: Grade it.\n\nAssistant: It is good.\n\nUser: Your reply cannot be used" in again
    assert len(function.prompts) == 2


async def test_what_a_legacy_judge_sends_counts_in_the_run() -> None:
    function = Function(api_error(503), '{"score": 1}')
    judge = Judge(model=LegacyModel(function, wait=0), instructions="You grade.")
    scorer = create_scorer("s", judge=judge).generate_score(prompt())
    _, result = await read_all(Agent(id="a", model=ScriptedModel(["draft"])), is_task_complete=scorer)
    assert (result.stop_reason, result.usage.requests) == ("complete", 3)


async def test_a_legacy_judge_cannot_be_told_the_form_natively() -> None:
    judge = Judge(model=LegacyModel(Function("x")), instructions="i", json_prompt_injection=False)
    with pytest.raises(UserError, match="leave json_prompt_injection at 'auto'"):
        await create_scorer("s", judge=judge).generate_score(prompt()).run()


# --- misuse


@tool
def look_up(name: str) -> str:
    """Look a name up."""
    return name


async def test_stream_and_generate_are_not_for_legacy_models() -> None:
    agent, function = legacy("x")
    with pytest.raises(UserError, match=r"agent 'old': its model is a legacy one; use generate_legacy\(\)"):
        agent.stream("go")
    with pytest.raises(UserError, match=r"use generate_legacy\(\)"):
        await agent.generate("go")
    assert function.prompts == []


async def test_generate_legacy_is_for_legacy_models_only() -> None:
    agent = Agent(id="new", model=ScriptedModel([]))
    with pytest.raises(UserError, match=r"agent 'new': generate_legacy\(\) is for a LegacyModel; use generate\(\)"):
        await agent.generate_legacy("go")


async def test_an_agent_with_a_legacy_model_cannot_judge() -> None:
    agent, function = legacy("x")
    ran: list[Any] = []
    scorer = create_scorer("s", judge=agent).preprocess(ran.append).generate_score(prompt())
    with pytest.raises(UserError, match="step generate_score: an agent with a legacy model cannot judge"):
        await scorer.run(output="x")
    assert (ran, function.prompts) == ([], [])


@pytest.mark.parametrize("where", ["agent", "call", "context"])
async def test_tools_are_refused(where: str) -> None:
    function = Function("x")
    options: dict[str, Any] = {"agent": {"tools": [look_up]}, "context": {"tools": lambda context: [look_up]}}.get(
        where, {}
    )
    agent = Agent(id="old", model=LegacyModel(function), **options)
    with pytest.raises(UserError, match="agent 'old': a legacy model cannot call tools; leave out tools="):
        await agent.generate_legacy("go", **({"tools": [look_up]} if where == "call" else {}))
    assert function.prompts == []


@pytest.mark.parametrize(
    ("messages", "kind"),
    [
        ([Message("user", [ImagePart(url="https://example.org/a.png")])], "image"),
        ([Message("user", "x"), Message("assistant", [ToolCallPart("c", "f", {})]), Message("user", "y")], "tool-call"),
    ],
)
async def test_what_is_no_text_is_refused(messages: list[Message], kind: str) -> None:
    agent, function = legacy("x")
    with pytest.raises(UserError, match=f"legacy model 'legacy' takes text only, and there is a {kind}"):
        await agent.generate_legacy(messages=messages)
    assert function.prompts == []


async def test_settings_are_refused() -> None:
    function = Function("x")
    agent = Agent(id="old", model=LegacyModel(function), model_settings={"temperature": 0.0})
    with pytest.raises(UserError, match="legacy model 'legacy' takes no model_settings; set them in its function"):
        await agent.generate_legacy("go")
    assert function.prompts == []


async def test_options_are_checked_as_everywhere() -> None:
    agent, _ = legacy("x")
    with pytest.raises(UserError, match="has no option 'max_step'; did you mean 'max_steps'"):
        await agent.generate_legacy("go", max_step=3)  # type: ignore[call-arg]
    with pytest.raises(UserError, match="there is nothing to answer"):
        await agent.generate_legacy()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"function": "davinci"}, "LegacyModel needs a function from a prompt to a text"),
        ({"max_retries": -1}, "LegacyModel max_retries must be a whole number from 0"),
        ({"max_retries": 1.5}, "LegacyModel max_retries must be a whole number from 0"),
        ({"max_retries": True}, "LegacyModel max_retries must be a whole number from 0"),
        ({"wait": -1}, "LegacyModel wait must be a finite number of seconds from 0 or a tenacity wait"),
        ({"wait": float("inf")}, "LegacyModel wait must be"),
        ({"wait": float("nan")}, "LegacyModel wait must be"),
        ({"wait": True}, "LegacyModel wait must be"),
        ({"wait": "long"}, "LegacyModel wait must be"),
    ],
)
def test_what_it_is_made_of_is_checked(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        LegacyModel(**{"function": Function("x"), **options})


def test_it_is_a_model() -> None:
    model = LegacyModel(Function("x"), id="davinci", provider="mine", wait=wait_none())
    assert isinstance(model, Model)
    assert (repr(model), model.provider, model.profile.native_output) == ("LegacyModel('davinci')", "mine", False)


class City(BaseModel):
    name: str


async def test_generate_legacy_has_no_output_type() -> None:
    agent, _ = legacy('{"name": "Oslo"}')
    with pytest.raises(UserError, match="has no option 'output'"):
        await agent.generate_legacy("go", output=City)  # type: ignore[call-arg]


async def test_processors_change_what_goes_in_and_what_comes_out() -> None:
    class Shout:
        id = "shout"

        def process_input(self, messages: tuple[Message, ...], ctx: Any) -> list[Message]:
            return [Message("user", messages[-1].text.upper())]

        def process_output_result(self, text: str, ctx: Any) -> str:
            return text.upper()

    function = Function("hello")
    shout = Shout()
    agent = Agent(id="old", model=LegacyModel(function), input_processors=[shout], output_processors=[shout])
    assert ((await agent.generate_legacy("go")).text, function.prompts) == ("HELLO", ["GO"])
