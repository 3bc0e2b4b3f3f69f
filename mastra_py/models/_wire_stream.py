"""One reply over HTTP as model events: what all providers whose SDK stands on ``httpx2`` have in common.

Opening, reading, leaving early, time limits, and the translation of whatever goes wrong on the way. What the reply says
is the matter of a :class:`Decoder`, which does no I/O.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio

from mastra_py.errors import ModelError, ModelTimeoutError, StreamError
from mastra_py.events import ModelEvent
from mastra_py.models._clients import unwind
from mastra_py.models._failures import Failures, TimeLimitError
from mastra_py.models._reply import Decoder, ReplyReader
from mastra_py.models.settings import ModelSettings

DRAIN_SECONDS = 0.5
"""How long a server may take to end the body of a reply that is whole; after that its connection is closed."""

_T = TypeVar("_T")


class Patience:
    """How long the provider is waited for. Time that the reader takes between two events does not count."""

    __slots__ = ("_begun", "_between", "_first", "_silent", "_total", "_waited")

    def __init__(self, settings: ModelSettings) -> None:
        self._between = settings.timeout
        self._first = settings.first_timeout
        self._total = settings.total_timeout
        self._begun = False  # the first piece has come
        self._silent = 0.0  # seconds waited since the last piece, or since the request was sent
        self._waited = 0.0  # seconds waited in all

    @property
    def is_endless(self) -> bool:
        """Whether no limit is set."""
        return self._between is None and self._first is None and self._total is None

    def got_piece(self) -> None:
        """Take note that a piece of the reply has come."""
        self._begun = True
        self._silent = 0.0

    async def wait(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Return what ``call`` returns.

        Raises:
            TimeLimitError: a limit has passed.
        """
        left, passed = self._next_limit()
        start = anyio.current_time()
        with anyio.CancelScope(deadline=start + left):
            try:
                return await call()
            finally:
                waited = anyio.current_time() - start
                self._silent += waited
                self._waited += waited
        # Only a scope that has caught its own cancellation is left here; one from outside goes on.
        raise TimeLimitError(passed)

    def _next_limit(self) -> tuple[float, str]:
        """Return the seconds that are left of the limit that passes first, and the words for its passing."""
        limits: list[tuple[float, str]] = []
        if not self._begun and self._first is not None:
            words = f"no piece of the reply came within first_timeout={self._first:g} seconds"
            limits.append((self._first - self._silent, words))
        elif self._between is not None:
            piece = "further piece" if self._begun else "piece"
            words = f"no {piece} of the reply came for timeout={self._between:g} seconds"
            limits.append((self._between - self._silent, words))
        if self._total is not None:
            words = f"the reply was not over within total_timeout={self._total:g} seconds"
            limits.append((self._total - self._waited, words))
        return min(limits, default=(float("inf"), ""))


class WireStream:
    """The events of one reply, within an ``async with`` block.

    A plain class rather than a generator: one that is closed elsewhere, or by the garbage collector, would break the
    cancel scopes around it. Leaving the block early closes the connection; a reply that was read to its end gives it
    back for the next one.
    """

    def __init__(
        self,
        post: Callable[[], Awaitable[Any]],
        decoder: Decoder,
        *,
        sdk: Any,
        provider: str,
        model: str,
        settings: ModelSettings | None = None,
        on_error: Callable[[ModelError], None] | None = None,
    ) -> None:
        """Prepare a reply.

        ``post`` sends the request and returns the ``httpx2.Response`` with its body unread; ``sdk`` is the module that
        has the exceptions it raises. Of ``settings`` the time limits are kept. ``on_error`` is called with each error
        once, when all is known about it and before it is raised; it may set what the model has ``learned``.
        """
        settings = settings or ModelSettings()
        self._post = post
        self._reader = reader = ReplyReader(decoder)
        self._events = reader.events
        self._failures = Failures(sdk=sdk, provider=provider, model=model, settings=settings, on_error=on_error)
        patience = Patience(settings)
        self._patience = None if patience.is_endless else patience  # a scope a piece costs as much as reading it
        self._response: Any = None
        self._chunks: AsyncGenerator[bytes]
        self._raised = False  # the failure of the reply; asked again, the stream raises the same error

    async def __aenter__(self) -> Self:
        try:
            response = await self._wait(self._post)
        except self._failures.opening as exc:
            raise self._failures.opening_error(exc) from exc
        self._response = response
        # Decoding a body that is not compressed would only copy it. One that a hook of the user's has read is there.
        as_it_is = not (response.is_stream_consumed or "content-encoding" in response.headers)
        self._chunks = response.aiter_raw() if as_it_is else response.aiter_bytes()
        self._reader.headers = response.headers
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._response.is_closed:
            await self._chunks.aclose()  # which has come to its end, unless the body had been read before
            return
        reader = self._reader
        whole = reader.finished and reader.failure is None
        if whole and exc_type is None and not self._events:
            await self._drain()
        await self._abandon()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ModelEvent:
        events = self._events
        while not events:
            reader, patience = self._reader, self._patience
            if reader.failure is not None:
                raise self._completed(reader.failure)
            if reader.finished:
                raise StopAsyncIteration
            try:
                if patience is None:
                    piece = await self._chunks.__anext__()
                else:
                    piece = await patience.wait(self._chunks.__anext__)
            except StopAsyncIteration:
                piece = None
            except self._failures.transport as exc:
                reader.break_off(self._reading_error(exc))
                continue
            reader.feed(piece)
            if patience is not None and events:
                patience.got_piece()
        return events.popleft()

    async def _wait(self, call: Callable[[], Awaitable[_T]]) -> _T:
        return await (call() if self._patience is None else self._patience.wait(call))

    def _reading_error(self, exc: Exception) -> ModelError:
        error: ModelError
        if isinstance(exc, TimeLimitError):
            error = ModelTimeoutError(str(exc))
        elif self._failures.is_timeout(exc):
            error = ModelTimeoutError("the provider stopped answering in the middle of its reply")
        else:
            error = StreamError(f"the connection broke in the middle of the reply: {exc}")
        error.__cause__ = exc
        return error

    def _completed(self, error: ModelError) -> ModelError:
        if not self._raised:
            self._raised = True
            self._failures.completed(error, self._response, error.__cause__)
        return error

    async def _drain(self) -> None:
        """Read the body to its end, so that the connection can serve the next request."""
        with anyio.move_on_after(DRAIN_SECONDS):
            try:
                async for _ in self._chunks:
                    pass
            except self._failures.transport:
                return  # the reply is whole all the same

    async def _abandon(self) -> None:
        if self._response.is_closed:
            return
        await unwind(self._chunks, self._failures.transport)
        with anyio.CancelScope(shield=True):
            await self._response.aclose()
