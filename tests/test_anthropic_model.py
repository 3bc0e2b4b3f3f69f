from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import anyio
import httpx2
import pytest
from pydantic import BaseModel
from support.http_server import WIRE, HTTPServer, Reply, one_byte_at_a_time, sse
from support.streams import read_all, read_reply, text_of
from support.wire_cases import (
    case_name,
    check_reply,
    check_requests,
    load_case,
    replies_of,
    reply_of,
    wire_cases,
)

from mastra_py import Agent, Message, StreamErrorRetryProcessor, tool
from mastra_py.errors import ModelTimeoutError, StreamError, UserError
from mastra_py.events import ModelFinished, TextDelta, ToolCall
from mastra_py.messages import ToolCallPart, ToolResultPart, Usage
from mastra_py.models import AnthropicModel, Model, ModelProfile, ModelRequest, ModelSettings, OpenAIChatModel
from mastra_py.models.resolve import resolve_model
from mastra_py.tools import Tool

HELLO = ModelRequest(messages=[Message("user", "Hello")])


def events_of(*payloads: dict[str, Any]) -> list[str]:
    """Return one server-sent event a payload, named as Anthropic names them."""
    return [f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n" for payload in payloads]


def said(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


START = {"type": "message_start", "message": {"id": "r1", "model": "m1", "usage": {"input_tokens": 3}}}
STOP = {"type": "message_stop"}


def end(reason: str = "end_turn") -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}


GOOD = events_of(START, said("Hi"), said(" there"), end(), STOP)
WHOLE = ModelFinished(finish_reason="stop", usage=Usage(input_tokens=3, output_tokens=2), response_id="r1", model="m1")


def model_at(server: HTTPServer, **options: Any) -> AnthropicModel:
    return AnthropicModel("m1", base_url=server.base_url, **options)


# --- replies seen in the field

both_ways = pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "bytewise"])


@both_ways
@pytest.mark.parametrize("path", wire_cases("anthropic"), ids=case_name)
async def test_a_reply_from_the_field_is_read_rightly(path: Path, bytewise: bool) -> None:
    case = load_case(path)
    async with HTTPServer(reply_of(case, bytewise=bytewise)) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert len(server.requests) == 1
    check_reply(case, events, error)
    assert error is None or (error.provider, error.model) == ("anthropic", "m1")


def recorder(definition: dict[str, Any], executed: list[dict[str, Any]], *, several: bool = False) -> Tool:
    """Return a tool of a case, which records its calls; of several at once the first ends last."""
    later = anyio.Event()

    async def run(args: dict[str, Any]) -> str:
        executed.append({"name": definition["name"], "args": args})
        if several and len(executed) == 1:
            await later.wait()
        later.set()
        return "ok"

    return Tool(name=definition["name"], parameters=definition["parameters"], run=run)


@both_ways
@pytest.mark.parametrize("path", wire_cases("anthropic"), ids=case_name)
async def test_a_run_on_a_reply_from_the_field_goes_on_rightly(path: Path, bytewise: bool) -> None:
    case = load_case(path)
    expected = case["expect"]
    executed: list[dict[str, Any]] = []
    several = len(expected.get("tool_calls", ())) > 1
    scores = iter(case.get("scorers", [[1]])[0])
    processors = [{k: v for k, v in each.items() if k != "type"} for each in case.get("processors", ())]
    async with HTTPServer(*replies_of(case, bytewise=bytewise)) as server:
        agent = Agent(
            id="a",
            model=model_at(server),
            tools=[recorder(definition, executed, several=several) for definition in case.get("tools", ())],
            error_processors=[StreamErrorRetryProcessor(**options) for options in processors],
        )
        started = anyio.current_time()
        with anyio.fail_after(10):
            _, result = await read_all(
                agent, is_task_complete=(lambda run: next(scores)) if "scorers" in case else None
            )
        took = anyio.current_time() - started
    assert executed == expected.get("executed", executed)
    assert len(server.requests) == expected["requests"]
    assert result.text == expected.get("final_text", result.text)
    check_requests(expected.get("assert", ()), server.requests)
    if between := expected.get("delay_between_requests_s"):
        assert between["min"] <= took <= between["max"]


