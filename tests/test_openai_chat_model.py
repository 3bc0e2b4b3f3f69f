from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import openai
import pytest
from support.http_server import WIRE, HTTPServer, Reply, chunks, one_byte_at_a_time, sse
from support.streams import read_reply, text_of
from support.wire_cases import case_name, check_reply, load_case, reply_of, wire_cases

from mastra_py.errors import ModelTimeoutError, StreamError, UserError
from mastra_py.events import ModelFinished, TextDelta, ToolCall
from mastra_py.messages import Message, ToolCallPart, ToolResultPart, Usage
from mastra_py.models import Model, ModelProfile, ModelRequest, ModelSettings, OpenAIChatModel
from mastra_py.models._wire_stream import DRAIN_SECONDS

HELLO = ModelRequest(messages=[Message("user", "Hello")])


def text_chunk(text: str, finish_reason: str | None = None) -> dict[str, Any]:
    return {"id": "r1", "model": "m1", "choices": [{"delta": {"content": text}, "finish_reason": finish_reason}]}


GOOD = [
    text_chunk("Hi"),
    text_chunk(" there", "stop"),
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
]


def model_at(server: HTTPServer, **options: Any) -> OpenAIChatModel:
    return OpenAIChatModel("m1", base_url=server.base_url, **options)


# --- replies seen in the field


@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "bytewise"])
@pytest.mark.parametrize("path", wire_cases("openai-chat"), ids=case_name)
async def test_a_reply_from_the_field_is_read_rightly(path: Path, bytewise: bool) -> None:
    case = load_case(path)
    async with HTTPServer(reply_of(case, bytewise=bytewise)) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert len(server.requests) == 1
    check_reply(case, events, error)
    assert error is None or (error.provider, error.model) == ("openai", "m1")


async def test_a_retry_after_header_is_on_the_error_in_seconds() -> None:
    """A26, A28"""
    case = load_case(WIRE / "A26-retry-after-http-date.json")
    async with HTTPServer(reply_of(case)) as server:
        _, error = await read_reply(model_at(server), HELLO)
    assert error is not None
    assert 0 < (error.retry_after or 0) <= 2


# --- what is sent


