"""One reply, from the bytes that arrive to model events. Pure: the network is the matter of ``_wire_stream``."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from mastra_py.errors import ModelError, StreamError
from mastra_py.events import ModelEvent
from mastra_py.models._json import read_json
from mastra_py.models._sse import SSESplitter

_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What reading a chunk of an unexpected shape raises."""


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


class ReplyReader:
    """Reads one reply.

    Attributes:
        events: the events that have not been taken yet.
        failure: what the reply failed with; it counts once the events before it are taken.
        finished: whether the reply is whole.
    """

    __slots__ = ("_decoder", "_splitter", "events", "failure", "finished")

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._splitter = SSESplitter()
        self.events: deque[ModelEvent] = deque()
        self.failure: ModelError | None = None
        self.finished = False

    def feed(self, piece: bytes | None) -> None:
        """Read a piece of the body; ``None`` is its end."""
        decoder, events = self._decoder, self.events
        try:
            for name, data in self._splitter.close() if piece is None else self._splitter.feed(piece):
                if decoder.finished:
                    break
                if data == b"[DONE]":
                    events.extend(decoder.end(marked=True))
                elif data:
                    events.extend(decoder.decode(read_json(data), name))
            if piece is None and not decoder.finished:
                events.extend(decoder.end(marked=False))
            self.finished = decoder.finished
        except ModelError as exc:
            self.fail(exc)
        except _UNREADABLE as exc:
            error = StreamError(f"the reply cannot be read: {exc}")
            error.__cause__ = exc
            self.fail(error)

    def break_off(self, error: ModelError) -> None:
        """Read that the connection broke. A reply that has said how it ended is whole all the same."""
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