async def test_a_conversation_with_another_provider_is_taken_over() -> None:
    """A20"""
    case = load_case(WIRE / "A20-chat-foreign-tool-ids.json")
    async with (
        HTTPServer(*replies_of(case)) as first,
        HTTPServer(Reply((WIRE / "_final-anthropic.sse").read_bytes())) as second,
    ):
        tools = [recorder(definition, []) for definition in case["tools"]]
        agent = Agent(id="a", model=OpenAIChatModel("m1", base_url=first.base_url), tools=tools)
        _, before = await read_all(agent)
        other = Agent(id="b", model=model_at(second), tools=tools)
        _, after = await read_all(other, "go on", messages=before.messages)
    assert after.text == "All done."
    check_requests(case["expect"]["replay"]["assert"], second.requests)
    kept = [call.tool_call_id for message in after.messages for call in message.tool_calls]
    assert kept == ["functions.get_weather:0", "functions.get_weather:1"]


async def test_a_tool_that_returns_nothing_and_one_that_fails_have_their_results() -> None:
    """A18, A21"""

    @tool
    def silent() -> str:
        return ""

    @tool
    def failing() -> str:
        raise ZeroDivisionError

    blocks = [
        {"type": "content_block_start", "index": n, "content_block": {"type": "tool_use", "id": name, "name": name}}
        for n, name in enumerate(("silent", "failing"))
    ]
    async with HTTPServer(sse(*events_of(START, *blocks, end("tool_use"), STOP)), sse(*GOOD)) as server:
        await read_all(Agent(id="a", model=model_at(server), tools=[silent, failing]))
    quiet, broken = server.requests[1].json["messages"][-1]["content"]
    assert quiet == {"type": "tool_result", "tool_use_id": "silent"}
    assert (broken["tool_use_id"], broken["is_error"]) == ("failing", True)
    assert "ZeroDivisionError" in broken["content"]


# --- what is sent


async def test_a_request_goes_to_messages_with_key_and_headers() -> None:
    settings = ModelSettings(extra_headers={"X-Trace": "t1", "anthropic-beta": "b1"}, timeout=4.0)
    request = ModelRequest(messages=HELLO.messages, system="Be brief.", settings=settings)
    async with HTTPServer(sse(*GOOD)) as server:
        events, error = await read_reply(model_at(server, api_key="sk-1"), request)
    assert error is None
    assert events[-1] == WHOLE
    (sent,) = server.requests
    assert (sent.method, sent.path) == ("POST", "/v1/messages")
    assert "sk-1" in (sent.headers.get("x-api-key", ""), sent.headers.get("authorization", "").removeprefix("Bearer "))
    assert sent.headers["anthropic-version"]
    assert (sent.headers["x-trace"], sent.headers["anthropic-beta"]) == ("t1", "b1")
    assert sent.json == {
        "model": "m1",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "system": "Be brief.",
        "stream": True,
    }


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_a_base_url_may_have_the_version_or_not(suffix: str) -> None:
    async with HTTPServer(sse(*GOOD)) as server:
        root = server.base_url.removesuffix("/v1")
        await read_reply(AnthropicModel("m1", base_url=f"{root}/proxy{suffix}"), HELLO)
    assert server.requests[0].path == "/proxy/v1/messages"


async def test_key_and_url_come_from_the_environment_where_they_are_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    async with HTTPServer(sse(*GOOD)) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-env")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        events, _ = await read_reply(resolve_model("anthropic/claude-sonnet-5"), HELLO)
    assert text_of(events) == "Hi there"
    (sent,) = server.requests
    assert any("sk-env" in value for value in sent.headers.values())
    assert (sent.json["model"], sent.json["max_tokens"]) == ("claude-sonnet-5", 16_384)


def test_a_missing_key_is_named_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    model = AnthropicModel("claude-sonnet-5")
    for use in (model.check, lambda: model.stream(HELLO)):
        with pytest.raises(UserError, match=r"no API key for https://api\.anthropic\.com: .* ANTHROPIC_API_KEY"):
            use()
    AnthropicModel("m1", api_key="sk-1").check()
    AnthropicModel("m1", base_url="http://localhost:1").check()
    AnthropicModel("m1", client=anthropic.AsyncAnthropic(api_key="sk-1")).check()