async def test_a_request_goes_to_chat_completions_with_key_and_headers() -> None:
    settings = ModelSettings(extra_headers={"X-Trace": "t1"}, timeout=4.0)
    async with HTTPServer(sse(*chunks(*GOOD))) as server:
        request = ModelRequest(messages=HELLO.messages, system="Be brief.", settings=settings)
        events, error = await read_reply(model_at(server, api_key="sk-1"), request)
    assert error is None
    assert events[-1] == ModelFinished(
        finish_reason="stop", usage=Usage(input_tokens=3, output_tokens=2), response_id="r1", model="m1"
    )
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == "Bearer sk-1"
    assert request.headers["x-trace"] == "t1"
    assert request.json["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ]
    assert request.json["stream_options"] == {"include_usage": True}


async def test_a_client_of_the_users_own_is_used_without_its_retries_and_left_open() -> None:
    """A28"""
    busy = Reply(b'{"error":{"message":"busy"}}', status=503, headers={"content-type": "application/json"})
    async with (
        HTTPServer(busy) as server,
        openai.AsyncOpenAI(base_url=server.base_url, api_key="sk-own", max_retries=5) as client,
    ):
        _, error = await read_reply(OpenAIChatModel("m1", client=client), HELLO)
        assert not client.is_closed()
    assert error is not None
    assert (error.kind, error.status, error.message) == ("server", 503, "busy")
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer sk-own"]


async def test_calls_of_earlier_steps_keep_their_ids_to_themselves() -> None:
    call = {"choices": [{"delta": {"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}}]}
    past = [
        Message("assistant", [ToolCallPart("call_1", "f", {})]),
        Message("tool", [ToolResultPart("call_1", "f", 1)]),
    ]
    async with HTTPServer(sse(*chunks(call))) as server:
        events, _ = await read_reply(model_at(server), ModelRequest(messages=past))
    assert [e.tool_call_id for e in events if isinstance(e, ToolCall)] == ["call_2"]


async def test_a_status_that_a_hook_of_the_users_client_raises_is_one_all_the_same() -> None:
    async def hook(response: httpx2.Response) -> None:
        response.raise_for_status()

    async with (
        HTTPServer(Reply(b'{"error":{"message":"busy"}}', status=429)) as server,
        httpx2.AsyncClient(event_hooks={"response": [hook]}) as http_client,
    ):
        client = openai.AsyncOpenAI(base_url=server.base_url, api_key="sk-own", http_client=http_client)
        _, error = await read_reply(OpenAIChatModel("m1", client=client), HELLO)
    assert error is not None
    assert (error.kind, error.status, error.body) == ("rate_limit", 429, None)


# --- connections


async def test_replies_read_to_their_end_share_one_connection() -> None:
    async with HTTPServer(sse(*chunks(*GOOD))) as server:
        model = model_at(server)
        for _ in range(3):
            assert (await read_reply(model, HELLO))[1] is None
    assert (len(server.requests), server.connections) == (3, 1)


async def test_a_reader_who_stops_at_the_last_event_gives_the_connection_back_too() -> None:
    async with HTTPServer(sse(*chunks(*GOOD))) as server:
        model = model_at(server)
        for _ in range(2):
            async with model.stream(HELLO) as stream:
                async for event in stream:
                    if isinstance(event, ModelFinished):
                        break
    assert server.connections == 1


async def test_a_body_that_does_not_end_after_done_is_given_up_soon() -> None:
    async with HTTPServer(sse(*chunks(*GOOD), anyio.Event())) as server:
        started = anyio.current_time()
        events, error = await read_reply(model_at(server), HELLO)
        with anyio.fail_after(5):
            await server.disconnected.wait()
        assert anyio.current_time() - started < DRAIN_SECONDS + 2
    assert (text_of(events), error) == ("Hi there", None)


async def test_leaving_early_closes_the_connection_on_the_server() -> None:
    """A38"""
    async with HTTPServer(sse(*chunks(*GOOD, done=False)[:1], anyio.Event())) as server:
        model = model_at(server)
        for _ in range(2):
            async with model.stream(HELLO) as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        break
            with anyio.fail_after(5):
                await server.disconnected.wait()
            server.disconnected = anyio.Event()
    assert server.connections == 2


@pytest.mark.parametrize("done", [False, True])
async def test_leaving_in_the_middle_of_what_has_arrived_waits_for_nothing(done: bool) -> None:
    async with HTTPServer(sse("".join(chunks(*[text_chunk("a")] * 200, done=done)), anyio.Event())) as server:
        async with model_at(server).stream(HELLO) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    break
            started = anyio.current_time()
        assert anyio.current_time() - started < DRAIN_SECONDS / 2
        with anyio.fail_after(5):
            await server.disconnected.wait()


async def test_leaving_without_reading_closes_the_connection() -> None:
    async with HTTPServer(sse(anyio.Event())) as server:
        async with model_at(server).stream(HELLO):
            pass
        with anyio.fail_after(5):
            await server.disconnected.wait()


async def test_an_error_of_the_body_leaves_as_it_is() -> None:
    async with HTTPServer(sse(*chunks(*GOOD)[:1], anyio.Event())) as server:
        with pytest.raises(ZeroDivisionError):
            async with model_at(server).stream(HELLO) as stream:
                async for _ in stream:
                    raise ZeroDivisionError
        with anyio.fail_after(5):
            await server.disconnected.wait()


@pytest.mark.parametrize("point", ["before the headers", "before the first delta", "between two deltas", "in the body"])
async def test_a_cancelled_reader_closes_the_connection(point: str) -> None:
    """A38"""
    never = anyio.Event()
    replies = {
        "before the headers": sse(after=never),
        "before the first delta": sse(never),
        "between two deltas": sse(chunks(*GOOD)[0], never),
        "in the body": sse(*chunks(*GOOD)),
    }
    waiting = anyio.Event()

    async def run(server: HTTPServer) -> None:
        if point == "before the headers":
            waiting.set()
        async with model_at(server).stream(HELLO) as stream:
            if point == "before the first delta":
                waiting.set()
            async for event in stream:
                if isinstance(event, TextDelta):
                    waiting.set()
                    if point == "in the body":
                        await never.wait()
        pytest.fail("the run was not cancelled")

    async with HTTPServer(replies[point]) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, server)
            with anyio.fail_after(5):
                await waiting.wait()
                while not server.requests:
                    await anyio.lowlevel.checkpoint()
                await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        if point != "in the body":  # there the reply was over before
            with anyio.fail_after(5):
                await server.disconnected.wait()


async def test_a_stream_that_is_over_stays_over() -> None:
    async with HTTPServer(sse(*chunks(*GOOD))) as server:
        async with model_at(server).stream(HELLO) as stream:
            assert text_of([event async for event in stream]) == "Hi there"
            assert [event async for event in stream] == []


# --- failures


async def test_a_server_that_is_not_there_is_a_connection_error() -> None:
    async with HTTPServer() as server:
        url = server.base_url
    _, error = await read_reply(OpenAIChatModel("m1", base_url=url), HELLO)
    assert error is not None
    assert (error.kind, error.retryable, error.status) == ("connection", True, None)
    assert isinstance(error.__cause__, openai.APIConnectionError)
    assert "could not be reached" in error.message


async def test_a_connection_closed_before_a_reply_is_a_connection_error() -> None:
    async with HTTPServer(Reply(hangs_up=True)) as server:
        _, error = await read_reply(model_at(server), HELLO)
    assert error is not None
    assert error.kind == "connection"


@pytest.mark.parametrize("framing", ["chunked", "close"])
async def test_a_connection_that_breaks_in_mid_reply_is_a_stream_error(framing: Any) -> None:
    reply = sse(*chunks(*GOOD)[:1], framing=framing, breaks_off=True)
    async with HTTPServer(reply) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert text_of(events) == "Hi"
    assert isinstance(error, StreamError)
    assert error.retryable is True


async def test_a_reply_that_said_how_it_ended_is_whole_however_its_connection_ends() -> None:
    async with HTTPServer(sse(*chunks(*GOOD, done=False), breaks_off=True)) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert error is None
    assert isinstance(events[-1], ModelFinished)
    assert events[-1].usage == Usage(input_tokens=3, output_tokens=2)


async def test_what_follows_the_end_of_a_reply_is_not_read() -> None:
    late = [*chunks(*GOOD), "data:\n\n", *chunks(text_chunk("more"), {"error": "x"})]
    reply = sse("".join(late), *late, breaks_off=True)
    async with HTTPServer(reply) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert (text_of(events), error) == ("Hi there", None)


async def test_events_without_data_are_nothing() -> None:
    async with HTTPServer(sse("data:\n\n: ping\n\n", *chunks(*GOOD))) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert (text_of(events), error) == ("Hi there", None)


async def test_leaving_early_is_no_failure_where_the_connection_is_broken_by_then() -> None:
    event = chunks(*GOOD)[0].encode()
    chunk = b"%x\r\n%s\r\n" % (len(event), event)
    raw = chunk + chunk + b"this is no chunk\r\n"
    headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    async with HTTPServer(Reply([raw], headers=headers, framing="close")) as server:
        async with model_at(server).stream(HELLO) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    break


@pytest.mark.parametrize("point", ["before the headers", "before the first delta", "between two deltas"])
async def test_a_server_that_falls_silent_is_a_timeout(point: str) -> None:
    never = anyio.Event()
    replies = {
        "before the headers": sse(after=never),
        "before the first delta": sse(never),
        "between two deltas": sse(chunks(*GOOD)[0], never),
    }
    async with HTTPServer(replies[point]) as server:
        first = 5.0 if point == "between two deltas" else None  # making a client takes its time, too
        request = ModelRequest(messages=HELLO.messages, settings=ModelSettings(timeout=0.5, first_timeout=first))
        events, error = await read_reply(model_at(server), request)
        with anyio.fail_after(5):
            await server.disconnected.wait()
    assert text_of(events) == ("Hi" if point == "between two deltas" else "")
    assert isinstance(error, ModelTimeoutError)
    assert error.retryable is True


@pytest.mark.parametrize(
    "data",
    [
        '{"choices": [',
        "[]",
        '"text"',
        '{"choices": 1}',
        '{"choices": ["x"]}',
        '{"choices": [{"delta": "x"}]}',
        "[",
    ],
)
async def test_what_cannot_be_read_is_a_stream_error_after_what_could(data: str) -> None:
    async with HTTPServer(sse(chunks(*GOOD)[0] + f"data: {data}\n\n" + chunks(*GOOD)[1])) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert text_of(events) == "Hi"
    assert isinstance(error, StreamError)
    assert "cannot be read" in error.message
    assert error.__cause__ is not None


async def test_text_that_is_no_sound_unicode_is_read_all_the_same() -> None:
    broken = b'data: {"choices":[{"delta":{"content":"a\xff\\ud83d\\ude00\\ud83d"}}]}\n\n'
    async with HTTPServer(sse(broken, *chunks())) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert (text_of(events), error) == ("a\ufffd\U0001f600\ufffd", None)


async def test_a_failed_reply_that_reported_its_usage_says_so_before_the_error() -> None:
    """A46"""
    async with HTTPServer(sse(*chunks(text_chunk("Hi"), GOOD[2], {"error": {"code": 500, "message": "no"}}))) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert error is not None
    assert events[-1] == ModelFinished(
        finish_reason="error", usage=Usage(input_tokens=3, output_tokens=2), response_id="r1", model="m1"
    )


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (400, {"error": {"message": "no", "type": "invalid_request_error"}}, "request", "no"),
        (400, {"error": {"message": "x", "code": "context_length_exceeded"}}, "context_length", "x"),
        (
            400,
            {"error": {"code": 400, "message": "the request exceeds the available context size", "type": "x"}},
            "context_length",
            "the request exceeds",
        ),
        (
            400,
            {"message": "This model's maximum context length is 4096 tokens", "type": "BadRequestError", "code": 400},
            "context_length",
            "maximum context length",
        ),
        (400, {"error": {"message": "flagged", "code": "content_policy_violation"}}, "content", "flagged"),
        (401, {"error": {"message": "no key", "type": "invalid_request_error", "code": None}}, "auth", "no key"),
        (401, {"error": {"message": "bad key", "code": "invalid_api_key"}}, "auth", "bad key"),
        (403, {"detail": "not yours"}, "auth", "not yours"),
        (402, {"error": {"message": "pay", "code": 402}}, "quota", "pay"),
        (404, {"error": "model 'x' not found"}, "request", "model 'x' not found"),
        (408, {}, "timeout", "status 408"),
        (409, {}, "server", "status 409"),
        (422, {"error": {"message": "no"}}, "request", "no"),
        (429, {"error": {"message": "slow", "type": "tokens", "code": None}}, "rate_limit", "slow"),
        (429, {"error": {"message": "empty", "type": "insufficient_quota", "code": None}}, "quota", "empty"),
        (500, "<html><style>a {}</style>\n<p>Oops,\n<b>sorry</b></html>", "server", "Oops, sorry"),
        (503, {"error": {"message": "later", "type": "overloaded_error"}}, "overloaded", "later"),
        (529, None, "overloaded", "status 529"),
    ],
)
async def test_a_status_is_translated(status: int, body: Any, kind: str, message: str) -> None:
    """A15, A29"""
    data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    async with HTTPServer(Reply(data, status=status, headers={"X-Request-Id": "req_1"})) as server:
        _, error = await read_reply(model_at(server), HELLO)
    assert error is not None
    assert (error.kind, error.status, error.request_id) == (kind, status, "req_1")
    assert error.retryable is (status in {408, 409, 429, 500, 503, 529} and kind != "quota")
    assert message in error.message
    assert error.body == body
    assert isinstance(error.__cause__, openai.APIStatusError)
    assert "openai/m1" in str(error)


async def test_an_error_that_comes_with_status_200_is_an_error_all_the_same() -> None:
    body = b'{"error":{"message":"no such model","code":404}}'
    json_reply = Reply(body, headers={"content-type": "application/json", "x-request-id": "req_1"})
    async with HTTPServer(json_reply) as server:
        _, error = await read_reply(model_at(server), HELLO)
    assert error is not None
    assert (error.kind, error.code, error.message, error.request_id) == ("request", "404", "no such model", "req_1")


@pytest.mark.parametrize(
    ("body", "message"), [(b'{"choices":[]}', "plain JSON"), (b"<html>", "web page"), (b"{nothing", "neither")]
)
async def test_a_server_that_does_not_stream_is_named_as_such(body: bytes, message: str) -> None:
    async with HTTPServer(Reply(body, headers={"content-type": "application/json; charset=utf-8"})) as server:
        _, error = await read_reply(model_at(server), HELLO)
    assert isinstance(error, StreamError)
    assert message in error.message


async def test_a_plain_reply_that_breaks_off_is_a_stream_error() -> None:
    reply = Reply(b'{"err', headers={"content-type": "application/json"}, breaks_off=True)
    async with HTTPServer(reply) as server:
        _, error = await read_reply(model_at(server), HELLO)
    assert isinstance(error, StreamError)
    assert error.retryable is True


async def test_a_compressed_reply_is_read() -> None:
    data = gzip.compress("".join(chunks(*GOOD)).encode())
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    async with HTTPServer(Reply(one_byte_at_a_time(data), headers=headers)) as server:
        events, error = await read_reply(model_at(server), HELLO)
    assert (text_of(events), error) == ("Hi there", None)


# --- the model itself


def test_a_model_has_the_port_s_shape_and_says_what_it_is() -> None:
    model = OpenAIChatModel("gpt-5-mini")
    assert isinstance(model, Model)
    assert (model.id, model.provider) == ("gpt-5-mini", "openai")
    assert repr(model) == "OpenAIChatModel('gpt-5-mini')"


@pytest.mark.parametrize(
    ("name", "base_url", "field"),
    [
        ("gpt-5.6", None, "max_completion_tokens"),
        ("o3-mini", None, "max_completion_tokens"),
        ("o1", "https://api.openai.com/v1/", "max_completion_tokens"),
        ("gpt-5", "https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("ft:gpt-5-mini:acme::1", None, "max_completion_tokens"),
        ("gpt-4o", None, "max_tokens"),
        ("gpt-35-turbo", None, "max_tokens"),
        ("gpt-5.6", "http://localhost:8000/v1", "max_tokens"),
    ],
)
def test_the_limit_of_the_reply_has_the_name_that_the_model_takes(name: str, base_url: str | None, field: str) -> None:
    assert OpenAIChatModel(name, base_url=base_url).profile.max_tokens_field == field


@pytest.mark.parametrize(
    ("name", "native", "thinking"),
    [
        *(("gpt-4o", True, None), ("ft:gpt-4o:acme::1", True, None), ("gpt-5-chat-latest", True, None)),
        *(("gpt-3.5-turbo", False, None), ("ft:gpt-3.5-turbo:acme::1", False, None), ("gpt-35-turbo", False, None)),
        *(("ft:o4-mini:acme::1", True, "effort"), ("GPT-5", True, "effort"), ("chatgpt-4o-latest", True, None)),
        *(("our-reasoner", True, "effort"), ("codex-mini-latest", True, "effort")),  # not known: asked for all
    ],
)
def test_what_a_model_of_openai_can_do_is_known_by_its_name(name: str, native: bool, thinking: str | None) -> None:
    profile = OpenAIChatModel(name, base_url="https://us.api.openai.com/v1").profile
    assert (profile.native_output, profile.strict, profile.thinking) == (native, native, thinking)


def test_a_given_profile_counts() -> None:
    profile = ModelProfile(max_tokens_field="limit")
    assert OpenAIChatModel("gpt-5", profile=profile).profile is profile


def test_a_missing_key_fails_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    model = OpenAIChatModel("gpt-5")
    for fails in (model.check, lambda: model.stream(HELLO)):
        with pytest.raises(UserError, match="set the environment variable OPENAI_API_KEY"):
            fails()
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        OpenAIChatModel("gpt-5", base_url="https://api.openai.com/v1").check()
    OpenAIChatModel("gpt-5", api_key="sk-1").check()
    OpenAIChatModel("qwen3", base_url="http://localhost:8000/v1").check()
    OpenAIChatModel("gpt-5", client=openai.AsyncOpenAI(api_key="sk-1")).check()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-2")
    model.check()


async def test_key_and_url_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with HTTPServer(sse(*chunks(*GOOD))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        model = OpenAIChatModel("m1")
        assert (await read_reply(model, HELLO))[1] is None
        monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
        assert (await read_reply(model, HELLO))[1] is None
    assert server.requests[0].headers["authorization"] != server.requests[1].headers["authorization"]
    assert server.requests[1].headers["authorization"] == "Bearer sk-env"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "  "}, "needs a name"),
        ({"name": None}, "needs a name"),
        ({"base_url": "localhost:8000"}, "must be an http or https URL"),
        ({"base_url": "http://"}, "must be an http or https URL"),
        ({"base_url": "http://[oops"}, "must be an http or https URL"),
        ({"base_url": "http://h:99999999/"}, "must be an http or https URL"),
        ({"client": openai.OpenAI(api_key="sk-1")}, "must be an openai.AsyncOpenAI, got OpenAI"),
        ({"client": openai.AsyncOpenAI(api_key="sk-1"), "api_key": "sk-2"}, "give either client"),
        ({"client": openai.AsyncOpenAI(api_key="sk-1"), "base_url": "http://h/v1"}, "give either client"),
    ],
)
def test_misuse_is_named(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        OpenAIChatModel(**{"name": "m1", **options})


async def test_a_server_that_cannot_be_reached_is_named() -> None:
    async with HTTPServer(Reply()) as server:
        url = server.base_url
    _, error = await read_reply(OpenAIChatModel("m1", base_url=url), HELLO)
    assert error is not None
    assert f"({url}/chat/completions)" in str(error)


@pytest.mark.parametrize(("name", "value"), [("base_url", 3), ("api_key", 3), ("base_url", "http://x y/v1")])
def test_where_requests_go_is_checked_when_the_model_is_made(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"{name} must be"):
        OpenAIChatModel("m1", **{name: value})


def test_a_url_from_the_environment_is_checked_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:8000")
    with pytest.raises(UserError, match="the environment variable OPENAI_BASE_URL must be an http or https URL"):
        OpenAIChatModel("m1").check()
