from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from support.http_server import HTTPServer, Reply, chunks, sse

from mastra_py.events import TextDelta
from mastra_py.messages import Message
from mastra_py.models import ModelRequest, OpenAIChatModel
from mastra_py.models._clients import MOST_KEYS, cached_client, openai_client

HI = {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}
REPLY: Reply = sse(*chunks(HI))


class FakeClient:
    """A client that only knows whether it was closed."""

    base_url = "http://fake/v1"

    def __init__(self) -> None:
        self.closed = 0

    async def post(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed += 1


async def say(model: OpenAIChatModel) -> str:
    async with model.stream(ModelRequest(messages=[Message("user", "Hello")])) as stream:
        return "".join([event.text async for event in stream if isinstance(event, TextDelta)])


async def test_one_event_loop_has_one_client_a_server_and_key() -> None:
    client = openai_client("http://a/v1", "k1")
    assert openai_client("http://a/v1", "k1") is client
    assert openai_client("http://b/v1", "k1") is not client
    assert openai_client("http://a/v1", "k2") is not client


async def test_models_of_one_server_share_its_connections() -> None:
    async with HTTPServer(REPLY) as server:
        for name in ("m1", "m2", "m1"):
            assert await say(OpenAIChatModel(name, base_url=server.base_url)) == "Hi"
    assert server.connections == 1
    assert [request.json["model"] for request in server.requests] == ["m1", "m2", "m1"]


async def test_keys_share_the_connections_of_a_server_and_each_goes_with_its_own_request() -> None:
    cookie = sse(*chunks(HI))
    cookie = Reply(cookie.body, headers={**cookie.headers, "set-cookie": "session=of-the-first; Path=/"})
    async with HTTPServer(cookie) as server:
        for key in ("key-one", "key-two", "key-one"):
            assert await say(OpenAIChatModel("m1", base_url=server.base_url, api_key=key)) == "Hi"
    assert server.connections == 1
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer key-one",
        "Bearer key-two",
        "Bearer key-one",
    ]
    assert not any("cookie" in request.headers for request in server.requests)


async def test_of_very_many_keys_those_used_last_are_kept() -> None:
    first = openai_client("http://a/v1", "first")
    others = [openai_client("http://a/v1", f"k{n}") for n in range(MOST_KEYS - 1)]
    assert openai_client("http://a/v1", "first") is first
    openai_client("http://a/v1", "one more")
    assert openai_client("http://a/v1", "first") is first
    assert openai_client("http://a/v1", "k0") is not others[0]


def test_a_run_closes_its_clients_when_it_ends(anyio_backend: str) -> None:
    made: list[FakeClient] = []

    def make() -> FakeClient:
        made.append(FakeClient())
        return made[-1]

    async def main() -> None:
        for key in ("a", "b", "a"):
            cached_client(key, make)
        assert [client.closed for client in made[-2:]] == [0, 0]

    for runs in (1, 2, 3):
        anyio.run(main, backend=anyio_backend)
        assert [client.closed for client in made] == [1, 1] * runs


def test_a_failing_run_closes_them_too(anyio_backend: str) -> None:
    made: list[FakeClient] = []

    async def main() -> None:
        made.append(cached_client("a", FakeClient))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        anyio.run(main, backend=anyio_backend)
    assert [client.closed for client in made] == [1]


def runs(model: OpenAIChatModel, backend: str) -> str:
    return anyio.run(say, model, backend=backend)


def run_again_and_again(model: OpenAIChatModel) -> list[str]:
    return [runs(model, backend) for backend in ("asyncio", "asyncio", "trio", "trio", "asyncio")]


def run_in_threads(model: OpenAIChatModel) -> list[str]:
    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda backend=backend: texts.append(runs(model, backend)))
        for backend in ("asyncio", "trio", "asyncio", "trio")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return texts


@pytest.mark.parametrize("use", [run_again_and_again, run_in_threads])
async def test_one_model_serves_many_event_loops(use: Callable[[OpenAIChatModel], list[str]]) -> None:
    async with HTTPServer(REPLY) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url)
        with anyio.fail_after(20):
            texts = await anyio.to_thread.run_sync(use, model)
            texts.append(await say(model))
    assert texts == ["Hi"] * (len(server.requests))
    assert server.connections == len(server.requests)


PROGRAM = """
import gc, sys, warnings
warnings.simplefilter("error")
sys.unraisablehook = lambda u: (print("UNRAISABLE", u.exc_value, u.object), sys.__unraisablehook__(u))
import logging
logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
import {native}
from mastra_py.events import TextDelta
from mastra_py.messages import Message
from mastra_py.models import ModelRequest, OpenAIChatModel

model = OpenAIChatModel("m1", base_url={url!r})

async def main(stop_early):
    async with model.stream(ModelRequest(messages=[Message("user", "Hello")])) as stream:
        async for event in stream:
            if stop_early and isinstance(event, TextDelta):
                break

for stop_early in (False, True, False):
    {native}.run(main{call})
    gc.collect()
print("done")
"""


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)  # the server's, which makes no difference
@pytest.mark.parametrize("native", ["asyncio", "trio"])
async def test_a_program_ends_without_a_warning(native: str) -> None:
    async with HTTPServer(REPLY) as server:
        call = "(stop_early)" if native == "asyncio" else ", stop_early"
        code = PROGRAM.format(native=native, url=server.base_url, call=call)
        with anyio.fail_after(30):
            done = await anyio.run_process(
                [sys.executable, "-W", "error", "-c", code], check=False, stderr=subprocess.STDOUT
            )
    assert (done.returncode, done.stdout.decode().split()) == (0, ["done"])
