"""The SDKs' clients: one per event loop run, base URL and key, on the same connections; closed when the run ends.

A client belongs to the event loop it was first used on: kept on a model it would break in a second ``asyncio.run``, on
another backend and in another thread. So clients are kept beside the loop, the package's one piece of global state.

The SDKs and their HTTP library are imported here and on first use only: they take longer than all the rest.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable
from contextlib import suppress
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Protocol, TypeAlias, TypeVar

import anyio
from anyio.lowlevel import RunVar

from mastra_py.models._redact import is_secret_name

CLOSE_SECONDS = 1.0
"""How long closing the connections may hold up the end of a run."""

MOST_KEYS = 100
"""How many clients of a server are kept: applications have a key for each of their users."""

MAX_ERROR_BYTES = 256 * 1024
"""How much is read of the body of a response that is no success."""

_MAX_COMPRESSED_BYTES = 64 * 1024  # of such a body; unpacked it may be a thousand times that


class SDKClient(Protocol):
    """What is used of the client of a provider's SDK: ``openai.AsyncOpenAI``, ``anthropic.AsyncAnthropic``."""

    @property
    def base_url(self) -> Any: ...

    @property
    def post(self) -> Callable[..., Awaitable[Any]]: ...

    async def close(self) -> None: ...


class _Closable(Protocol):
    async def close(self) -> None: ...


ClientT = TypeVar("ClientT", bound=_Closable)
_Clients: TypeAlias = dict[Hashable, Any]

_run_clients: RunVar[tuple[_Clients, AsyncGenerator[None]]] = RunVar("mastra_py_clients")


def openai_sdk() -> Any:
    """Return the module ``openai``."""
    import openai

    return openai


def anthropic_sdk() -> Any:
    """Return the module ``anthropic``."""
    import anthropic

    return anthropic


def http_library() -> Any:
    """Return the module ``httpx2``, on which the SDKs stand."""
    import httpx2

    return httpx2


def openai_client(base_url: str, api_key: str) -> SDKClient:
    """Return this event loop's client of a server that speaks OpenAI's API."""

    def make() -> _Server:
        sdk = openai_sdk()
        http_client = sdk.DefaultAsyncHttpx2Client(**_http_options())
        return _Server(sdk.AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0, http_client=http_client))

    return cached_client(("openai", base_url), make).client(api_key)


def anthropic_client(base_url: str, api_key: str) -> SDKClient:
    """Return this event loop's client of a server that speaks Anthropic's API."""

    def make() -> _Server:
        sdk = anthropic_sdk()
        http_client = sdk.DefaultAsyncHttpxClient(**_http_options())
        return _Server(sdk.AsyncAnthropic(base_url=base_url, api_key=api_key, max_retries=0, http_client=http_client))

    return cached_client(("anthropic", base_url), make).client(api_key)


class _Server:
    """The clients of one server: one a key, all on the same connections."""

    def __init__(self, first: Any) -> None:
        self._first = first
        self._clients: dict[str, SDKClient] = {}

    def client(self, api_key: str) -> SDKClient:
        """Return the client for a key; those used last are kept. What is dropped holds nothing of its own."""
        client = self._clients.pop(api_key, None) or self._first.copy(api_key=api_key)
        self._clients[api_key] = client
        if len(self._clients) > MOST_KEYS:
            del self._clients[next(iter(self._clients))]
        return client

    async def close(self) -> None:
        await self._first.close()


def cached_client(key: Hashable, make: Callable[[], ClientT]) -> ClientT:
    """Return the client that this event loop run keeps for ``key``, made by ``make`` on first use."""
    clients = _clients()
    if key not in clients:
        clients[key] = make()
    return clients[key]


def _clients() -> _Clients:
    kept = _run_clients.get(None)
    if kept is None:
        clients: _Clients = {}
        keeper = _close_at_end(clients)
        # Started but never resumed: both backends close the generators that are left when a run ends. Nothing is
        # awaited before the yield, so one step by hand starts it.
        with suppress(StopIteration):
            keeper.__anext__().send(None)
        kept = (clients, keeper)
        _run_clients.set(kept)
    return kept[0]


async def _close_at_end(clients: _Clients) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        # trio closes generators in a cancelled scope. A connection that does not close must not hold up the end.
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            while clients:
                _, client = clients.popitem()
                await client.close()


def _http_options() -> dict[str, Any]:
    # Who is told apart by keys must not be taken for one another by cookies: none is kept.
    cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    hooks = {"response": [_bound_error_body, _keep_secrets_at_home]}
    return {"verify": _ssl_context(), "event_hooks": hooks, "cookies": cookies}


@cache
def _ssl_context() -> Any:
    # 17 ms each: one for the process is enough, and threads may share it.
    return http_library().create_ssl_context()


async def _bound_error_body(response: Any) -> None:
    """Cut off what is no reply: the SDKs read the bodies of errors whole, whatever their size is."""
    if response.status_code >= 300:
        size = _MAX_COMPRESSED_BYTES if "content-encoding" in response.headers else MAX_ERROR_BYTES
        response.stream = _cut_stream()(response.stream, size)


async def _keep_secrets_at_home(response: Any) -> None:
    """Take the credentials off a request that is redirected to another server: the library knows one header of them."""
    if not response.has_redirect_location:
        return
    here = response.request.url
    there = here.join(response.headers["location"])
    upgraded = (here.scheme, there.scheme) == ("http", "https") and (here.port, there.port) == (None, None)
    if here.host == there.host and (upgraded or (here.scheme, here.port) == (there.scheme, there.port)):
        return
    for name in [name for name in response.request.headers if is_secret_name(name)]:
        del response.request.headers[name]


@cache
def _cut_stream() -> Any:
    http = http_library()

    class CutStream(http.AsyncByteStream):
        """The beginning of a stream."""

        def __init__(self, stream: Any, size: int) -> None:
            self._stream = stream
            self._size = size

        async def __aiter__(self) -> AsyncGenerator[bytes]:
            left = self._size
            pieces: AsyncIterator[bytes] = self._stream.__aiter__()
            async for piece in pieces:
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    await unwind(pieces, (http.HTTPError, OSError))
                    return

        async def aclose(self) -> None:
            await self._stream.aclose()

    return CutStream


async def unwind(chunks: AsyncIterator[bytes], failures: tuple[type[Exception], ...]) -> None:
    """End the reading of a body in its middle.

    Closing the outermost of the HTTP library's generators leaves the inner ones to the garbage collector, about which
    trio warns. Resumed in a cancelled scope, they all unwind at the innermost one's next await.
    """
    with anyio.CancelScope(shield=True) as scope:
        scope.cancel()
        try:
            async for _ in chunks:
                pass
        except failures:
            pass  # nobody is left who wants to know
