"""Replies that break their protocol: read where the meaning is clear, an error that says so where it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest
from support.http_server import HTTPServer, Reply, sse
from support.streams import read_reply, text_of

from mastra_py.events import ModelEvent, ModelFinished, ReasoningDelta, ToolCall
from mastra_py.messages import Message
from mastra_py.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mastra_py.models._anthropic_wire import MessagesDecoder
from mastra_py.models._openai_chat_wire import ChatDecoder
from mastra_py.models._reducer import ReplyReducer
from mastra_py.models._reply import Decoder, ReplyReader
from mastra_py.models._responses_reply import ResponsesDecoder

DECODERS: dict[str, Callable[..., Decoder]] = {
    "chat": ChatDecoder,
    "messages": MessagesDecoder,
    "responses": ResponsesDecoder,
}
DONE = b"data: [DONE]\n\n"
ASKED = ModelRequest(messages=[Message("user", "Hi")])


def event(data: object, name: str | None = None) -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"


def chunk(finish: str | None = None, **fields: Any) -> bytes:
    return event({"id": "r1", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def read(*pieces: bytes, wire: str = "chat", headers: dict[str, str] | None = None) -> ReplyReader:
    """Return what has read a body that ends after these pieces."""
    reader = ReplyReader(DECODERS[wire](ReplyReducer(provider="p"), server="s"))
    reader.headers = headers or {}
    for piece in (*pieces, None):
        if not reader.finished and reader.failure is None:
            reader.feed(piece)
    return reader


def finish_of(events: list[ModelEvent]) -> str:
    assert isinstance(events[-1], ModelFinished)
    return events[-1].finish_reason


# --- what is no event stream


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b" \r\n"])
def test_an_error_as_plain_json_is_one_whatever_its_content_type_says(start: bytes, size: int) -> None:
    body = start + b'{"error": {"message": "No credit", "code": "insufficient_quota"}}'
    reader = read(*[body[i : i + size] for i in range(0, len(body), size)], headers={"retry-after": "3"})
    assert reader.failure is not None
    assert (reader.failure.kind, reader.failure.message, reader.failure.retry_after) == ("quota", "No credit", 3)


def test_a_web_page_is_a_wrong_url_which_no_retry_puts_right() -> None:
    failure = read(b"\n<!doctype html><title>Welcome</title>").failure
    assert failure is not None
    assert (failure.kind, failure.retryable, "base URL" in failure.message) == ("stream", False, True)


async def test_an_event_stream_is_read_whatever_its_content_type_says() -> None:
    body = chunk("stop", content="Hello.") + DONE
    async with HTTPServer(Reply(body, headers={"content-type": "application/json"})) as server:
        events, error = await read_reply(OpenAIChatModel("m", base_url=server.base_url), ASKED)
    assert (text_of(events), error) == ("Hello.", None)


async def test_a_web_page_over_http_is_an_error_of_each_api() -> None:
    async with HTTPServer(Reply(b"<html>Sign in</html>", headers={"content-type": "text/html"})) as server:
        for model in (OpenAIChatModel, OpenAIResponsesModel, AnthropicModel):
            events, error = await read_reply(model("m", base_url=server.base_url, api_key="k"), ASKED)
            assert (events, error is not None and error.retryable) == ([], False)


def test_the_framing_of_aws_is_named_as_what_is_not_read() -> None:
    failure = read(b"\0\0\1\5\0\0\0K\x12", b"\xf3", wire="messages").failure
    assert failure is not None
    assert (failure.retryable, "AWS" in failure.message) == (False, True)


async def test_a_body_that_a_hook_of_the_users_client_has_read_is_read_all_the_same() -> None:
    async def log(response: httpx2.Response) -> None:
        await response.aread()

    async with HTTPServer(sse(chunk(content="Hel"), chunk("stop", content="lo."), DONE)) as server:
        http_client = httpx2.AsyncClient(event_hooks={"response": [log]})
        async with openai.AsyncOpenAI(api_key="k", base_url=server.base_url, http_client=http_client) as client:
            for model in (OpenAIChatModel("m", client=client), OpenAIChatModel("n", client=client)):
                events, error = await read_reply(model, ASKED)
                assert (text_of(events), error) == ("Hello.", None)
    assert server.connections == 1


def test_empty_lines_that_keep_a_connection_alive_are_no_beginning() -> None:
    reader = read(*[b"\n"] * 5_000, chunk("stop", content="Hello."), DONE)
    assert (text_of(list(reader.events)), reader.finished) == ("Hello.", True)


# --- errors without a sign of it


@pytest.mark.parametrize("wire", DECODERS)
@pytest.mark.parametrize(
    "said",
    [
        {"object": "error", "message": "boom", "type": "InternalServerError", "code": 500},
        {"code": "InternalError", "message": "boom", "request_id": "r"},
        {"error": {"code": 500, "message": "boom"}},
    ],
)
def test_an_error_is_one_in_every_shape_and_no_empty_reply(wire: str, said: dict[str, Any]) -> None:
    reader = read(event(said), DONE, wire=wire)
    assert reader.failure is not None
    assert (reader.failure.message, reader.failure.kind) == ("boom", "server")


@pytest.mark.parametrize("wire", DECODERS)
def test_an_error_event_in_plain_words_is_told(wire: str) -> None:
    failure = read(b"event: error\ndata: rate limit exceeded\n\n", wire=wire).failure
    assert failure is not None
    assert (failure.kind, failure.message) == ("rate_limit", "rate limit exceeded")


def test_an_error_beside_the_finish_reason_says_what_went_wrong() -> None:
    choice = {"delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "The provider is down"}}
    failure = read(event({"choices": [choice]})).failure
    assert failure is not None
    assert (failure.kind, failure.message) == ("server", "The provider is down")


# --- after the end


@pytest.mark.parametrize(
    "rest", [b"data: [DONE] \n\n", b"data: bye\n\n", b"data: null\n\n" + DONE, b"data: <html>\n\n", b'data: "ok"\n\n']
)
def test_a_reply_that_has_said_how_it_ended_is_whole_whatever_follows(rest: bytes) -> None:
    reader = read(chunk(content="Hello."), chunk("stop"), rest)
    assert (text_of(list(reader.events)), finish_of(list(reader.events)), reader.failure) == ("Hello.", "stop", None)


@pytest.mark.parametrize("bad", [b"data: bye\n\n", b"data: 5\n\n", b"data: [1]\n\n"])
def test_before_that_it_is_an_error(bad: bytes) -> None:
    reader = read(chunk(content="Hel"), bad, chunk("stop", content="lo."), DONE)
    assert reader.failure is not None
    assert (reader.failure.kind, reader.failure.retryable) == ("stream", True)


def test_a_null_in_the_midst_only_keeps_the_connection_alive() -> None:
    reader = read(event(None), chunk(content="Hel"), event(None), chunk("stop", content="lo."), DONE)
    assert text_of(list(reader.events)) == "Hello."


# --- shapes of chat completions


def test_a_text_in_parts_is_thinking_and_text() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}, {"type": "text", "text": "."}]}
    parts = [{"type": "text", "text": "Hel"}, {"type": "reference", "reference_ids": [1]}, "lo"]
    events = list(read(chunk(content=[thought]), chunk(content=parts), chunk("stop", content="."), DONE).events)
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == "Hm."
    assert text_of(events) == "Hello."


def test_a_reply_that_comes_as_one_whole_message_is_read() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    message = {"role": "assistant", "content": "Hello.", "tool_calls": [call]}
    events = list(read(event({"choices": [{"message": message, "finish_reason": "tool_calls"}]}), DONE).events)
    assert text_of(events) == "Hello."
    assert [(e.tool_name, e.args) for e in events if isinstance(e, ToolCall)] == [("look", {"at": 1})]


def test_a_whole_message_after_its_deltas_says_nothing_new() -> None:
    whole = {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}
    assert text_of(list(read(chunk(content="Hello."), event(whole), DONE).events)) == "Hello."


@pytest.mark.parametrize(
    ("said", "meant"),
    [("max_tokens", "length"), ("LENGTH", "length"), ("content_filter: SAFETY", "content_filter"), ("what", "other")],
)
def test_reasons_for_the_end_are_known_by_their_other_names(said: str, meant: str) -> None:
    assert finish_of(list(read(chunk(said, content="Hel"), DONE).events)) == meant


@pytest.mark.parametrize("said", ["function_call_filter: MALFORMED_FUNCTION_CALL", "insufficient_system_resource"])
def test_reasons_that_mean_a_failure_are_one(said: str) -> None:
    failure = read(chunk(said), DONE).failure
    assert failure is not None
    assert failure.kind == "stream"


# --- shapes of Messages


def test_events_of_messages_are_known_by_their_names_where_they_have_no_type() -> None:
    reader = read(
        event({"message": {"id": "m"}}, "message_start"),
        event({"index": 0, "delta": {"type": "text_delta", "text": "Hello."}}, "content_block_delta"),
        event({"delta": {"stop_reason": "end_turn"}}, "message_delta"),
        event({}, "message_stop"),
        wire="messages",
    )
    assert (text_of(list(reader.events)), reader.failure) == ("Hello.", None)


def test_a_block_is_read_though_one_that_is_not_had_the_same_index() -> None:
    reader = read(
        event({"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use", "id": "s"}}),
        event({"type": "content_block_stop", "index": 0}),
        event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}}),
        event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        event({"type": "message_stop"}),
        wire="messages",
    )
    assert text_of(list(reader.events)) == "Hello."
