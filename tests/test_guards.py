"""The rules of ``conftest.py``, each proven by a test that breaks it."""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = Path(__file__).parent


@pytest.fixture
def guarded(pytester: pytest.Pytester) -> pytest.Pytester:
    """Return an empty folder whose tests run under this project's own configuration and conftest."""
    shutil.copy(TESTS.parent / "pyproject.toml", pytester.path)
    shutil.copy(TESTS / "conftest.py", pytester.path)
    return pytester


def run(guarded: pytest.Pytester, source: str) -> dict[str, str]:
    """Run ``source`` as a test module in a process of its own; return the outcome of each test, by name.

    A test that passed and was failed by what it left behind counts as ``left``.
    """
    module = guarded.makepyfile(test_it=inspect.cleandoc(source))
    result = guarded.runpytest_subprocess("-p", "no:cacheprovider", "-rA", module.name)
    outcomes: dict[str, str] = {}
    for line in result.outlines:
        word, _, rest = line.partition(" ")
        if word in {"PASSED", "FAILED", "ERROR"} and f"{module.name}::" in rest:
            name = rest.partition("::")[2].partition(" ")[0]
            outcomes[name] = "left" if word == "ERROR" and outcomes.get(name) == "passed" else word.lower()
    return outcomes


def on_both(outcomes: dict[str, str]) -> dict[str, set[str]]:
    """Gather the outcomes of each async test over its backends, which have to be two."""
    names = {name.partition("[")[0] for name in outcomes}
    assert set(outcomes) == {f"{name}[{backend}]" for name in names for backend in ("asyncio", "trio")}
    return {name: {outcomes[f"{name}[asyncio]"], outcomes[f"{name}[trio]"]} for name in names}


def test_what_an_async_test_leaves_behind_fails_it_on_both_backends(guarded: pytest.Pytester) -> None:
    outcomes = run(
        guarded,
        """
        import socket
        import anyio
        import pytest

        async def work():
            await anyio.lowlevel.checkpoint()

        async def numbers():
            yield 1
            yield 2

        class Cycle:
            def __init__(self, held):
                self.held, self.me = held, self

        async def test_leaves_nothing():
            stream = numbers()
            await anext(stream)
            await stream.aclose()
            assert [number async for number in numbers()] == [1, 2]
            with socket.socket():
                await work()

        async def test_forgets_to_await():
            work()

        async def test_forgets_to_await_in_a_cycle():
            Cycle(work())

        async def test_leaves_a_socket_open():
            socket.socket()

        async def test_leaves_a_socket_open_in_a_cycle():
            Cycle(socket.socket())

        async def test_leaves_a_stream_half_read():
            async for _ in numbers():
                break

        async def test_drops_a_stream_at_once():
            await anext(numbers())

        async def test_raises_in_a_finaliser():
            class Broken:
                def __del__(self):
                    raise RuntimeError("in a finaliser")
            Broken()

        async def test_raises_in_a_thread_of_its_own():
            import threading
            def fail():
                raise RuntimeError("in a thread")
            thread = threading.Thread(target=fail)
            thread.start()
            thread.join()

        async def test_is_warned():
            import warnings
            warnings.warn("old", DeprecationWarning)

        async def test_leaves_nothing_either():
            pass
        """,
    )
    by_test = on_both(outcomes)
    assert by_test.pop("test_leaves_nothing") == {"passed"}
    assert by_test.pop("test_leaves_nothing_either") == {"passed"}
    assert len(by_test) == 9
    assert {name: seen for name, seen in by_test.items() if "passed" in seen} == {}


def test_what_a_sync_test_leaves_behind_fails_it(guarded: pytest.Pytester) -> None:
    outcomes = run(
        guarded,
        """
        import socket

        async def work():
            pass

        def test_leaves_nothing():
            pass

        def test_forgets_to_await():
            work()

        def test_leaves_a_socket_open():
            socket.socket()
        """,
    )
    assert outcomes.pop("test_leaves_nothing") == "passed"
    assert len(outcomes) == 2
    assert "passed" not in outcomes.values()


def test_any_host_but_this_one_is_refused(guarded: pytest.Pytester) -> None:
    outcomes = run(
        guarded,
        """
        import contextlib
        import socket
        import anyio
        import httpx2

        async def test_connects_to_an_address():
            await anyio.connect_tcp("192.0.2.1", 9)

        async def test_connects_to_an_address_of_ipv6():
            await anyio.connect_tcp("2001:db8::1", 9)

        async def test_looks_up_a_name():
            await anyio.getaddrinfo("example.com", 443)

        async def test_sends_a_datagram():
            with socket.socket(type=socket.SOCK_DGRAM) as sock:
                sock.sendto(b"x", ("192.0.2.1", 9))

        async def test_asks_over_http():
            async with httpx2.AsyncClient() as client:
                await client.get("https://example.com")

        async def test_swallows_the_refusal():
            with contextlib.suppress(BaseException):
                await anyio.to_thread.run_sync(socket.create_connection, ("example.com", 443))
        """,
    )
    by_test = on_both(outcomes)
    assert by_test.pop("test_swallows_the_refusal") == {"left"}
    assert len(by_test) == 5
    assert {name: seen for name, seen in by_test.items() if "passed" in seen or "left" in seen} == {}


def test_this_host_is_reached(guarded: pytest.Pytester) -> None:
    outcomes = run(
        guarded,
        """
        import anyio
        import pytest

        @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
        async def test_talks_over_tcp(host):
            async def answer(stream):
                async with stream:
                    await stream.send(await stream.receive())

            async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
                port = listener.extra(anyio.abc.SocketAttribute.local_port)
                async with anyio.create_task_group() as group:
                    group.start_soon(listener.serve, answer)
                    async with await anyio.connect_tcp(host, port) as stream:
                        await stream.send(b"hello")
                        assert await stream.receive() == b"hello"
                    group.cancel_scope.cancel()

        async def test_talks_over_a_unix_socket(tmp_path):
            async with await anyio.create_unix_listener(tmp_path / "socket"):
                async with await anyio.connect_unix(tmp_path / "socket"):
                    pass
        """,
    )
    assert len(outcomes) == 6
    assert set(outcomes.values()) == {"passed"}


def test_a_test_marked_asyncio_runs_exactly_once(guarded: pytest.Pytester) -> None:
    outcomes = run(
        guarded,
        """
        import asyncio
        import pytest

        runs = []

        @pytest.mark.asyncio
        async def test_marked():
            assert asyncio.get_running_loop()
            runs.append("marked")

        class TestOfAClass:
            @pytest.mark.asyncio
            @pytest.mark.parametrize("number", [1, 2])
            async def test_marked(self, number):
                runs.append(number)

        async def test_not_marked(anyio_backend_name):
            runs.append(anyio_backend_name)

        def test_count():
            assert sorted(map(str, runs)) == ["1", "2", "asyncio", "marked", "trio"]
        """,
    )
    assert set(outcomes.values()) == {"passed"}
    assert sorted(outcomes) == [
        "TestOfAClass::test_marked[1-asyncio]",
        "TestOfAClass::test_marked[2-asyncio]",
        "test_count",
        "test_marked[asyncio]",
        "test_not_marked[asyncio]",
        "test_not_marked[trio]",
    ]


def test_an_unknown_marker_is_an_error(guarded: pytest.Pytester) -> None:
    module = guarded.makepyfile(test_it="import pytest\n\n@pytest.mark.misspelt\ndef test_it(): pass")
    result = guarded.runpytest_subprocess("-p", "no:cacheprovider", module.name)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*'misspelt' not found in `markers`*"])