async def test_a_client_of_the_users_own_is_used_without_its_retries_and_left_open() -> None:
    """A28"""
    busy = Reply(b'{"type":"error","error":{"type":"api_error","message":"busy"}}', status=503)
    async with (
        HTTPServer(busy) as server,
        anthropic.AsyncAnthropic(
            base_url=server.base_url.removesuffix("/v1"), api_key="sk-own", max_retries=5
        ) as client,
    ):
        _, error = await read_reply(AnthropicModel("m1", client=client), HELLO)
        assert not client.is_closed()
    assert error is not None
    assert (error.kind, error.status, error.message) == ("server", 503, "busy")
    (sent,) = server.requests
    assert any("sk-own" in value for value in sent.headers.values())


async def test_calls_of_earlier_steps_keep_their_ids_to_themselves() -> None:
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "c1", "name": "f"}}
    past = [
        HELLO.messages[0],
        Message("assistant", [ToolCallPart("c1", "f", {})]),
        Message("tool", [ToolResultPart("c1", "f", 1)]),
    ]
    async with HTTPServer(sse(*events_of(START, block, end("tool_use"), STOP))) as server:
        events, _ = await read_reply(model_at(server), ModelRequest(messages=past))
    assert [e.tool_call_id for e in events if isinstance(e, ToolCall)] == ["c1_1"]


class Place(BaseModel):
    city: str


@pytest.mark.parametrize("name", ["claude-sonnet-5", "m1"])
async def test_structured_output_is_native_where_the_model_has_it(name: str) -> None:
    async with HTTPServer(sse(*events_of(START, said('{"city": "Oslo"}'), end(), STOP))) as server:
        agent = Agent(id="a", model=AnthropicModel(name, base_url=server.base_url))
        _, result = await read_all(agent, output=Place)
    assert result.output == Place(city="Oslo")
    (sent,) = server.requests
    assert ("output_config" in sent.json) is (name == "claude-sonnet-5")
    assert ("JSON Schema" in json.dumps(sent.json["messages"])) is (name == "m1")


# --- the model itself


@pytest.mark.parametrize(
    "name",
    [
        *("claude-sonnet-4-5", "claude-haiku-4-5-20251001", "claude-opus-4-8", "claude-sonnet-5", "claude-fable-5-2"),
        *("claude-opus-4-5@20251101", "us.anthropic.claude-opus-4-6-v1", "anthropic/claude-sonnet-4.5"),
        "claude-opus-10",
        "claude-4.5-sonnet-20250929",
    ],
)
def test_recent_models_have_native_output_and_room(name: str) -> None:
    profile = AnthropicModel(name).profile
    assert (profile.native_output, profile.default_max_tokens) == (True, 16_384)


@pytest.mark.parametrize(
    "name",
    [
        *("claude-3-5-sonnet-20241022", "claude-3-haiku-20240307", "claude-2.1", "claude-37-sonnet"),
        *("claude-x-20240101", "qwen3"),
    ],
)
def test_older_and_other_models_are_told_in_words(name: str) -> None:
    profile = AnthropicModel(name).profile
    assert (profile.native_output, profile.default_max_tokens) == (False, 4096)


@pytest.mark.parametrize(
    "name",
    [
        *("claude-3-7-sonnet-latest", "claude-opus-4-20250514", "claude-sonnet-4-0", "claude-opus-4-1-20250805"),
        "claude-4-opus-20250514",
    ],
)
def test_models_in_between_are_told_in_words_and_have_room_to_think(name: str) -> None:
    profile = AnthropicModel(name).profile
    assert (profile.native_output, profile.thinking, profile.default_max_tokens) == (False, "budget", 16_384)


def test_a_profile_given_counts_instead_of_the_name() -> None:
    profile = ModelProfile(native_output=True, default_max_tokens=9)
    assert AnthropicModel("qwen3", profile=profile).profile is profile


