"""What a run has spent: the sum of its parts is the total, and what a server counted; and what that costs."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from support.counting_server import CountingServer
from support.http_server import WIRE, HTTPServer, Reply
from support.judges import graded, prompt
from support.streams import read_all
from support.supervising import asking, nested, scripted, supervisor, told

from mastra_py import (
    Agent,
    AgentResult,
    Judge,
    LegacyModel,
    RunError,
    StreamErrorRetryProcessor,
    create_scorer,
)
from mastra_py.messages import Usage, total_usage
from mastra_py.models import AnthropicModel, FallbackModel, OpenAIChatModel
from mastra_py.scoring import ScorerRun
from mastra_py.testing import FunctionModel, ScriptedModel, Turn, api_error
from mastra_py.usage import RunUsage


def fields(usage: Usage) -> tuple[int, int, int, int]:
    return (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.reasoning_tokens)


def adds_up(usage: RunUsage) -> None:
    """Check that the parts make the whole, by who spent it and by model."""
    assert fields(total_usage(usage.by.values())) == fields(usage)
    assert fields(total_usage([u for usages in usage.calls.values() for u in usages])) == fields(usage)


def spent(tokens: int, cached: int = 0) -> Usage:
    return Usage(input_tokens=tokens, output_tokens=tokens, cached_input_tokens=cached)


def says(text: str, tokens: int, **more: Any) -> Turn:
    return Turn(text=text, usage=spent(tokens), **more)


def by(result: AgentResult[Any]) -> dict[str, int]:
    return {key: usage.input_tokens for key, usage in result.usage.by.items()}


# --- as a server counted it


@pytest.mark.parametrize("how", ["generate", "stream", "result"])
async def test_a46_the_usage_of_a_supervisor_is_what_the_server_counted(how: str) -> None:
    scripts = {
        "boss": [500, asking(("kid", "1"), ("other", "2")), "draft", "final"],
        "kid": [asking(("deep", "3")), "kid says"],
        "deep": ["deep says"],
        "other": [503, "bad", "other says"],
        "judge": ['{"score": 0}', "no JSON", '{"score": 1}'],
        "agent-judge": ['{"score": 0}', '{"score": 1}'],
    }
    with anyio.fail_after(10):
        async with CountingServer(scripts) as server:
            retry = {"error_processors": [StreamErrorRetryProcessor()]}
            judged = create_scorer("quality", judge=Judge(model=server.model("judge"), instructions="You grade."))
            by_agent = create_scorer("taste", judge=server.agent("agent-judge"))
            kid = server.agent("kid", agents={"deep": server.agent("deep")})
            other = server.agent("other", defaults={"is_task_complete": [by_agent.generate_score(prompt())]}, **retry)
            boss = server.agent("boss", agents={"kid": kid, "other": other}, **retry)
            options: Any = {"is_task_complete": [judged.generate_score(prompt())]}
            if how == "generate":
                result = await boss.generate("go", **options)
            elif how == "stream":
                _, result = await read_all(boss, **options)
            else:
                async with boss.stream("go", **options) as stream:
                    result = await stream.result()
    assert result.text == "final"
    adds_up(result.usage)
    assert fields(result.usage) == fields(server.total)
    assert result.usage.requests == len(server.requests) == 15
    assert {key: fields(usage) for key, usage in result.usage.by.items()} == {
        f"{'judge' if name in JUDGES else 'agent'}:{JUDGES.get(name, name)}": fields(usage)
        for name, usage in server.spent.items()
    }


JUDGES = {"judge": "quality", "agent-judge": "taste"}


async def test_a46_within_one_reply_the_last_usage_counts() -> None:
    cumulative = Reply(
        (WIRE / "A46-anthropic-cumulative-usage.sse").read_bytes(), headers={"content-type": "text/event-stream"}
    )
    with anyio.fail_after(30):  # the client of Anthropic's takes long to import
        async with HTTPServer(cumulative) as server:
            model = AnthropicModel("claude", base_url=server.base_url.removesuffix("/v1"), api_key="none")
            result = await supervisor(asking(("kid", "1")), Agent(id="kid", model=model)).generate("go")
    assert fields(result.usage.by["agent:kid"]) == (126, 40, 100, 0)
    adds_up(result.usage)


async def test_requests_that_failed_are_counted_though_they_report_nothing() -> None:
    with anyio.fail_after(5):
        async with HTTPServer(Reply(b"{}", status=500)) as server:
            model = OpenAIChatModel("m", base_url=server.base_url, api_key="none")
            kid = Agent(id="kid", model=model, error_processors=[StreamErrorRetryProcessor(max_retries=2)])
            result = await supervisor(asking(("kid", "1")), kid).generate("go")
    assert (result.usage.requests, len(server.requests)) == (5, 3)


# --- who spent it


async def test_failed_attempts_are_counted_for_whom_they_were_made() -> None:
    half = says("half", 4, error=api_error(500), error_at="mid_stream")
    retry: Any = {"error_processors": [StreamErrorRetryProcessor()]}
    turn = Turn(tool_calls=asking(("kid", "1")).tool_calls, usage=spent(1))
    boss = supervisor(turn, scripted("kid", half, says("x", 8), **retry), then=[half, says("done", 2)], **retry)
    result = await boss.generate("go")
    assert by(result) == {"agent:boss": 3, "failed:kid": 4, "agent:kid": 8, "failed:boss": 4}
    adds_up(result.usage)


async def test_what_a_failed_sub_agent_has_spent_is_counted() -> None:
    kid = scripted("kid", says("no JSON", 4, finish_reason="refusal"))
    result = await supervisor(asking(("kid", "1")), kid).generate("go")
    assert by(result) == {"agent:boss": 2, "agent:kid": 4}


async def test_what_a_cancelled_run_has_spent_so_far_is_counted() -> None:
    kid = scripted("kid", Turn(tool_calls=[("w", "work", {})], usage=spent(4)), Turn(text="x", hang=True), tools=[work])
    with anyio.fail_after(5):
        async with supervisor(asking(("kid", "1")), kid).stream("go") as stream:
            async for event in stream:
                if event.type == "tool-output" and event.event.type == "text-delta":
                    stream.cancel()
            result = await stream.result()
    assert (by(result), result.usage.requests) == ({"agent:boss": 1, "agent:kid": 4}, 3)


async def work() -> str:
    return "worked"


async def test_a_run_that_fails_says_what_it_has_spent() -> None:
    kid = scripted("kid", says("x", 4))
    boss = supervisor(asking(("kid", "1")), kid, then=[Turn(error=api_error(500))])
    with pytest.raises(RunError) as caught:
        await boss.generate("go")
    assert caught.value.usage is not None
    assert (caught.value.usage.input_tokens, caught.value.usage.requests) == (5, 3)


async def test_the_terminal_events_of_sub_agents_tell_their_own_usage() -> None:
    deep = scripted("deep", says("x", 4))
    kid = scripted("kid", asking(("deep", "1")), says("y", 8), agents={"deep": deep})
    events, result = await read_all(supervisor(asking(("kid", "1")), kid))
    ends = {e.agent_id: e.event.usage.input_tokens for e in nested(events) if e.event.type == "finish"}
    assert ends == {"deep": 4, "kid": 13}
    assert result.usage.input_tokens == 15


@pytest.mark.parametrize("how", ["generate", "stream", "broken off"])
async def test_agents_that_run_inside_of_plain_tools_are_counted_once(how: str) -> None:
    inner = scripted("inner", says("x", 4))

    async def ask() -> str:
        if how == "generate":
            return (await inner.generate("go")).text
        async with inner.stream("go") as stream:
            if how == "stream":
                return (await stream.result()).text
            async for event in stream:
                if event.type == "model-finish":
                    break
            return "x"

    boss = scripted("boss", Turn(tool_calls=[("a", "ask", {})]), "done", tools=[ask])
    result = await boss.generate("go")
    assert told(result) == [(False, "x")]
    assert (by(result), result.usage.requests) == ({"agent:boss": 2, "agent:inner": 4}, 3)


async def test_agents_in_tools_in_threads_and_in_scorers_are_counted() -> None:
    inner = Agent(id="inner", model=FunctionModel(lambda _: says("x", 4)))

    def in_thread() -> str:
        return anyio.from_thread.run(inner.generate, "go").text

    async def judge(run: ScorerRun[Any, Any]) -> bool:
        return (await inner.generate("is it good?")).text == "x"

    boss = scripted("boss", Turn(tool_calls=[("a", "in_thread", {})]), "done", tools=[in_thread])
    result = await boss.generate("go", is_task_complete=[judge])
    assert by(result) == {"agent:boss": 2, "agent:inner": 4, "judge:judge": 4}


async def test_the_judges_of_a_sub_agent_are_told_apart_and_counted_once() -> None:
    judge, _ = graded(says('{"score": 1}', 16))
    kid = scripted("kid", says("x", 4), defaults={"is_task_complete": [judge]})
    result = await supervisor(asking(("kid", "1")), kid).generate("go")
    assert by(result) == {"agent:boss": 2, "agent:kid": 4, "judge:quality": 16}
    adds_up(result.usage)


async def test_the_sub_agents_of_a_judge_are_its_own_expense() -> None:
    helper = scripted("helper", says("fine", 4))
    judge = scripted("judge", asking(("helper", "1")), says('{"score": 1}', 8), agents={"helper": helper})
    scorer = create_scorer("quality", judge=judge).generate_score(prompt())
    result = await scripted("boss", "x").generate("go", is_task_complete=[scorer])
    assert by(result) == {"agent:boss": 1, "judge:quality": 13}


async def test_runs_at_once_do_not_count_for_each_other() -> None:
    kid = Agent(id="kid", model=FunctionModel(lambda _: says("x", 4)))

    def answer(request: Any) -> Any:
        return says("done", 1) if len(request.messages) > 1 else asking(("kid", "1"), ("kid", "2"))

    boss = Agent(id="boss", model=FunctionModel(answer), agents={"kid": kid})
    found: list[Any] = []

    async def run() -> None:
        found.append(by(await boss.generate("go")))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(run)
    assert found == [{"agent:boss": 2, "agent:kid": 8}] * 5
    assert by(await kid.generate("go")) == {"agent:kid": 4}, "no run pays for what comes after it"


async def test_a_fallback_and_a_legacy_model_are_counted_under_their_own_names() -> None:
    kid = Agent(
        id="kid",
        model=FallbackModel(ScriptedModel([Turn(error=api_error(500))], id="a"), ScriptedModel([says("x", 4)], id="b")),
    )
    calls: list[str] = []

    def complete(_: str) -> str:
        calls.append("call")
        if len(calls) < 3:
            raise api_error(500)
        return "old"

    old = Agent(id="old", model=LegacyModel(complete, wait=0))
    result = await supervisor(asking(("kid", "1"), ("old", "2")), kid, old).generate("go")
    assert [text for _, text in told(result)] == ["x", "old"]
    assert list(result.usage.calls) == [("test", "boss"), ("test", "b")]
    assert result.usage.requests == 2 + 2 + 3
