"""Serve an agent over HTTP: the reply is sent while the model writes it, and ends when the client goes away.

Run it, or serve it and ask it (with MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini before, a real model answers):

    python examples/starlette_endpoint.py
    uvicorn --app-dir examples starlette_endpoint:app
    curl -N 'localhost:8000/ask?prompt=Count+to+300'
"""

import os
import re
from collections.abc import AsyncIterator

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from mastra_py import Agent
from mastra_py.events import ModelEvent, ModelFinished, TextDelta, TextEnd, TextStart
from mastra_py.models import ModelRequest
from mastra_py.testing import FunctionModel

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")
COUNTED: list[int] = []  # how far each reply of the stand-in had come when it was closed


class StreamedText:
    """An ASGI response: one run of an agent, its text sent piece by piece.

    The run's block begins and ends in one task, here. A StreamingResponse round an async generator would leave it to
    others when and where that generator is closed, and would learn only from the next piece that nobody listens.
    """

    def __init__(self, agent: Agent, prompt: str) -> None:
        """Take what is to be run; nothing runs yet."""
        self.agent = agent
        self.prompt = prompt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the agent and send what it says."""
        async with self.agent.stream(self.prompt) as stream, anyio.create_task_group() as tasks:
            tasks.start_soon(_leave_with_client, receive, tasks.cancel_scope)
            texts = stream.text_deltas()
            first = await anext(texts, "")  # what fails before any text can still become an HTTP error
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": first.encode(), "more_body": True})
            async for text in texts:
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
            await send({"type": "http.response.body"})
            tasks.cancel_scope.cancel()


async def _leave_with_client(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def count(request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """Stand in for a model: count, slowly, to the number that is asked for."""
    number, said = int(re.findall(r"\d+", request.messages[-1].text)[-1]), 0
    try:
        yield TextStart()
        for said in range(1, number + 1):
            yield TextDelta(f"{said} ")
            await anyio.sleep(0.01)
        yield TextEnd()
        yield ModelFinished(finish_reason="stop")
    finally:
        COUNTED.append(said)


agent = Agent(id="counter", model=REAL_MODEL or FunctionModel(count))


async def ask(request: Request) -> StreamedText:
    """Answer ``GET /ask?prompt=...``."""
    return StreamedText(agent, request.query_params["prompt"])


app = Starlette(routes=[Route("/ask", ask)])


async def fetch(prompt: str, *, leave_after: int | None = None) -> list[str]:
    """Be server and client of ``app`` in one: return the pieces of its reply, leaving after so many of them."""
    pieces: list[str] = []
    gone = anyio.Event()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if body := message.get("body"):
            pieces.append(body.decode())
        if len(pieces) == leave_after:
            gone.set()

    query = f"prompt={prompt.replace(' ', '+')}".encode()
    await app({"type": "http", "method": "GET", "path": "/ask", "query_string": query, "headers": []}, receive, send)
    return pieces


async def main() -> None:
    """Read one reply to its end, and leave another one in the middle."""
    whole = await fetch("Count to 5")
    print("".join(whole))
    left = await fetch("Count to 10000", leave_after=2)
    print(f"left after {len(left)} pieces")
    assert whole
    assert 2 <= len(left) < 1000
    if REAL_MODEL is None:
        assert "".join(whole) == "1 2 3 4 5 "
        # The model's reply was closed before the app was done with the request, the second time far from its end.
        assert COUNTED[-2] == 5
        assert COUNTED[-1] < 1000


if __name__ == "__main__":
    anyio.run(main)