def test_a_model_says_what_it_is() -> None:
    model = AnthropicModel("claude-sonnet-5")
    assert isinstance(model, Model)
    assert (model.id, model.provider, repr(model)) == (
        "claude-sonnet-5",
        "anthropic",
        "AnthropicModel('claude-sonnet-5')",
    )
    assert isinstance(resolve_model("anthropic/claude-sonnet-5"), AnthropicModel)


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("", {}, "needs a name, e.g. AnthropicModel"),
        (" ", {}, "needs a name"),
        (None, {}, "needs a name"),
        ("m1", {"base_url": "localhost:8000"}, "such as 'https://api.anthropic.com', got 'localhost:8000'"),
        ("m1", {"client": object()}, "client must be an anthropic.AsyncAnthropic, got object"),
        ("m1", {"client": anthropic.Anthropic(api_key="k")}, "got Anthropic"),
        ("m1", {"client": anthropic.AsyncAnthropic(api_key="k"), "api_key": "k"}, "give either client, or"),
    ],
)
def test_what_cannot_be_a_model_is_refused_at_once(name: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        AnthropicModel(name, **options)


# --- connections


async def test_replies_read_to_their_end_share_one_connection() -> None:
    async with HTTPServer(sse(*GOOD)) as server:
        for name in ("m1", "m2", "m1"):
            assert (await read_reply(AnthropicModel(name, base_url=server.base_url), HELLO))[1] is None
    assert (len(server.requests), server.connections) == (3, 1)


async def test_leaving_early_closes_the_connection_on_the_server() -> None:
    """A38"""
    async with HTTPServer(sse(*GOOD[:2], anyio.Event())) as server:
        async with model_at(server).stream(HELLO) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    break
        with anyio.fail_after(5):
            await server.disconnected.wait()


async def test_what_follows_the_end_of_a_reply_is_not_read() -> None:
    error = {"type": "error", "error": {"type": "api_error", "message": "late"}}
    async with HTTPServer(sse("".join([*GOOD, *events_of(said("more"), error)]))) as server:
        events, found = await read_reply(model_at(server), HELLO)
    assert (text_of(events), found) == ("Hi there", None)


PROGRAM = """
import sys, warnings
warnings.simplefilter("error")
import {native}
from mastra_py.messages import Message
from mastra_py.models import AnthropicModel, ModelRequest

model = AnthropicModel("m1", base_url={url!r})

async def main():
    async with model.stream(ModelRequest(messages=[Message("user", "Hello")])) as stream:
        async for event in stream:
            pass

for _ in range(2):
    {native}.run(main{call})
print("done")
"""


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)  # the server's, which makes no difference
@pytest.mark.parametrize("native", ["asyncio", "trio"])
async def test_a_program_runs_twice_and_ends_without_a_warning(native: str) -> None:
    async with HTTPServer(sse(*GOOD)) as server:
        code = PROGRAM.format(native=native, url=server.base_url, call="()" if native == "asyncio" else "")
        with anyio.fail_after(30):
            done = await anyio.run_process(
                [sys.executable, "-W", "error", "-c", code], check=False, stderr=subprocess.STDOUT
            )
    assert (done.returncode, done.stdout.decode().split()) == (0, ["done"])


# --- failures


async def test_a_server_that_is_not_there_is_a_connection_error() -> None:
    async with HTTPServer() as server:
        url = server.base_url
    _, error = await read_reply(AnthropicModel("m1", base_url=url), HELLO)
    assert error is not None
    assert (error.kind, error.retryable, error.status) == ("connection", True, None)
    assert isinstance(error.__cause__, anthropic.APIConnectionError)


@pytest.mark.parametrize("framing", ["chunked", "close"])
async def test_a_connection_that_breaks_in_mid_reply_is_a_stream_error(framing: Any) -> None:
    async with HTTPServer(sse(*GOOD[:2], framing=framing, breaks_off=True)) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert text_of(events) == "Hi"
    assert events[-1] == ModelFinished(finish_reason="error", usage=Usage(input_tokens=3), response_id="r1", model="m1")
    assert isinstance(error, StreamError)
    assert error.retryable is True


async def test_a_reply_that_said_how_it_ended_is_whole_however_its_connection_ends() -> None:
    async with HTTPServer(sse(*GOOD[:-1], breaks_off=True)) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert (events[-1], error) == (WHOLE, None)


async def test_a_server_that_falls_silent_is_a_timeout() -> None:
    async with HTTPServer(sse(*GOOD[:2], anyio.Event())) as server:
        request = ModelRequest(messages=HELLO.messages, settings=ModelSettings(timeout=0.5))
        events, error = await read_reply(model_at(server), request)
    assert text_of(events) == "Hi"
    assert isinstance(error, ModelTimeoutError)


