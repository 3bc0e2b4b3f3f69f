"""What holds for every test: it runs on both event loops, stays off the network, and leaves nothing behind.

``test_guards.py`` proves each of these rules by breaking it.
"""

from __future__ import annotations

import functools
import gc
import inspect
import ipaddress
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any

import hypothesis
import pytest

# A deadline an example measures how busy the machine is, not the code. The rest stays as hypothesis chose it for here.
hypothesis.settings.register_profile("mastra_py", hypothesis.settings(deadline=None))
hypothesis.settings.load_profile("mastra_py")


# --- both event loops


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test on asyncio and on trio."""
    return request.param


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test marked ``asyncio``, which pytest-asyncio runs, one backend only.

    anyio's auto mode takes every async test for its own and would list that one twice, once as ``[trio]``, and
    pytest-asyncio would run it on asyncio both times.
    """
    test = metafunc.definition
    if test.get_closest_marker("asyncio") and "anyio_backend" in metafunc.fixturenames:
        test.add_marker(pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True))


# --- off the network

_refused: list[str] = []


def _is_here(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode("idna")
    if host in {None, "", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


def _refuse_network(event: str, args: tuple[Any, ...]) -> None:
    """Audit hook: raise where Python code looks up or contacts any host but this one.

    The interpreter itself asks it, so nothing is patched, and worker threads and libraries are covered. The error is an
    ``AssertionError`` because no code takes that for a network fault to be retried; where it is swallowed all the same,
    the fixture below fails the test.
    """
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        sock, address = args
        host = address[0] if address and sock.family in {socket.AF_INET, socket.AF_INET6} else None
    elif event in {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}:
        host = args[0]
    else:
        return
    if not _is_here(host):
        msg = f"tests stay off the network: {event} of {host!r} was refused"
        _refused.append(msg)
        raise AssertionError(msg)


sys.addaudithook(_refuse_network)


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    yield
    if _refused:
        first = _refused[0]
        _refused.clear()
        pytest.fail(first, pytrace=False)


# --- nothing left behind


@pytest.fixture(autouse=True)
def _no_leaks(_no_network: None) -> Iterator[None]:
    """Free what a test has left in reference cycles while it can still be blamed for it.

    A coroutine never awaited, a socket never closed, or an exception in a finaliser is then a warning or an unraisable
    exception of this very test, and pytest makes both an error. Freezing the survivors keeps a collection at a
    few microseconds, however much has been imported.
    """
    yield
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    """Set aside what importing the tests has made."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let pytest's own last collection see everything."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Report lost async generators on asyncio too, which closes them in silence where trio warns."""
    if pyfuncitem.funcargs.get("anyio_backend") == "asyncio" and inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = _reporting_lost_generators(pyfuncitem.obj)
    return (yield)


def _reporting_lost_generators(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def reporting(**arguments: Any) -> None:
        close = sys.get_asyncgen_hooks().finalizer

        def report(generator: Any) -> None:
            if close is not None:
                close(generator)
            msg = f"async generator {generator.__qualname__!r} was dropped before it was exhausted or closed"
            warnings.warn(msg, ResourceWarning, stacklevel=2, source=generator)

        sys.set_asyncgen_hooks(finalizer=report)  # of this event loop: the loop puts back the old ones when it stops
        await test(**arguments)

    return reporting
