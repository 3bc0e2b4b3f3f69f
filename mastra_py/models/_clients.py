"""The SDKs' clients: one per event loop run, base URL and key, closed when the run ends.

A client belongs to the event loop it was first used on: kept on a model it would break in a second ``asyncio.run``, on
another backend and in another thread. So clients are kept beside the loop, the package's one piece of global state.

The SDKs and their HTTP library are imported here and on first use only: they take longer than all the rest.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import suppress
from functools import cache
from typing import Any, Protocol, TypeAlias, TypeVar

import anyio
from anyio.lowlevel import RunVar

CLOSE_SECONDS = 1.0
"""How long closing the connections may hold up the end of a run."""


class SDKClient(Protocol):
    """What is used of the client of a provider's SDK: ``openai.AsyncOpenAI``, ``anthropic.AsyncAnthropic``."""

    @property
    def base_url(self) -> Any: ...

    @property
    def post(self) -> Callable[..., Awaitable[Any]]: ...

    async def close(self) -> None: ...


ClientT = TypeVar("ClientT", bound=SDKClient)
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


def openai_client(base_url: str | None, api_key: str) -> SDKClient:
    """Return this event loop's client of an OpenAI-compatible server; ``None`` is the SDK's own base URL."""

    def make() -> SDKClient:
        sdk = openai_sdk()
        http_client = sdk.DefaultAsyncHttpx2Client(verify=_ssl_context())
        return sdk.AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0, http_client=http_client)

    return cached_client(("openai", base_url, api_key), make)


def anthropic_client(base_url: str, api_key: str) -> SDKClient:
    """Return this event loop's client of a server that speaks Anthropic's API."""

    def make() -> SDKClient:
        sdk = anthropic_sdk()
        http_client = sdk.DefaultAsyncHttpxClient(verify=_ssl_context())
        return sdk.AsyncAnthropic(base_url=base_url, api_key=api_key, max_retries=0, http_client=http_client)

    return cached_client(("anthropic", base_url, api_key), make)


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


@cache
def _ssl_context() -> Any:
    # 17 ms each: one for the process is enough, and threads may share it.
    return http_library().create_ssl_context()
