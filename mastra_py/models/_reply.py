"""One reply, from the bytes that arrive to model events. Pure: the network is the matter of ``_wire_stream``."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol, cast

from mastra_py.errors import ModelError, StreamError
from mastra_py.events import ModelEvent
from mastra_py.models._error_body import is_error
from mastra_py.models._errors import model_error
from mastra_py.models._json import read_json
from mastra_py.models._sse import BOM, SSEEvent, SSESplitter

_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What reading a chunk of an unexpected shape raises."""

MAX_PLAIN_BYTES = 1024 * 1024
"""How much is read of a body that is no event stream."""

_BLANK = BOM + b" \t\r\n"
_MAX_BLANK_BYTES = 1024  # a server may keep its connection alive with empty lines
_PLAIN = (b"{", b"[", b"<", b"\0")
"""What no event stream begins with: JSON, a web page, AWS's own framing. The content type is not reliable."""


class Decoder(Protocol):
    """What a wire module knows about its replies. Pure.

    Raised :class:`ModelError` may leave out provider, model and request id: they are filled in.
    """

    @property
    def finished(self) -> bool:
        """Whether the reply is whole. What follows is not decoded."""
        ...

    def decode(self, chunk: dict[str, Any], name: str | None, /) -> list[ModelEvent]:
        """Return the events of one chunk; ``name`` is that of its server-sent event."""
        ...

    def end(self, *, marked: bool) -> list[ModelEvent]:
        """End the reply: at its ``[DONE]``, or else at the end of its body.

        Raises:
            StreamError: it broke off.
        """
        ...

    def fail(self) -> list[ModelEvent]:
        """End the reply because it failed, whatever the cause: a ``ModelFinished`` where it is known to have cost."""
        ...


class _NoChunkError(ValueError):
    """The data of an event is no JSON object. Whatever the reply was to say, it is over."""


class ReplyReader:
    """Reads one reply.

    Attributes:
        headers: those of the response, for the error that a body may be which is no event stream.
        events: the events that have not been taken yet.
        failure: what the reply failed with; it counts once the events before it are taken.
        finished: whether the reply is whole.
    """

    __slots__ = ("_beginning", "_decoder", "_is_stream", "_splitter", "events", "failure", "finished", "headers")

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._splitter = SSESplitter()
        self._beginning = bytearray()  # what has come until it is known to be an event stream
        self._is_stream = False
        self.headers: Mapping[str, str] = {}
        self.events: deque[ModelEvent] = deque()
        self.failure: ModelError | None = None
        self.finished = False

    def feed(self, piece: bytes | None) -> None:
        """Read a piece of the body; ``None`` is its end."""
        if not self._is_stream:
            piece = self._begin(piece)
            if not self._is_stream:
                return
        try:
            self._decode(self._splitter.close() if piece is None else self._splitter.feed(piece))
            if piece is None and not self._decoder.finished:
                self.events.extend(self._decoder.end(marked=False))
            self.finished = self._decoder.finished
        except ModelError as exc:
            self.fail(exc)
        except _NoChunkError as exc:
            self.break_off(_unreadable(exc))
        except _UNREADABLE as exc:
            self.fail(_unreadable(exc))

    def break_off(self, error: ModelError) -> None:
        """Read that nothing readable follows. A reply that has said how it ended is whole all the same."""
        try:
            self.events.extend(self._decoder.end(marked=False))
        except ModelError:
            self.fail(error)
        else:
            self.finished = True

    def fail(self, error: ModelError) -> None:
        """End the reply with ``error``, behind the events that came before it."""
        self.failure = error
        self.events.extend(self._decoder.fail())

    def _decode(self, news: list[SSEEvent]) -> None:
        decoder, events = self._decoder, self.events
        for name, data in news:
            if decoder.finished:
                break
            if data == b"[DONE]":
                events.extend(decoder.end(marked=True))
            elif data:
                try:
                    chunk: object = read_json(data)
                except ValueError as exc:
                    if name == "error":  # in words only
                        raise model_error(body=data.decode("utf-8", "replace")) from exc
                    raise _NoChunkError(str(exc)) from exc
                if type(chunk) is dict:
                    events.extend(decoder.decode(cast("dict[str, Any]", chunk), name))
                elif chunk is not None:  # a null keeps the connection alive
                    msg = f"an object is expected, there is {type(chunk).__name__}"
                    raise _NoChunkError(msg)

    def _begin(self, piece: bytes | None) -> bytes | None:
        """Return what has come of an event stream, once it is known to be one. Of anything else make an error."""
        beginning = self._beginning
        beginning += piece or b""
        start = bytes(beginning[:_MAX_BLANK_BYTES]).lstrip(_BLANK)[:1]
        if start in _PLAIN:
            if piece is None or len(beginning) > MAX_PLAIN_BYTES:
                self.fail(_plain_error(bytes(beginning), self.headers))
            return None
        if not start and piece is not None and len(beginning) < _MAX_BLANK_BYTES:
            return None
        self._is_stream = True
        self._beginning = bytearray()
        return None if piece is None else bytes(beginning)


def _unreadable(why: Exception) -> StreamError:
    error = StreamError(f"the reply cannot be read: {why}")
    error.__cause__ = why
    return error


def _plain_error(data: bytes, headers: Mapping[str, str]) -> ModelError:
    """Return what a server means that answers 200 with a body that is no event stream: most of them an error."""
    if len(data) > MAX_PLAIN_BYTES:
        msg = f"the provider answered with more than {MAX_PLAIN_BYTES} bytes that are no event stream"
        return StreamError(msg, retryable=False)
    if data[:1] == b"\0":
        msg = (
            "the provider answered in binary, as AWS does, which is not read; ask an API that sends server-sent events"
        )
        return StreamError(msg, retryable=False)
    if data.lstrip(_BLANK)[:1] == b"<":
        msg = "the provider answered with a web page instead of an event stream; is the base URL right, with its path?"
        return StreamError(msg, retryable=False, body=data.decode("utf-8", "replace"))
    try:
        body = read_json(data.removeprefix(BOM))
    except ValueError as exc:
        error = StreamError("the reply is neither an event stream nor JSON")
        error.__cause__ = exc
        return error
    said = cast("list[Any]", body)[:1] if isinstance(body, list) else [body]
    if any(isinstance(each, dict) and is_error(cast("dict[str, object]", each)) for each in said):
        return model_error(body=body, headers=headers)
    msg = "the provider answered with plain JSON instead of an event stream; does it support streaming?"
    return StreamError(msg, retryable=False, body=body)
