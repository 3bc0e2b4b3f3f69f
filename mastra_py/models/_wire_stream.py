"""One reply over HTTP as model events: what all providers whose SDK stands on ``httpx2`` have in common.

Opening, reading, leaving early, and the translation of whatever goes wrong on the way. What the reply says is the
matter of a :class:`Decoder`, which does no I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Protocol, Self, cast

import anyio

from mastra_py.errors import ModelConnectionError, ModelError, ModelTimeoutError, StreamError
from mastra_py.events import ModelEvent
from mastra_py.models._clients import http_library
from mastra_py.models._errors import model_error
from mastra_py.models._json import read_json
from mastra_py.models._sse import SSESplitter

DRAIN_SECONDS = 1.0
"""How long a server may take to end the body of a reply that is whole; after that its connection is closed."""

_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)
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


class WireStream:
    """The events of one reply, within an ``async with`` block.

    A plain class rather than a generator: one that is closed elsewhere, or by the garbage collector, would break the
    cancel scopes around it. Leaving the block early closes the connection; a reply that was read to its end gives it
    back for the next one.
    """

    def __init__(
        self, post: Callable[[], Awaitable[Any]], decoder: Decoder, *, sdk: Any, provider: str, model: str
    ) -> None:
        """Prepare a reply.

        ``post`` sends the request and returns the ``httpx2.Response`` with its body unread; ``sdk`` is the module that
        has the exceptions it raises.
        """
        self._post = post
        self._decoder = decoder
        self._sdk = sdk
        self._provider = provider
        self._model = model
        self._splitter = SSESplitter()
        self._events: deque[ModelEvent] = deque()
        self._failure: ModelError | None = None  # raised once the events before it are read
        self._response: Any = None
        self._chunks: Any = None
        self._http = http = http_library()
        # The last two come out of TLS connections as they are.
        self._failures = (http.HTTPError, http.StreamError, OSError, anyio.EndOfStream, anyio.BrokenResourceError)
        self._timeouts = (http.TimeoutException, TimeoutError)

    async def __aenter__(self) -> Self:
        try:
            response = await self._post()
        except (self._sdk.APIError, *self._failures) as exc:
            raise self._opening_error(exc) from exc
        self._response = response
        # Decoding a body that is not compressed would only copy it.
        self._chunks = response.aiter_bytes() if "content-encoding" in response.headers else response.aiter_raw()
        if response.headers.get("content-type", "").startswith("application/json"):
            await self._read_plain_json()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._response.is_closed:
            return
        whole = self._decoder.finished and self._failure is None
        if whole and exc_type is None and not self._events:
            await self._drain()
        if not self._response.is_closed:
            await self._abandon()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ModelEvent:
        events = self._events
        while not events:
            if self._failure is not None:
                raise self._failure
            if self._decoder.finished:
                raise StopAsyncIteration
            await self._read()
        return events.popleft()

    async def _read(self) -> None:
        """Read one piece of the body. A failure waits behind the events that came before it."""
        try:
            piece = await self._chunks.__anext__()
        except StopAsyncIteration:
            piece = None
        except self._failures as exc:
            self._break_off(exc)
            return
        try:
            self._decode(piece)
        except ModelError as exc:
            self._fail(exc)
        except _UNREADABLE as exc:
            self._fail(StreamError(f"the reply cannot be read: {exc}"), exc)

    def _decode(self, piece: bytes | None) -> None:
        decoder = self._decoder
        for name, data in self._splitter.close() if piece is None else self._splitter.feed(piece):
            if decoder.finished:
                return
            if data == b"[DONE]":
                self._events.extend(decoder.end(marked=True))
            elif data:
                self._events.extend(decoder.decode(read_json(data), name))
        if piece is None and not decoder.finished:
            self._events.extend(decoder.end(marked=False))

    def _break_off(self, exc: Exception) -> None:
        try:
            # A reply that has said how it ended is whole, however its connection ends.
            self._events.extend(self._decoder.end(marked=False))
        except ModelError:
            if isinstance(exc, self._timeouts):
                self._fail(ModelTimeoutError("the provider stopped answering in the middle of its reply"), exc)
            else:
                self._fail(StreamError(f"the connection broke in the middle of the reply: {exc}"), exc)

    def _fail(self, error: ModelError, cause: Exception | None = None) -> None:
        if cause is not None:
            error.__cause__ = cause
        self._failure = self._completed(error)
        self._events.extend(self._decoder.fail())

    async def _read_plain_json(self) -> None:
        """Raise what a server means that answers 200 with plain JSON: most of them an error."""
        try:
            body = read_json(b"".join([piece async for piece in self._chunks]))
        except self._failures as exc:
            msg = f"the connection broke in the middle of the reply: {exc}"
            raise self._completed(StreamError(msg)) from exc
        except ValueError as exc:
            msg = "the reply is neither an event stream nor JSON"
            raise self._completed(StreamError(msg)) from exc
        if isinstance(body, dict) and body.get("error"):  # pyright: ignore[reportUnknownMemberType] -- any JSON
            raise self._completed(model_error(body=body, headers=self._response.headers))
        msg = "the provider answered with plain JSON instead of an event stream; does it support streaming?"
        raise self._completed(StreamError(msg, retryable=False, body=body))

    async def _drain(self) -> None:
        """Read the body to its end, so that the connection can serve the next request."""
        with anyio.move_on_after(DRAIN_SECONDS):
            try:
                async for _ in self._chunks:
                    pass
            except self._failures:
                return  # the reply is whole all the same

    async def _abandon(self) -> None:
        # Closing the outermost of httpx2's generators leaves the inner ones to the garbage collector, about which trio
        # warns. Resumed in a cancelled scope, they all unwind at the innermost one's next await.
        with anyio.CancelScope(shield=True) as scope:
            scope.cancel()
            try:
                async for _ in self._chunks:
                    pass
            except self._failures:
                pass  # nobody is left who wants to know
        with anyio.CancelScope(shield=True):
            await self._response.aclose()

    def _opening_error(self, exc: Exception) -> ModelError:
        cause = exc.__cause__ or exc
        for found in (exc, cause):  # one SDK wraps whatever a hook of the user's client raises, the other does not
            if isinstance(found, (self._sdk.APIStatusError, self._http.HTTPStatusError)):
                return self._status_error(cast("Any", found).response)
        detail = str(cause) or type(cause).__name__
        if isinstance(exc, (self._sdk.APITimeoutError, *self._timeouts)):
            return self._completed(ModelTimeoutError(f"the provider did not answer in time: {detail}"))
        return self._completed(ModelConnectionError(f"the provider could not be reached: {detail}"))

    def _status_error(self, response: Any) -> ModelError:
        # The whole body: the SDK keeps only what is inside of its "error".
        try:
            body = read_json(response.content)
        except ValueError:
            body = response.text or None
        except self._http.ResponseNotRead:  # a hook of the user's client has closed it
            body = None
        return self._completed(model_error(status=response.status_code, headers=response.headers, body=body))

    def _completed(self, error: ModelError) -> ModelError:
        error.provider = error.provider or self._provider
        error.model = error.model or self._model
        if self._response is not None and error.request_id is None:
            headers = self._response.headers
            error.request_id = headers.get("x-request-id") or headers.get("request-id")
        return error