@pytest.mark.parametrize(
    "data",
    [
        "[]",
        '"text"',
        "{",
        '{"type": "content_block_delta"}',
        '{"type": "content_block_delta", "delta": []}',
        '{"type": "content_block_delta", "delta": {"type": "text_delta"}}',
        '{"type": "content_block_start", "content_block": {"type": "redacted_thinking"}}',
        '{"type": "message_delta"}',
        '{"type": "message_start", "message": 1}',
    ],
)
async def test_what_cannot_be_read_is_a_stream_error_after_what_could(data: str) -> None:
    async with HTTPServer(sse(*GOOD[:2], f"data: {data}\n\n", *GOOD[2:])) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert text_of(events) == "Hi"
    assert isinstance(error, StreamError)
    assert "cannot be read" in error.message


async def test_an_error_in_a_reply_has_the_id_of_its_request() -> None:
    """A15"""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    reply = sse(*GOOD[:2], *events_of(error))
    named = Reply(reply.body, headers={**reply.headers, "request-id": "req_9"})
    async with HTTPServer(named) as server:
        events, found = await read_reply(model_at(server), HELLO)
    assert found is not None
    assert (found.kind, found.code, found.request_id) == ("overloaded", "overloaded_error", "req_9")
    assert events[-1] == ModelFinished(finish_reason="error", usage=Usage(input_tokens=3), response_id="r1", model="m1")


@pytest.mark.parametrize(
    ("status", "type", "message", "kind"),
    [
        (400, "invalid_request_error", "max_tokens: Field required", "request"),
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", "context_length"),
        (400, "invalid_request_error", "Your credit balance is too low", "quota"),
        (401, "authentication_error", "invalid x-api-key", "auth"),
        (402, "billing_error", "pay", "quota"),
        (403, "permission_error", "not yours", "auth"),
        (404, "not_found_error", "model: x", "request"),
        (409, "conflict_error", "try again", "server"),
        (413, "request_too_large", "too large", "request"),
        (429, "rate_limit_error", "slow down", "rate_limit"),
        (500, "api_error", "oops", "server"),
        (503, "api_error", "later", "server"),
        (504, "timeout_error", "took too long", "timeout"),
        (529, "overloaded_error", "Overloaded", "overloaded"),
    ],
)
async def test_a_status_is_translated(status: int, type: str, message: str, kind: str) -> None:
    body = {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_1"}
    headers = {"content-type": "application/json", "request-id": "req_1", "retry-after": "7"}
    async with HTTPServer(Reply(json.dumps(body).encode(), status=status, headers=headers)) as server:
        _, error = await read_reply(model_at(server), HELLO)
    assert error is not None
    assert (error.kind, error.status, error.request_id, error.code) == (kind, status, "req_1", type)
    assert (error.retryable, error.retry_after) == (status in {409, 429, 500, 503, 504, 529}, 7.0)
    assert (error.message, error.body) == (message, body)
    assert isinstance(error.__cause__, anthropic.APIStatusError)
    assert "anthropic/m1" in str(error)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("enforced_spend_limit_reached", "quota"),
        ("contract_spend_limit_reached", "quota"),
        ("ramp_limit_exceeded", "rate_limit"),
        (None, "rate_limit"),
    ],
)
async def test_a_spending_limit_that_is_reached_is_no_rate_limit(code: str | None, kind: str) -> None:
    """A29"""
    details = {"error_code": code} if code else None
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "no more", "details": details}}
    async with HTTPServer(Reply(json.dumps(body).encode(), status=429)) as server:
        _, error = await read_reply(model_at(server), HELLO)
    assert error is not None
    assert (error.kind, error.code) == (kind, code or "rate_limit_error")


async def test_a_status_that_a_hook_of_the_users_client_raises_is_one_all_the_same() -> None:
    async def hook(response: httpx2.Response) -> None:
        response.raise_for_status()

    async with (
        HTTPServer(Reply(b"{}", status=529)) as server,
        httpx2.AsyncClient(event_hooks={"response": [hook]}) as http_client,
    ):
        client = anthropic.AsyncAnthropic(base_url=server.base_url, api_key="sk-own", http_client=http_client)
        _, error = await read_reply(AnthropicModel("m1", client=client), HELLO)
    assert error is not None
    assert (error.kind, error.status) == ("overloaded", 529)


async def test_text_that_is_no_sound_unicode_is_read_all_the_same() -> None:
    broken = (
        b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a\xff\\ud83d\\ude00\\ud83d"}}\n\n'
    )
    body = one_byte_at_a_time(GOOD[0].encode() + broken + "".join(GOOD[3:]).encode())
    async with HTTPServer(sse(*body)) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert (text_of(events), error) == ("a\ufffd\U0001f600\ufffd", None)
