"""Whatever a server sends, memory and time stay bounded, and an error names the limit."""

from __future__ import annotations

import gzip
import itertools
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.http_server import HTTPServer, Piece, Reply

from mastra_py.errors import ModelError, StreamError
from mastra_py.events import ModelEvent, ModelFinished, ToolCall
from mastra_py.messages import Message
from mastra_py.models import AnthropicModel, Model, ModelRequest, OpenAIChatModel
from mastra_py.models._clients import MAX_ERROR_BYTES
from mastra_py.models._json import read_object
from mastra_py.models._open_call import MAX_ARGS_CHARS, OpenCall
from mastra_py.models._openai_chat_wire import ChatDecoder
from mastra_py.models._reducer import MAX_CALLS, MAX_REPLY_CHARS, ReplyReducer
from mastra_py.models._reply import MAX_PLAIN_BYTES, ReplyReader
from mastra_py.models._sse import MAX_EVENT_BYTES

MEGABYTE = "x" * (1024 * 1024)

MAKERS: dict[str, Callable[..., Model]] = {"openai": OpenAIChatModel, "anthropic": AnthropicModel}


def endless(piece: bytes) -> Any:
    return cast("list[Piece]", itertools.repeat(piece))


async def failing(model: Model) -> ModelError:
    with anyio.fail_after(20):
        with pytest.raises(ModelError) as caught:
            async with model.stream(ModelRequest(messages=[Message("user", "Hi")])) as stream:
                async for _ in stream:
                    pass
    return caught.value


@pytest.mark.parametrize("maker", MAKERS)
async def test_an_error_without_an_end_is_cut_off_and_keeps_its_status(maker: str) -> None:
    async with HTTPServer(Reply(endless(b"x" * 65536), status=503, headers={"retry-after": "7"})) as server:
        error = await failing(MAKERS[maker]("m", base_url=server.base_url, api_key="k"))
        with anyio.fail_after(5):
            await server.disconnected.wait()
    assert (error.kind, error.status, error.retry_after) == ("server", 503, 7)
    assert f"larger than {MAX_ERROR_BYTES} bytes" in error.message
    assert len(error.message) < 3_000
    assert len(error.body) == MAX_ERROR_BYTES


async def test_an_error_that_unpacks_to_very_much_is_cut_off_before() -> None:
    bomb = gzip.compress(b"\0" * (100 * 1024 * 1024))
    assert len(bomb) > 65_536
    async with HTTPServer(Reply([bomb], status=500, headers={"content-encoding": "gzip"})) as server:
        error = await failing(OpenAIChatModel("m", base_url=server.base_url))
    assert (error.kind, error.status) == ("server", 500)
    assert len(error.body) == MAX_ERROR_BYTES


async def test_an_error_of_many_megabytes_that_ends_leaves_no_connection_behind() -> None:
    body = [b"x" * 65536] * 64
    async with HTTPServer(Reply(body, status=400)) as server:
        model = OpenAIChatModel("m", base_url=server.base_url)
        for _ in range(3):
            assert (await failing(model)).status == 400


async def test_a_body_without_an_end_that_is_no_stream_is_an_error_that_names_the_limit() -> None:
    headers = {"content-type": "application/json"}
    async with HTTPServer(Reply(endless(b"[" * 65536), headers=headers)) as server:
        error = await failing(OpenAIChatModel("m", base_url=server.base_url))
        with anyio.fail_after(5):
            await server.disconnected.wait()
    assert isinstance(error, StreamError)
    assert f"more than {MAX_PLAIN_BYTES} bytes that are no event stream" in error.message
    assert error.retryable is False


async def test_an_event_without_an_end_is_an_error_that_names_the_limit() -> None:
    headers = {"content-type": "text/event-stream"}
    async with HTTPServer(Reply(endless(b"x" * 65536), headers=headers)) as server:
        error = await failing(OpenAIChatModel("m", base_url=server.base_url))
        with anyio.fail_after(5):
            await server.disconnected.wait()
    assert isinstance(error, StreamError)
    assert f"larger than {MAX_EVENT_BYTES} bytes" in error.message
    assert error.retryable is False


# --- the reducer


def too_long(read: Callable[[ReplyReducer, int], object], times: int) -> StreamError:
    reducer = ReplyReducer(provider="p")
    with pytest.raises(StreamError) as caught:
        for number in range(times):
            read(reducer, number)
    assert caught.value.retryable is False
    return caught.value


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda reducer, _: reducer.text(MEGABYTE), id="text"),
        pytest.param(lambda reducer, _: reducer.reasoning(MEGABYTE), id="reasoning"),
        pytest.param(lambda reducer, _: reducer.reasoning("", {"signature": MEGABYTE}), id="signatures"),
        pytest.param(lambda reducer, n: reducer.tool(n, f"c{n}", "f", MEGABYTE), id="arguments of many calls"),
        pytest.param(lambda reducer, n: reducer.tool(0, f"c{n}", "f" * 100_000, "{}"), id="names"),
    ],
)
def test_a_reply_that_is_too_long_is_an_error(read: Callable[[ReplyReducer, int], object]) -> None:
    assert f"longer than {MAX_REPLY_CHARS} characters" in str(too_long(read, 200))


