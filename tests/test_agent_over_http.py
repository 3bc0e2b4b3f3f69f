"""An agent over a real connection: leaving a run closes it, and the server sees that."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from support.chat_reply import chat_reply
from support.http_server import HTTPServer, Reply, chunks, sse

from mastra_py import (
    Agent,
    ModelError,
    RateLimitError,
    RequestError,
    RetryMatcher,
    StreamError,
    StreamErrorRetryProcessor,
    UserError,
)
from mastra_py.events import RetryScheduled, TextDelta
from mastra_py.models import OpenAIChatModel


def delta(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}


def endless() -> Reply:
    """Return a reply of three deltas that never goes on."""
    return sse(*chunks(*[delta(f"{n} ") for n in range(3)], done=False), anyio.Event())


def agent(server: HTTPServer, **options: Any) -> Agent:
    model = OpenAIChatModel("m", base_url=server.base_url, api_key="a key that opens nothing")
    return Agent(id="a", model=model, **options)


class BodyError(Exception):
    """The reader's own error."""


@pytest.mark.parametrize("how", ["break", "cancel", "raise", "scope", "leave"])
async def test_a38_leaving_a_run_closes_its_connection(how: str) -> None:
    for _ in range(2):  # twice in one event loop
        with anyio.fail_after(5):
            async with HTTPServer(endless()) as server:
                with anyio.CancelScope() as scope:
                    try:
                        async with agent(server).stream("go") as stream:
                            seen = 0
                            async for event in stream:
                                seen += isinstance(event, TextDelta)
                                if seen < 3 or not isinstance(event, TextDelta):
                                    continue
                                if how == "break":
                                    break
                                if how == "cancel":
                                    stream.cancel()
                                elif how == "raise":
                                    raise BodyError
                                elif how == "scope":
                                    scope.cancel()
                                else:
                                    break
                    except BodyError:
                        assert how == "raise"
                assert scope.cancelled_caught == (how == "scope")
                await server.disconnected.wait()
                assert len(server.requests) == 1


async def test_a_run_over_several_steps_keeps_one_connection() -> None:
    async with HTTPServer(chat_reply("one"), chat_reply("two"), chat_reply("three")) as server:
        result = await agent(server).generate("go", is_task_complete=lambda run: run.output == "three")
    assert result.accepted
    assert (len(server.requests), server.connections) == (3, 1)


@pytest.mark.parametrize("retries", [0, 2])
async def test_a28_requests_are_retries_plus_one_whatever_the_sdk_would_do(retries: int) -> None:
    limited = Reply(b'{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}', status=429)
    async with HTTPServer(limited) as server:
        processors = [StreamErrorRetryProcessor(max_retries=retries)] if retries else []
        with pytest.raises(RateLimitError):
            await agent(server, error_processors=processors).generate("go")
    assert len(server.requests) == retries + 1


async def test_a27_a_long_retry_after_is_capped() -> None:
    limited = Reply(b"{}", status=429, headers={"Retry-After": "3600"})
    with anyio.fail_after(5):
        async with HTTPServer(limited, chat_reply("done")) as server:
            retry = StreamErrorRetryProcessor(max_retry_after=0.05)
            assert (await agent(server, error_processors=[retry]).generate("go")).text == "done"


async def test_a30_a_cancel_ends_the_wait_for_a_retry_and_sends_nothing() -> None:
    limited = Reply(b"{}", status=429, headers={"Retry-After": "20"})
    async with HTTPServer(limited) as server:
        runner = agent(server, error_processors=[StreamErrorRetryProcessor()])
        with anyio.fail_after(5), anyio.CancelScope() as scope:
            async with runner.stream("go") as stream, anyio.create_task_group() as tasks:
                async for event in stream:
                    if event.type == "retry-scheduled":
                        tasks.start_soon(cancel_once_idle, scope)
        assert scope.cancelled_caught
        assert len(server.requests) == 1


async def cancel_once_idle(scope: anyio.CancelScope) -> None:
    await anyio.wait_all_tasks_blocked()
    scope.cancel()


@pytest.mark.parametrize(
    ("model", "variable"), [("openai/gpt-5-mini", "OPENAI_API_KEY"), ("anthropic/claude-x", "ANTHROPIC_API_KEY")]
)
def test_a_missing_key_is_named_before_anything_is_sent(
    model: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    writer = Agent(id="a", model=model)
    with pytest.raises(UserError, match=variable):
        writer.stream("go")


def broken_off() -> Reply:
    """Return a reply whose connection breaks off in the middle of its text."""
    return sse(*chunks(delta("half a "), delta("th"), done=False), breaks_off=True)


@pytest.mark.parametrize("how", ["events", "result", "held texts", "live texts", "live drafts"])
async def test_a_reply_that_breaks_off_is_retried_where_it_can_be_taken_back(how: str) -> None:
    async with HTTPServer(broken_off(), chat_reply("whole")) as server:
        runner = agent(server, error_processors=[StreamErrorRetryProcessor()])
        options: dict[str, Any] = {"is_task_complete": lambda run: 1} if how in {"held texts", "live drafts"} else {}
        seen: list[str] = []
        error: ModelError | None = None
        with anyio.fail_after(5):
            async with runner.stream("go", **options) as stream:
                try:
                    if how == "events":
                        seen = [e.text for e in [e async for e in stream] if isinstance(e, TextDelta)]
                    elif how == "result":
                        seen = [(await stream.result()).text]
                    else:
                        async for text in stream.text_deltas(drafts=how == "live drafts"):
                            seen.append(text)
                except ModelError as exc:
                    error = exc
    if how.startswith("live"):
        assert isinstance(error, StreamError)
        assert (seen, error.partial_text, len(server.requests)) == (["half a ", "th"], "half a th", 1)
    else:
        assert error is None
        assert len(server.requests) == 2
        assert seen == (["half a ", "th", "whole"] if how == "events" else ["whole"])


async def test_waits_are_those_that_the_provider_and_the_processor_ask_for() -> None:
    def limited(**headers: str) -> Reply:
        return Reply(b"{}", status=429, headers={name.replace("_", "-"): value for name, value in headers.items()})

    script = [limited(retry_after_ms="20"), limited(retry_after="0"), limited(Retry_After="soon"), chat_reply("done")]
    async with HTTPServer(*script) as server:
        retry = StreamErrorRetryProcessor(max_retries=3, delay=lambda ctx: 0.01 * ctx.retry_count)
        async with agent(server, error_processors=[retry]).stream("go") as stream:
            delays = [e.delay async for e in stream if isinstance(e, RetryScheduled)]
    assert delays == [0.02, 0.01, 0.02]
    assert len(server.requests) == 4


async def test_a_matcher_brings_its_own_limit_and_the_cap_holds_for_all() -> None:
    teapot = Reply(b'{"error": {"message": "short and stout"}}', status=418)
    matcher = RetryMatcher(lambda error: "stout" in str(error), max_retries=3)
    async with HTTPServer(teapot) as server:
        retry = StreamErrorRetryProcessor(max_retries=0, matchers=[matcher])
        with pytest.raises(RequestError):
            await agent(server, error_processors=[retry]).generate("go")
        assert len(server.requests) == 4
        with pytest.raises(RequestError):
            await agent(server, error_processors=[retry, retry], max_processor_retries=2).generate("go")
    assert len(server.requests) == 4 + 3
