"""The time limits of a reply, in virtual time: each passes when it says, and not a moment before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
import httpx2
import openai
import pytest
from support import virtual_time
from support.http_server import HTTPServer, Reply, sse

from mastra_py.errors import ModelError, ModelTimeoutError
from mastra_py.events import ModelFinished, TextDelta
from mastra_py.messages import Message
from mastra_py.models import ModelRequest, ModelSettings, OpenAIChatModel
from mastra_py.models._openai_chat_wire import ChatDecoder
from mastra_py.models._reducer import ReplyReducer
from mastra_py.models._wire_stream import WireStream

Step: TypeAlias = bytes | float
"""Bytes to send, or seconds to wait."""

PING = b": ping\n\n"
EMPTY = b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
LAST = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"

on_both = pytest.mark.parametrize("backend", virtual_time.BACKENDS)


def text(words: str) -> bytes:
    return f"data: {json.dumps({'choices': [{'delta': {'content': words}}]})}\n\n".encode()


class Body(httpx2.AsyncByteStream):
    """A body that takes its time."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for step in self._steps:
            if isinstance(step, bytes):
                yield step
            else:
                await anyio.sleep(step)

    async def aclose(self) -> None:
        self.closed = True


@dataclass
class Server:
    """A server that opens after so many seconds and then sends its steps."""

    steps: Sequence[Step]
    opens_after: float = 0.0
    content_type: str = "text/event-stream"

    def __post_init__(self) -> None:
        self.body = Body(self.steps)
        self.limits: dict[str, float | None] = {}

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.limits = request.extensions["timeout"]
        await anyio.sleep(self.opens_after)
        return httpx2.Response(200, headers={"content-type": self.content_type}, stream=self.body)


@dataclass
class Outcome:
    text: str = ""
    error: ModelError | None = None
    finished: bool = False
    seconds: float = 0.0


async def read(
    server: Server, settings: ModelSettings, reader_takes: float = 0.0, client_options: Any = None
) -> Outcome:
    """Read one reply, with so many seconds between two events."""
    outcome = Outcome()
    transport = httpx2.MockTransport(server.answer)
    async with httpx2.AsyncClient(transport=transport) as client:
        request = client.build_request("POST", "http://server/v1/chat/completions")
        stream = WireStream(
            lambda: client.send(request, stream=True),
            ChatDecoder(ReplyReducer(provider="openai"), server="http://server/v1"),
            sdk=openai,
            provider="openai",
            model="m",
            settings=settings,
        )
        start = anyio.current_time()
        try:
            async with stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        outcome.text += event.text
                    outcome.finished = isinstance(event, ModelFinished)
                    await anyio.sleep(reader_takes)
        except ModelError as exc:
            outcome.error = exc
        outcome.seconds = anyio.current_time() - start
    return outcome


@on_both
@pytest.mark.parametrize(
    ("settings", "server", "seconds", "passed"),
    [
        pytest.param(
            {"timeout": 30},
            Server([text("a"), 29, text("b"), 31, text("c")]),
            59,
            "timeout=30",
            id="between two pieces",
        ),
        pytest.param(
            {"timeout": 30},
            Server([text("a"), *([9.0, PING] * 9), text("c")]),
            30,
            "timeout=30",
            id="pings are no pieces",
        ),
        pytest.param(
            {"timeout": 30}, Server([text("a"), *([9.0, EMPTY] * 9)]), 30, "timeout=30", id="nor is what says nothing"
        ),
        pytest.param(
            {"timeout": 30},
            Server([5, PING, 6, text("a")], opens_after=20),
            30,
            "timeout=30",
            id="also the first piece",
        ),
        pytest.param({"timeout": 30}, Server([], opens_after=31), 30, "timeout=30", id="also opening"),
        pytest.param(
            {"first_timeout": 30}, Server([15, text("a")], opens_after=20), 30, "first_timeout=30", id="the first piece"
        ),
        pytest.param(
            {"first_timeout": 60, "timeout": 5},
            Server([40, text("a"), 6, text("b")], opens_after=10),
            55,
            "timeout=5",
            id="a patient start",
        ),
        pytest.param(
            {"total_timeout": 12},
            Server([text("a"), 5, text("b"), 5, text("c"), 5]),
            12,
            "total_timeout=12",
            id="in all",
        ),
        pytest.param(
            {"total_timeout": 12, "timeout": 4, "first_timeout": 90}, Server([], opens_after=99), 12, "total", id="all"
        ),
        pytest.param(
            {"timeout": 30},
            Server([b'{"id":', 31, b"1}"], content_type="application/json"),
            30,
            "timeout=30",
            id="plain JSON",
        ),
    ],
)
def test_a_limit_that_passes_is_named_and_closes_the_connection(
    backend: str, settings: dict[str, Any], server: Server, seconds: float, passed: str
) -> None:
    server = Server(server.steps, server.opens_after, server.content_type)
    outcome = virtual_time.run(read, server, ModelSettings(**settings), backend=backend)
    assert isinstance(outcome.error, ModelTimeoutError)
    assert passed in outcome.error.message
    assert outcome.error.retryable is True
    assert outcome.seconds == pytest.approx(seconds)
    assert outcome.text == "".join(
        [json.loads(s[6:])["choices"][0]["delta"]["content"] for s in _sent(server, seconds)]
    )
    assert server.body.closed is (server.opens_after < seconds)


