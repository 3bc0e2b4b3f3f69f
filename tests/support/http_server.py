"""A real HTTP server on a real socket that plays scripted replies: bytes cut as a test wants them, on both backends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup

WIRE = Path(__file__).parent.parent / "wire"

Piece: TypeAlias = bytes | anyio.Event
"""Bytes to send at once, or an event to wait for before what follows is sent."""


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """A reply to play.

    ``body`` as bytes goes out at once with its length; as pieces they go out one by one, each as a chunk of its own
    (``framing="chunked"``) or raw until the connection closes (``framing="close"``). ``after`` is waited for before the
    first byte. ``breaks_off`` ends the connection after the body, without the end that HTTP wants; ``hangs_up`` ends it
    without an answer.
    """

    body: bytes | Sequence[Piece] = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    framing: Literal["chunked", "close"] = "chunked"
    after: anyio.Event | None = None
    breaks_off: bool = False
    hangs_up: bool = False


Script: TypeAlias = Reply | Callable[[Request], Reply]


def sse(*pieces: bytes | str | anyio.Event, **options: Any) -> Reply:
    """Return a reply that streams server-sent events in these pieces."""
    body = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return Reply(body, headers={"content-type": "text/event-stream"}, **options)


def chunks(*payloads: Mapping[str, Any], done: bool = True) -> list[str]:
    """Return one server-sent event a payload, and ``[DONE]`` after them."""
    events = [f"data: {json.dumps(payload)}\n\n" for payload in payloads]
    return [*events, "data: [DONE]\n\n"] if done else events


def one_byte_at_a_time(data: bytes) -> list[bytes]:
    """Return ``data`` cut into single bytes."""
    return [data[i : i + 1] for i in range(len(data))]


class HTTPServer:
    """Plays its replies in order, the last one again and again, within an ``async with`` block.

    Attributes:
        requests: the requests seen.
        connections: how many connections were made.
        disconnected: set when a client has gone before its reply was over.
    """

    def __init__(self, *script: Script) -> None:
        self._script = script
        self.requests: list[Request] = []
        self.connections = 0
        self.disconnected = anyio.Event()
        self._tasks: TaskGroup
        self._port = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> Self:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self._port = listener.extra(SocketAttribute.local_port)  # noqa: S610 -- no Django here
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(listener.serve, self._serve)
        self._listener = listener
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            with anyio.CancelScope(shield=True):
                await self._listener.aclose()

    async def _serve(self, stream: SocketStream) -> None:
        self.connections += 1
        async with stream:
            buffer = bytearray()
            while (request := await _read_request(stream, buffer)) is not None:
                script = self._script[min(len(self.requests), len(self._script) - 1)]
                self.requests.append(request)
                reply = script if isinstance(script, Reply) else script(request)
                if not await self._play(reply, stream):
                    return

    async def _play(self, reply: Reply, stream: SocketStream) -> bool:
        """Play a reply; return whether the connection can be used again."""
        over = False

        async def watch() -> None:
            # A client sends nothing while it waits for its reply: what can be read is the end of the connection.
            try:
                await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                await _send_reply(reply, stream)
                over = True
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
            tasks.cancel_scope.cancel()
        if not over:
            self.disconnected.set()
        return over and not (reply.breaks_off or reply.hangs_up or reply.framing == "close")


async def _read_request(stream: SocketStream, buffer: bytearray) -> Request | None:
    try:
        while (end := buffer.find(b"\r\n\r\n")) < 0:
            buffer += await stream.receive()
        lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        whole = end + 4 + int(headers.get("content-length", 0))
        while len(buffer) < whole:
            buffer += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return None
    body = bytes(buffer[end + 4 : whole])
    del buffer[:whole]
    method, path, _ = lines[0].split(" ")
    return Request(method, path, headers, body)


async def _send_reply(reply: Reply, stream: SocketStream) -> None:
    if reply.after is not None:
        await reply.after.wait()
    if reply.hangs_up:
        return
    headers = dict(reply.headers)
    body: Iterable[Piece]
    if isinstance(reply.body, bytes):
        body = [reply.body]
        headers["content-length"] = str(len(reply.body) + reply.breaks_off)
        chunked = False
    else:
        body = reply.body
        chunked = reply.framing == "chunked"
        headers["transfer-encoding" if chunked else "connection"] = reply.framing
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    await stream.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
    for piece in body:
        if isinstance(piece, anyio.Event):
            await piece.wait()
        elif piece:
            await stream.send(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
    if chunked and not reply.breaks_off:
        await stream.send(b"0\r\n\r\n")