def test_very_many_empty_blocks_are_too_long_a_reply() -> None:
    def read(reducer: ReplyReducer, _number: int) -> None:
        reducer.reasoning("", {"redacted": ""})
        reducer.end_block()

    assert f"longer than {MAX_REPLY_CHARS} characters" in str(too_long(read, 200_000))


def test_arguments_that_are_too_long_are_an_error_that_names_the_call() -> None:
    error = too_long(lambda reducer, _: reducer.tool(0, "c", "f", MEGABYTE), 10)
    assert f"tool call 'f' are longer than {MAX_ARGS_CHARS} characters" in str(error)


def test_too_many_calls_are_an_error() -> None:
    error = too_long(lambda reducer, n: reducer.tool(n, f"c{n}", "f", "{}"), MAX_CALLS + 1)
    assert f"more than {MAX_CALLS} tool calls" in str(error)


def test_a_long_reply_within_the_limits_is_read() -> None:
    reducer = ReplyReducer(provider="p")
    events: list[ModelEvent] = []
    for number in range(MAX_CALLS):
        events += reducer.tool(number, f"c{number}", "f", '{"a": "' + "x" * 10_000 + '"}')
    events += [*reducer.text(MEGABYTE), *reducer.finish()]
    assert sum(isinstance(event, ToolCall) for event in events) == MAX_CALLS
    assert isinstance(events[-1], ModelFinished)


@pytest.mark.parametrize("value", [1, [1], {"a": 1}, True])
def test_what_is_no_text_cannot_be_read(value: Any) -> None:
    for chunk in ({"content": value}, {"tool_calls": [{"index": 0, "id": "c", "function": {"name": value}}]}):
        reader = ReplyReader(ChatDecoder(ReplyReducer(provider="p"), server="s"))
        reader.feed(f"data: {json.dumps({'choices': [{'delta': chunk}]})}\n\n".encode())
        assert isinstance(reader.failure, StreamError)
        assert "cannot be read" in reader.failure.message
        assert not reader.events


@pytest.mark.parametrize("value", ["12", -1, True, None, [], {}, 1.5])
def test_what_is_no_number_of_tokens_is_passed_over(value: Any) -> None:
    reducer = ReplyReducer(provider="p")
    reducer.usage(input_tokens=3, output_tokens=2.0)
    reducer.usage(input_tokens=value, output_tokens=value, cached_input_tokens=value, reasoning_tokens=value)
    (finished,) = reducer.finish()
    assert isinstance(finished, ModelFinished)
    usage = finished.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.reasoning_tokens) == (3, 2, 0, 0)
    assert type(usage.output_tokens) is int


def test_an_id_and_a_model_that_are_no_texts_are_none() -> None:
    reader = ReplyReader(ChatDecoder(ReplyReducer(provider="p"), server="s"))
    reader.feed(b'data: {"id": 7, "model": ["m"], "choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n')
    reader.feed(None)
    finished = reader.events[-1]
    assert isinstance(finished, ModelFinished)
    assert (finished.response_id, finished.model) == (None, None)


# --- arguments in pieces

SCRAPS = st.sampled_from(
    ["{", "}", "[", "]", '"', "\\", '\\"', "\\u00e9", ":", ",", "1", "a", " ", "\n", '"a":', "{}", "null"]
)
OBJECTS = st.dictionaries(
    st.text(max_size=3), st.recursive(st.none() | st.text() | st.integers(), st.lists), max_size=3
)


@given(text=st.lists(SCRAPS, max_size=14).map("".join) | OBJECTS.map(json.dumps), cuts=st.lists(st.integers(0, 40)))
def test_arguments_are_whole_when_all_pieces_together_are_an_object(text: str, cuts: list[int]) -> None:
    call = OpenCall(None, None)
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    sent = ""
    for start, end in itertools.pairwise(places):
        call.add(text[start:end])
        sent += text[start:end]
        assert call.read_args() == read_object(sent)


@pytest.mark.parametrize("piece", ["}", " ", "{}", '\\"', "x", '"'])
@pytest.mark.parametrize("start", ['{"a": "', "{}", "", "{"])
def test_asking_with_every_piece_takes_no_longer_than_reading_them(start: str, piece: str) -> None:
    """A03"""
    reducer = ReplyReducer(provider="p")
    reducer.tool(0, "c", "f", start)
    began = time.process_time()
    with suppress(StreamError):  # some of it is more calls than a reply may have
        for _ in range(30_000):
            reducer.tool(0, "", "f", piece)
    assert time.process_time() - began < 2