def _sent(server: Server, seconds: float) -> list[bytes]:
    sent: list[bytes] = []
    at = server.opens_after
    for step in server.steps:
        if isinstance(step, bytes):
            sent += [step] if step.startswith(b"data: ") and at < seconds else []
        else:
            at += step
    return sent


@on_both
@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, [900, text("a"), 900, LAST, 900, DONE]),
        ({"timeout": 30}, [29, text("a"), 29, LAST, DONE]),
        ({"first_timeout": 30}, [29, text("a"), 500, LAST, DONE]),
        ({"total_timeout": 60}, [29, text("a"), 29, LAST, DONE]),
    ],
)
def test_a_reply_within_its_limits_is_read(backend: str, settings: dict[str, Any], steps: list[Step]) -> None:
    outcome = virtual_time.run(read, Server(steps), ModelSettings(**settings), backend=backend)
    assert (outcome.text, outcome.error, outcome.finished) == ("a", None, True)


@on_both
def test_the_readers_own_time_does_not_count(backend: str) -> None:
    server = Server([5, text("a"), 5, text("b"), 5, LAST, DONE], opens_after=5)
    settings = ModelSettings(timeout=6, first_timeout=11, total_timeout=21)
    outcome = virtual_time.run(read, server, settings, 1000, backend=backend)
    assert (outcome.text, outcome.error, outcome.finished) == ("ab", None, True)


@on_both
def test_a_reply_that_has_said_how_it_ended_is_whole_however_long_its_end_takes(backend: str) -> None:
    outcome = virtual_time.run(read, Server([text("a"), LAST, 99, DONE]), ModelSettings(timeout=30), backend=backend)
    assert (outcome.text, outcome.error, outcome.finished) == ("a", None, True)
    assert outcome.seconds == pytest.approx(30)


@on_both
@pytest.mark.parametrize("opens_after", [0.0, 99.0])
def test_a_cancel_from_outside_is_no_timeout(backend: str, opens_after: float) -> None:
    async def reading() -> tuple[bool, float]:
        with anyio.move_on_after(10) as scope:
            await read(Server([text("a"), 99], opens_after=opens_after), ModelSettings(timeout=30))
        return scope.cancelled_caught, anyio.current_time()

    start = virtual_time.run(_now, backend=backend)
    cancelled, end = virtual_time.run(reading, backend=backend)
    assert (cancelled, end - start) == (True, pytest.approx(10))


async def _now() -> float:
    return anyio.current_time()


def test_a_native_cancel_is_no_timeout() -> None:
    async def reading() -> bool:
        task = asyncio.ensure_future(read(Server([text("a"), 99]), ModelSettings(timeout=30)))
        await anyio.sleep(10)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert virtual_time.run(reading, backend="asyncio")


@pytest.mark.parametrize(
    ("settings", "client_options", "limits"),
    [
        ({}, {}, {"connect": 5.0, "read": 600, "write": 600, "pool": 600}),
        ({}, {"timeout": 7.0}, {"connect": 7.0, "read": 7.0, "write": 7.0, "pool": 7.0}),
        ({"timeout": 900.0}, {}, {"connect": 5.0, "read": None, "write": None, "pool": None}),
        ({"total_timeout": 900.0}, {"timeout": 7.0}, {"connect": 7.0, "read": None, "write": None, "pool": None}),
        ({"first_timeout": 900.0}, {}, {"connect": 5.0, "read": 900.0, "write": None, "pool": None}),
        ({"first_timeout": 9.0}, {}, {"connect": 5.0, "read": 600, "write": None, "pool": None}),
        ({"first_timeout": 9.0}, {"timeout": None}, {"connect": None, "read": None, "write": None, "pool": None}),
    ],
)
async def test_the_http_librarys_limits_do_not_pass_before_ours(
    settings: dict[str, Any], client_options: dict[str, Any], limits: dict[str, float | None]
) -> None:
    server = Server([text("a"), LAST, DONE])
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(server.answer)) as http_client:
        client = openai.AsyncOpenAI(api_key="k", base_url="http://server/v1", http_client=http_client, **client_options)
        request = ModelRequest(messages=[Message("user", "Hi")], settings=ModelSettings(**settings))
        async with OpenAIChatModel("m", client=client).stream(request) as stream:
            assert [event async for event in stream]
    assert server.limits == limits


@pytest.mark.parametrize("status", [200, 500])
async def test_a_server_that_hangs_in_plain_json_or_an_error_is_left(status: int) -> None:
    never = anyio.Event()
    reply = Reply([b"{", never], status=status, headers={"content-type": "application/json"})
    async with HTTPServer(sse(text("a"), LAST, DONE), reply) as server:
        model = OpenAIChatModel("m", base_url=server.base_url)
        async with model.stream(ModelRequest(messages=[Message("user", "Hi")])) as stream:
            assert [event async for event in stream]  # the first request makes the client, which takes its time
        request = ModelRequest(messages=[Message("user", "Hi")], settings=ModelSettings(total_timeout=0.2))
        with anyio.fail_after(5):
            with pytest.raises(ModelTimeoutError, match=r"total_timeout=0\.2"):
                async with model.stream(request) as stream:
                    assert [event async for event in stream]
            await server.disconnected.wait()
